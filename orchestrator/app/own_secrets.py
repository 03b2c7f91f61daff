"""Which secrets this process holds: what no request, journal, log line or verdict may show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from orchestrator.app.audit.signing_keys import read_key_text
from orchestrator.engine.redaction import Redactor
from orchestrator.errors import InputError

NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL")
"""An environment variable whose name holds one of these holds a secret."""

_USERINFO = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s@:]*:([^/\s@]+)@", re.IGNORECASE)
_PARAMETER = re.compile(r"[?&\s]password=([^&\s]+)", re.IGNORECASE)
_PEM_LINE = re.compile(r"[A-Za-z0-9+/=]{24,}")


def make_redactor(environment: Mapping[str, str]) -> Redactor:
    """Knows the secrets in an environment, and the audit key, which may lie in a file.

    Those that only the configuration names are added when it has been read.
    """
    return Redactor(_secrets(environment))


def _secrets(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        for password in (*_USERINFO.findall(value), *_PARAMETER.findall(value)):
            yield password
            yield unquote(password)
        if any(word in name.upper() for word in NAMES) and not _is_path(value):
            yield from _parts(value)
    try:
        yield from _parts(read_key_text(environment))
    except InputError:
        return  # said in full where the key is used; what cannot be read, nothing can give away


def _parts(value: str) -> Iterator[str]:
    """A value, and the lines of a key in it: each is a secret of its own."""
    yield value
    if "-----BEGIN" in value:
        yield from _PEM_LINE.findall(value.replace("\\n", "\n"))


def _is_path(value: str) -> bool:
    """Whether it names a file, as ``..._KEY_FILE`` and ``..._CREDENTIALS`` often do."""
    try:
        return value.startswith(("/", "~/", "./")) and Path(value).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False
