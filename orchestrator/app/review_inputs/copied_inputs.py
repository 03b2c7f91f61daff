"""Copies all files that a review is given, before any of them is read.

The change's tests wrote its coverage reports, so only their paths are trusted: those of the command
line, and those of base's configuration, which can name only files in the work tree.
"""

import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import anyio.to_thread
from msgspec import to_builtins
from msgspec.json import encode

from diffchecks.check_io import CheckReply
from diffchecks.file_patterns import file_names, matches
from diffchecks.imported_reports.formats import FORMATS
from diffchecks.jobs import GivenCoverage, GivenReport
from diffchecks.safe_paths import SafeDirectory
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.settings import ReviewSettings
from orchestrator.code_review.analyzers.own_checks import COMPARISON_SECONDS, call_check
from orchestrator.code_review.change.contents import Contents
from orchestrator.code_review.change.file_export import temporary_directory
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.tools.tool_inputs import CopiedAdvisories, GivenFiles
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.errors import InputError, SandboxError, StoreError
from orchestrator.sandbox.worker_pool import WorkerPool

MAX_REPORT_BYTES = 64 << 20  # bytes of one report
COVERAGE = "intake/coverage"
IMPORTS = "intake/imports"
ADVISORIES = "intake/advisories"
ADVISORIES_FILE = "advisories.json"
DUMP = "give the folder of an OSV dump, or its all.zip"


async def copy_advisories(
    options: ReviewOptions,
    settings: ReviewSettings,
    change: Change,
    journal: Journal,
    *,
    pool: WorkerPool,
    root: Path,
    scratch: Path,
) -> CopiedAdvisories | None:
    """Copy the advisories of the packages that the change touches, before they are read.

    A dump has tens of thousands; the run keeps the few that a resumed run must find again. A dump
    that the user names takes precedence over that of base's settings.

    Returns:
        None if there is no dump. A dump of the configuration that cannot be read is a gap.

    Raises:
        InputError: the dump that a user names cannot be read, or is no dump.
        StoreError: the copy cannot be written.
    """
    given, declared = options.advisories, settings.advisories
    if given is None and declared is None:
        return None
    place = Path(given) if given is not None else root / (declared or "")

    async def perform() -> EffectResult:
        try:
            wanted = await _changed_packages(change, pool)
            found = await anyio.to_thread.run_sync(partial(_copied, place, wanted, scratch))
        except InputError as error:
            if given is not None:
                raise
            found = {"gaps": {place.name: str(error)}}
        return EffectResult(found)

    recorded: Any = await journal.effect(
        ADVISORIES, {"given": given, "declared": declared}, perform
    )
    path = str(scratch / ADVISORIES_FILE) if "sha256" in recorded else ""
    return CopiedAdvisories(path, recorded["gaps"])


async def _changed_packages(change: Change, pool: WorkerPool) -> set[tuple[str, str]]:
    """Ecosystem and name of the packages that the change adds or moves to another version."""
    manifests = file_names("manifests")
    files = [file for file in change.files if file.new_blob and matches(file.path, manifests)]
    if not files or not change.has_tree:
        return set()
    with temporary_directory() as folder:
        async with Contents(change) as contents:
            head = {file.path: file.new_blob for file in files if file.new_blob}
            base = {
                file.old_path: file.old_blob for file in files if file.old_path and file.old_blob
            }
            await contents.export("head", head, folder / "head")
            await contents.export("base", base, folder / "base")
        job = {"head_root": str(folder / "head"), "base_root": str(folder / "base"), "files": files}
        function = "dependencies.changed_packages:run"
        try:
            reply = await call_check(pool, function, job, COMPARISON_SECONDS, CheckReply)
        except SandboxError as error:
            raise InputError(f"the changed packages could not be listed: {error}") from None
    return {(ecosystem, name) for ecosystem, name in reply.facts["packages"]}


def _copied(place: Path, wanted: Collection[tuple[str, str]], scratch: Path) -> dict[str, Any]:
    """Copy the advisories of some packages; returns the copy's SHA-256, and what was not read."""
    # It imports the checks of dependencies, which few reviews need in this process.
    from diffchecks.dependencies.advisory_dump import search_dump  # noqa: PLC0415

    try:
        if not wanted:
            place.stat()
            return {"gaps": {}}
        search = search_dump(place, wanted)
    except OSError as error:
        why = f"cannot read the advisories {place.name}: {error.strerror}; {DUMP}"
        raise InputError(why) from None
    if not search.read and not search.passed_over:
        raise InputError(f"{place.name} holds no OSV advisories; {DUMP}")
    data = encode([advisory for _, advisory in sorted(search.found.items())])
    write_copy(scratch / ADVISORIES_FILE, data)
    problems = search.problems({ecosystem for ecosystem, _ in wanted})
    gaps = {place.name: "; ".join(problems)} if problems else {}
    return {"sha256": hashlib.sha256(data).hexdigest(), "gaps": gaps}


def write_copy(place: Path, data: bytes) -> None:
    """Write a copy that a resumed run reads again."""
    try:
        place.write_bytes(data)
    except OSError as error:
        raise StoreError(f"cannot write {place}: {error.strerror}") from None


async def copy_given_files(
    options: ReviewOptions,
    settings: ReviewSettings,
    change: Change,
    journal: Journal,
    *,
    pool: WorkerPool,
    root: Path,
    scratch: Path,
) -> GivenFiles:
    """Copy the files that the options and base's settings name, once: a resumed run reads the same.

    Args:
        root: the top of the work tree, to which the paths in base's settings are relative.

    Raises:
        InputError: one that the command line names cannot be read, or is too large.
        StoreError: a copy cannot be written.
    """
    given, declared, imports = (
        list(names) for names in (options.coverage, settings.coverage, options.imports)
    )
    coverage = await _copied_once(
        journal,
        COVERAGE,
        {"given": given, "declared": declared},
        partial(_copy_coverage, given, declared, root, scratch),
        scratch,
    )
    imported = await _copied_once(
        journal, IMPORTS, {"given": imports}, partial(_copy_imported, imports, scratch), scratch
    )
    return GivenFiles(
        tuple(GivenCoverage(**one) for one in coverage),
        tuple(GivenReport(**one) for one in imported),
        await copy_advisories(
            options, settings, change, journal, pool=pool, root=root, scratch=scratch
        ),
    )


async def _copied_once(
    journal: Journal,
    key: str,
    request: dict[str, list[str]],
    copy: Callable[[], list[tuple[Any, bytes]]],
    scratch: Path,
) -> list[dict[str, Any]]:
    """The reports with the paths of their copies; recorded by name and SHA-256."""
    if not any(request.values()):
        return []

    async def perform() -> EffectResult:
        found = await anyio.to_thread.run_sync(copy)
        return EffectResult(
            [[to_builtins(report), hashlib.sha256(data).hexdigest()] for report, data in found]
        )

    recorded: Any = await journal.effect(key, request, perform)
    return [{**report, "path": str(scratch / report["path"])} for report, _ in recorded]


def _copy_coverage(
    given: Sequence[str], declared: Sequence[str], root: Path, scratch: Path
) -> list[tuple[GivenCoverage, bytes]]:
    found = []
    for number, (name, file) in enumerate(chain(_named(given), _present(declared, root))):
        with file:
            about = os.fstat(file.fileno())
            if about.st_size > MAX_REPORT_BYTES:
                raise InputError(
                    f"the coverage report {name} is larger than {MAX_REPORT_BYTES >> 20} MB"
                )
            data = file.read()
        copy = f"coverage-{number}"
        write_copy(scratch / copy, data)
        found.append((GivenCoverage(name, copy, about.st_mtime), data))
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


def split_format(given: str) -> tuple[str, str]:
    """The format and the file of ``FORMAT:FILE`` or ``FILE``; the format is empty without one."""
    name, colon, file = given.partition(":")
    return (name, file) if colon and name in FORMATS else ("", given)


def _copy_imported(given: Sequence[str], scratch: Path) -> list[tuple[GivenReport, bytes]]:
    """Copy reports, whose absolute paths are given with or without a prefix ``FORMAT:``."""
    found = []
    for number, (form, name) in enumerate(map(split_format, given)):
        place, copy, refused = Path(name), f"imported-{number}", ""
        try:
            with place.open("rb") as file:
                data = file.read(MAX_REPORT_BYTES + 1)
        except OSError as error:
            raise InputError(f"cannot read the report {place.name}: {error.strerror}") from None
        if len(data) > MAX_REPORT_BYTES:
            data = b""
            refused = f"is larger than {MAX_REPORT_BYTES >> 20} MiB; import a report of less"
        write_copy(scratch / copy, data)
        found.append((GivenReport(place.name, copy, form, refused), data))
    return found
