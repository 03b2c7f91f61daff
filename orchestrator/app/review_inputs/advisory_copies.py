"""Copies the advisories of the packages that a change touches, before they are read.

A dump has tens of thousands; the run keeps the few that a resumed run must find again.
"""

import hashlib
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
from msgspec.json import encode

from diffchecks.check_io import CheckReply
from diffchecks.file_patterns import LOCK_FILES, MANIFESTS, matches
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.settings import ReviewSettings
from orchestrator.code_review.analyzers.own_checks import COMPARISON_SECONDS, call_check
from orchestrator.code_review.change.contents import Contents
from orchestrator.code_review.change.file_export import temporary_directory
from orchestrator.code_review.change.types import Change, ChangedFile
from orchestrator.code_review.tools.tool_inputs import CopiedAdvisories
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.errors import InputError, SandboxError, StoreError
from orchestrator.sandbox.worker_pool import WorkerPool

KEY = "intake/advisories"
COPY = "advisories.json"
WHERE = "give the folder of an OSV dump, or its all.zip"


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
    """Copy the advisories for the run, once: a resumed run reads the same ones.

    A dump that the user names takes precedence over that of base's settings.

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

    kept: Any = await journal.effect(KEY, {"given": given, "declared": declared}, perform)
    path = str(scratch / COPY) if "sha256" in kept else ""
    return CopiedAdvisories(path, kept["gaps"])


async def _changed_packages(change: Change, pool: WorkerPool) -> set[tuple[str, str]]:
    """Ecosystem and name of the packages that the change adds or moves to another version."""
    files = [file for file in change.files if _is_read(file)]
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


def _is_read(file: ChangedFile) -> bool:
    return matches(file.path, (*LOCK_FILES, *MANIFESTS)) and file.new_blob is not None


def _copied(place: Path, wanted: Collection[tuple[str, str]], scratch: Path) -> dict[str, Any]:
    """Copy the advisories of some packages; returns the copy's SHA-256, and what was not read."""
    # It imports the checks of dependencies, which few reviews need in this process.
    from orchestrator.app.review_inputs.advisory_dump import search_dump  # noqa: PLC0415

    try:
        if not wanted:
            place.stat()
            return {"gaps": {}}
        search = search_dump(place, wanted)
    except OSError as error:
        why = f"cannot read the advisories {place.name}: {error.strerror}; {WHERE}"
        raise InputError(why) from None
    if not search.read and not search.passed_over:
        raise InputError(f"{place.name} holds no OSV advisories; {WHERE}")
    data = encode([advisory for _, advisory in sorted(search.found.items())])
    write_copy(scratch / COPY, data)
    problems = search.problems({ecosystem for ecosystem, _ in wanted})
    gaps = {place.name: "; ".join(problems)} if problems else {}
    return {"sha256": hashlib.sha256(data).hexdigest(), "gaps": gaps}


def write_copy(place: Path, data: bytes) -> None:
    """Write a copy that a resumed run reads again.

    Raises:
        StoreError: it cannot be written.
    """
    try:
        place.write_bytes(data)
    except OSError as error:
        raise StoreError(f"cannot write {place}: {error.strerror}") from None
