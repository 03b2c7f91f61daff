"""The secrets of files, with the lines in which they stand, for those who must not show them."""

from contextlib import suppress
from typing import Any

from orchestrator.checks.check_io import Gap, Source, read
from orchestrator.checks.secrets.secret_scan import find_secrets_by_line


def run(job: dict[str, Any]) -> list[tuple[str, str]]:
    """Each secret and its whole line, of the files of a job; nothing of one that is not text."""
    found: dict[tuple[str, str], None] = {}
    for path in job["paths"]:
        with suppress(Gap):
            source = Source(path, read(job["root"], path))
            for number, secret in find_secrets_by_line(source):
                if secret:
                    found[secret, source.lines[number - 1].strip()] = None
    return list(found)
