"""Finds the secrets in files, with their lines, for code that must redact them."""

from contextlib import suppress
from typing import Any

from orchestrator.checks.check_io import Gap, Source, read
from orchestrator.checks.secrets.secret_scan import find_secrets_by_line


def run(job: dict[str, Any]) -> list[tuple[str, str]]:
    """Find each secret and its whole line in the files of a job; binary files are left out."""
    found: dict[tuple[str, str], None] = {}
    for path in job["paths"]:
        with suppress(Gap):
            source = Source(path, read(job["root"], path))
            for number, secret in find_secrets_by_line(source):
                if secret:
                    found[secret, source.lines[number - 1].strip()] = None
    return list(found)
