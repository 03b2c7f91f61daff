"""Copies the coverage reports of a review for the run, before they are read.

The change's tests wrote them, so only their paths are trusted: those of the command line, and those
of base's configuration, which can name only files in the work tree.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import anyio.to_thread
from msgspec import to_builtins

from diffchecks.jobs import GivenCoverage
from diffchecks.safe_paths import SafeDirectory
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.settings import ReviewSettings
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.errors import InputError, StoreError

MAX_REPORT_BYTES = 64 << 20  # bytes of one report
KEY = "intake/coverage"


async def copy_reports(
    options: ReviewOptions, settings: ReviewSettings, journal: Journal, *, root: Path, scratch: Path
) -> tuple[GivenCoverage, ...]:
    """Copy the coverage reports for the run, once: a resumed run reads the same bytes.

    Raises:
        InputError: one that the command line names cannot be read, or is too large.
        StoreError: a copy cannot be written.
    """
    given, declared = list(options.coverage), list(settings.coverage)
    if not given and not declared:
        return ()

    async def perform() -> EffectResult:
        found = await anyio.to_thread.run_sync(_copied, given, declared, root, scratch)
        return EffectResult(found)

    kept: Any = await journal.effect(KEY, {"given": given, "declared": declared}, perform)
    fields = (report for report, _ in kept)
    return tuple(
        GivenCoverage(**{**report, "path": str(scratch / report["path"])}) for report in fields
    )


def _copied(given: list[str], declared: list[str], root: Path, scratch: Path) -> list[Any]:
    """Copy each report; returns the report with the name of its copy, and its SHA-256."""
    found = []
    for number, (name, file) in enumerate(chain(_named(given), _present(declared, root))):
        copy = f"coverage-{number}"
        with file:
            about = os.fstat(file.fileno())
            if about.st_size > MAX_REPORT_BYTES:
                raise InputError(
                    f"the coverage report {name} is larger than {MAX_REPORT_BYTES >> 20} MB"
                )
            data = file.read()
        try:
            (scratch / copy).write_bytes(data)
        except OSError as error:
            raise StoreError(f"cannot write {scratch / copy}: {error.strerror}") from None
        report = GivenCoverage(name, copy, about.st_mtime)
        found.append([to_builtins(report), hashlib.sha256(data).hexdigest()])
    return found


def _named(names: Sequence[str]) -> Iterator[tuple[str, BinaryIO]]:
    """Open the files that the command line names."""
    for name in names:
        place = Path(name)
        try:
            yield place.name, place.open("rb")
        except OSError as error:
            why = f"cannot read the coverage report {place.name}: {error.strerror}"
            raise InputError(why) from None


def _present(names: Sequence[str], root: Path) -> Iterator[tuple[str, BinaryIO]]:
    """Open the declared files that exist below the root, without following links."""
    with SafeDirectory(root.resolve()) as top:
        for name in names:
            with suppress(OSError):
                yield name, os.fdopen(top.open(name), "rb")
