"""Redacts secrets in what is quoted, printed or shown of a change, and lists them.

Any quoted line may contain a password, regardless of what was found in it.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from diffchecks.check_io import Gap, Source, read
from diffchecks.secrets.redaction import redact_secrets
from diffchecks.secrets.secret_scan import find_secrets_by_line, secrets_in

QUOTE_LINES = 3
QUOTE_CHARACTERS = 300


def _shown(source: Source, cited: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    found = list(find_secrets_by_line(source))
    shown: dict[str, list[str]] = {}
    for name, of in cited.items():
        first, last = of["line"], of["end_line"]
        secrets = {*of["redact"], *(secret for n, secret in found if first <= n <= last)}
        quote = redact_secrets("\n".join(source.lines[first - 1 : last][:QUOTE_LINES]), secrets)
        if len(quote) > QUOTE_CHARACTERS:
            quote = quote[:QUOTE_CHARACTERS] + "…"
        shown[name] = [quote, *(redact_secrets(text, secrets) for text in of["texts"])]
    return shown


def redact_quotes(job: dict[str, Any]) -> dict[str, list[str]]:
    """Name of a finding → its redacted quote and texts; unreadable files are left out.

    Args:
        job: ``root`` and ``paths`` as for all checks, and ``cited``: path → name of a finding →
            ``line`` and ``end_line``, what else to ``redact``, and its ``texts``.
    """
    shown: dict[str, list[str]] = {}
    for path in job["paths"]:
        with suppress(Gap):
            shown |= _shown(Source(path, read(job["root"], path)), job["cited"][path])
    return shown


def redact_output(job: dict[str, Any]) -> str:
    """A program's output, the job's ``text``, without secrets."""
    return redact_secrets(job["text"], secrets_in("output.txt", job["text"]))


def list_secrets(job: dict[str, Any]) -> list[tuple[str, str]]:
    """Find each secret and its whole line in the files of a job; binary files are left out."""
    found: dict[tuple[str, str], None] = {}
    for path in job["paths"]:
        with suppress(Gap):
            source = Source(path, read(job["root"], path))
            for number, secret in find_secrets_by_line(source):
                if secret:
                    found[secret, source.lines[number - 1].strip()] = None
    return list(found)
