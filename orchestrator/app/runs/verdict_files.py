"""Reads verdicts from files, which are untrusted."""

from pathlib import Path

import msgspec

from orchestrator.code_review.verdict.model import SCHEMA_VERSION, Verdict
from orchestrator.errors import InputError
from orchestrator.foreign_json import parse_json

MAX_VERDICT_BYTES = 64 << 20
"""Bytes of a verdict; one of 3,000 files and 5,000 findings has some 20 MB."""


def read_verdict(path: Path) -> Verdict:
    """Read a verdict that ``diffcourt review --json`` wrote.

    Raises:
        InputError: it cannot be read, is too large, or is no verdict of this version.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_VERDICT_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(
            f"cannot read the verdict {name}: {why}; write one with diffcourt review --json FILE"
        ) from None
    if len(data) > MAX_VERDICT_BYTES:
        raise InputError(
            f"{name} is larger than {MAX_VERDICT_BYTES >> 20} MB, too large for a verdict"
        )
    return parse_verdict(data, name)


def parse_verdict(data: bytes, name: str) -> Verdict:
    """Parse a verdict's JSON.

    Raises:
        InputError: it is no verdict of this version.
    """
    try:
        document = parse_json(data)
    except ValueError:
        raise InputError(f"{name} is not JSON, so it is not a verdict") from None
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version is None:
        raise InputError(f"{name} is not a verdict: write one with diffcourt review --json FILE")
    if version != SCHEMA_VERSION:
        shown = str(version)[:40]
        raise InputError(
            f"{name} is a verdict of schema version {shown}; this diffcourt reads "
            f"{SCHEMA_VERSION}: use the version that wrote it"
        )
    try:
        return msgspec.convert(document, Verdict)
    except msgspec.ValidationError as error:
        raise InputError(f"{name} is not a valid verdict: {error}") from None
