"""Finds the secrets of this process, which no request, journal, log or verdict may contain."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from orchestrator.app.audit.signing_keys import read_key_text
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.errors import InputError

NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL")
"""An environment variable whose name contains one of these contains a secret."""

_USERINFO = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s@:]*:([^/\s@]+)@", re.IGNORECASE)
_PARAMETER = re.compile(r"[?&\s]password=([^&\s]+)", re.IGNORECASE)
_PEM_LINE = re.compile(r"[A-Za-z0-9+/=]{24,}")


def make_redactor(environment: Mapping[str, str]) -> Redactor:
    """Make a redactor for the secrets in the environment, and for the audit key.

    Secrets that the configuration names are added when it is read.
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
        return  # reported where the key is used; an unreadable key cannot leak


def _parts(value: str) -> Iterator[str]:
    """A value, and each line of a PEM key in it."""
    yield value
    if "-----BEGIN" in value:
        yield from _PEM_LINE.findall(value.replace("\\n", "\n"))


def _is_path(value: str) -> bool:
    """Whether a value is a file path, as that of ``..._KEY_FILE`` often is."""
    try:
        return value.startswith(("/", "~/", "./")) and Path(value).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False
