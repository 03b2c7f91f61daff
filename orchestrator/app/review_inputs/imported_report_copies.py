"""Copies the reports that ``--import`` names for the run, before they are read."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread
from msgspec import to_builtins

from diffchecks.imported_reports.formats import FORMATS
from diffchecks.jobs import GivenReport
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.errors import InputError, StoreError

MAX_REPORT_BYTES = 64 << 20  # bytes of one report
KEY = "intake/imports"


def split_format(given: str) -> tuple[str, str]:
    """The format and the file of ``FORMAT:FILE`` or ``FILE``; the format is empty without one."""
    name, colon, file = given.partition(":")
    return (name, file) if colon and name in FORMATS else ("", given)


async def copy_imported_reports(
    given: Sequence[str], journal: Journal, *, scratch: Path
) -> tuple[GivenReport, ...]:
    """Copy the reports for the run, once: a resumed run reads the same bytes.

    Args:
        given: absolute paths, each with or without a prefix ``FORMAT:``.

    Raises:
        InputError: a report cannot be read.
        StoreError: a copy cannot be written.
    """
    if not given:
        return ()
    names = list(given)

    async def perform() -> EffectResult:
        return EffectResult(await anyio.to_thread.run_sync(_copied, names, scratch))

    kept: Any = await journal.effect(KEY, {"given": names}, perform)
    return tuple(
        GivenReport(**{**report, "path": str(scratch / report["path"])}) for report, _ in kept
    )


def _copied(given: list[str], scratch: Path) -> list[Any]:
    """Copy each report; returns the report with the name of its copy, and its SHA-256."""
    found = []
    for number, (form, name) in enumerate(map(split_format, given)):
        place, copy = Path(name), f"imported-{number}"
        try:
            with place.open("rb") as file:
                data = file.read(MAX_REPORT_BYTES + 1)
        except OSError as error:
            why = f"cannot read the report {place.name}: {error.strerror}"
            raise InputError(why) from None
        refused = ""
        if len(data) > MAX_REPORT_BYTES:
            data, refused = (
                b"",
                f"is larger than {MAX_REPORT_BYTES >> 20} MiB; import a report of less",
            )
        try:
            (scratch / copy).write_bytes(data)
        except OSError as error:
            raise StoreError(f"cannot write {scratch / copy}: {error.strerror}") from None
        report = GivenReport(place.name, copy, form, refused)
        found.append([to_builtins(report), hashlib.sha256(data).hexdigest()])
    return found
