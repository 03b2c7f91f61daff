"""List, show and remove the runs of a journal store."""

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import anyio
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError, convert
from msgspec.json import decode
from msgspec.structs import replace

from orchestrator.app.runs import state_directory
from orchestrator.app.runs.cancellation import CANCELLED
from orchestrator.app.runs.verdict_files import read_verdict
from orchestrator.app.runs.verdict_recording import VERDICT, waiting_verdict
from orchestrator.app.types import (
    DAMAGE,
    PROGRAM,
    RunInfo,
    ShownRun,
    TimelineEntry,
    describe_damage,
    is_program_run,
    is_readable,
    review_options,
)
from orchestrator.code_review.verdict.model import Verdict, severity_counts
from orchestrator.engine.approvals import ASKED
from orchestrator.engine.journal import IMPORTED
from orchestrator.engine.journal_keys import FORK_NOTE, Key
from orchestrator.engine.journal_rows import Data, Effect, Intent, Note, RowBody, read_row
from orchestrator.engine.ports import Row, RunMeta
from orchestrator.errors import DiffcourtError, InputError
from orchestrator.stores.sql_store import RunStore

DAY = 24 * 3600.0


def list_runs(repo: Path | None) -> list[RunInfo]:
    """The runs of a repository, newest first."""
    return list_newest_runs(repo, None)[0]


def list_newest_runs(repo: Path | None, most: int | None) -> tuple[list[RunInfo], int]:
    """At most ``most`` runs of a repository, newest first, and the number of older ones."""
    with state_directory.open_store(repo) as store:
        return anyio.run(_list_newest, store, most)


async def _list_newest(store: RunStore, most: int | None) -> tuple[list[RunInfo], int]:
    runs = await store.runs()
    found = [await _summarize(store, run) for run in runs[:most]]
    return found, len(runs) - len(found)


async def _summarize(store: RunStore, run: RunMeta) -> RunInfo:
    """One run of the list; one that cannot be read is listed, and keeps no other back."""
    try:
        info = _describe_run(run, *await _find_verdict(store, run))
        ended = info.state == "interrupted" and await store.find(run.run_id, CANCELLED)
        return replace(info, state="cancelled") if ended else info
    except (*DAMAGE, DiffcourtError):
        return replace(_describe_run(run, None, final=False), state="unreadable")


async def _find_verdict(store: RunStore, run: RunMeta) -> tuple[Verdict | None, bool]:
    """A run's verdict, and whether it is final; that of a waiting run is not."""
    if is_program_run(run):
        # It goes on where a call waits for a person's approval.
        rows = await store.rows(run.run_id)
        ended = {row.key for row in rows if row.kind in {"outcome", "refusal"}}
        notes = (Key.parse(row.key) for row in rows if row.kind == "note")
        return None, not any(key.subject not in ended for key in notes if key.part == ASKED)
    found = await store.find(run.run_id, VERDICT)
    if found is not None:
        return _verdict_in(found), True
    return _verdict_in(waiting_verdict(await store.rows(run.run_id))), False


def prune_runs(
    repo: Path | None,
    keep: int | None,
    days: float | None,
    *,
    names: Sequence[str] = (),
    dry: bool = False,
) -> list[RunInfo]:
    """Remove runs permanently; returns them, newest first. Old ones being written are kept.

    Args:
        keep: number of newest runs to keep; None to remove by age only.
        days: minimum age of a removed run; one with a damaged entry has none, and stays.
        names: the runs to remove, instead of those chosen by number and age.

    Raises:
        RunNotFound: there is no run of such a name.
        RunLocked: a named one is being written.
    """
    directory = state_directory.state_dir(repo)

    def choose(runs: list[RunMeta]) -> list[RunMeta]:
        if names:
            named = [state_directory.find_run(name, runs) for name in names]
            return list({run.run_id: run for run in named}.values())
        before = time.time() - days * DAY if days is not None else math.inf
        old = [run for run in runs[keep or 0 :] if run.meta is not None and run.started < before]
        return [run for run in old if run.writer is None]

    with state_directory.open_store(repo) as store:
        return anyio.run(_prune, store, directory, choose, dry)


async def _prune(
    store: RunStore, directory: Path, choose: Callable[[list[RunMeta]], list[RunMeta]], dry: bool
) -> list[RunInfo]:
    going = choose(await store.runs())
    infos = [await _summarize(store, run) for run in going]
    for run in () if dry else going:
        await store.forget(run.run_id)
        state_directory.remove_scratch_dir(directory, run.run_id)
    if not dry:
        await state_directory.remove_judgings(directory, {run.run_id for run in going})
    return infos


def load_verdict(repo: Path | None, source: str) -> Verdict:
    """The verdict of a file if it exists or the name cannot be that of a run, else of a run.

    Raises:
        InputError: the file cannot be read or holds no verdict, or the run has none yet.
        RunNotFound: there is neither a file nor a run of that name.
    """
    if _is_file(source):
        return read_verdict(Path(source))
    verdict = show_run(repo, source).verdict
    if verdict is None:
        raise InputError(f"{source} has no verdict yet; finish it with diffcourt resume {source}")
    return verdict


def _is_file(source: str) -> bool:
    named = os.sep in source or source.endswith(".json")
    return source != "latest" and (named or Path(source).is_file())


def reviewed_here(repo: Path | None, source: str) -> bool:
    """Whether a verdict is of a run that this store recorded from its first row to its last.

    That of a file, of an imported run or of a fork, which may be of an export, says what its author
    likes.

    Raises:
        RunNotFound: there is neither a file nor a run of that name.
    """
    if _is_file(source):
        return False
    with state_directory.open_store(repo) as store:
        return anyio.run(_reviewed_here, store, source)


async def _reviewed_here(store: RunStore, name: str) -> bool:
    run = state_directory.find_run(name, await store.runs())
    foreign = (str(Key(IMPORTED, number=1)), FORK_NOTE)
    return not [key for key in foreign if await store.find(run.run_id, key)]


def show_run(repo: Path | None, run_id: str) -> ShownRun:
    """Load one run: its verdict, if it has one, and its timeline.

    Raises:
        RunNotFound: no run has this name.
        InputError: it cannot be read.
    """
    with state_directory.open_store(repo) as store:
        return anyio.run(_show, store, run_id)


async def _show(store: RunStore, run_id: str) -> ShownRun:
    run = state_directory.find_run(run_id, await store.runs())
    try:
        found, final = await _find_verdict(store, run)
        timeline = build_timeline(await store.rows(run.run_id))
    except DAMAGE as error:
        raise InputError(f"{run.run_id}: {describe_damage(run.run_id, error)}") from None
    return ShownRun(_describe_run(run, found, final), found, timeline)


def _verdict_in(row: Row | None) -> Verdict | None:
    return parse_verdict(row) if row else None


def parse_verdict(row: Row) -> Verdict:
    """The verdict of a run's row.

    Raises:
        InputError: it is from another version of this program.
    """
    try:
        return convert(json.loads(row.body), Verdict)
    except ValidationError as error:
        raise InputError(
            "the run's verdict was written by another version of Diffcourt; use that version: "
            f"{error}"
        ) from None


def _describe_run(run: RunMeta, verdict: Verdict | None, final: bool) -> RunInfo:
    if verdict:
        what = f"{verdict.change.base}..{verdict.change.head}"
        status = "finished" if final else "waiting"
        status = "cancelled" if verdict.stop.reason == "cancelled" else status
    elif is_program_run(run):
        what, status = PROGRAM, "finished" if final else "waiting"
    elif not is_readable(run):
        what = ""
    else:
        given = review_options(run)
        sides = [side for side in ("worktree", "staged") if given[side]]
        what = given["diff_name"] or (sides[0] if sides else given["head"] or "HEAD")
        status = "interrupted"
    if not is_readable(run):
        status = "unreadable"
    elif run.writer and (is_program_run(run) or not final):
        status = "running"
    started = datetime.fromtimestamp(run.started, UTC).isoformat(timespec="seconds")
    return RunInfo(
        run_id=run.run_id,
        started=started,
        change=what,
        state=status,
        verdict=verdict.verdict if verdict else None,
        findings=sum(severity_counts(verdict.findings).values()) if verdict else None,
        is_read=verdict is not None and verdict.is_read,
    )


def build_timeline(rows: Sequence[Row]) -> list[TimelineEntry]:
    """Timeline of a run from its rows: each effect once, with its duration."""
    begun: dict[str, float] = {}
    found: list[TimelineEntry] = []
    start = rows[0].at if rows else 0.0
    for row in rows:
        match read_row(row):
            case Data():
                continue
            case Intent():
                begun[row.key] = row.at
            case body:
                took = row.at - begun[row.key] if row.key in begun else None
                summary, at = _summarize_row(body), row.at - start
                found.append(TimelineEntry(row.seq, at, row.kind, row.key, summary, took))
    return found


class _Analysis(Struct):
    """What an analyzer's call gave, in numbers."""

    findings: tuple[Raw, ...] | UnsetType = UNSET
    examined: tuple[Raw, ...] = ()


def _summarize_row(body: RowBody) -> str:
    """A short summary of a row."""
    if isinstance(body, Note):
        return _summarize_note(body)
    if not isinstance(body, Effect):
        return ""
    if body.error:
        return str(body)
    result = body.result
    with suppress(DecodeError):  # of another tool
        data = decode(result.data, type=_Analysis)
        if data.findings is not UNSET:
            return f"{len(data.findings)} findings, {len(data.examined)} files"
    if result.answer is not UNSET:
        return f"{result.who} answered: {result.answer}"
    status = result.code or result.status or result.stop
    return f"{status}: {result.detail}" if result.detail else status


def _summarize_note(note: Note) -> str:
    """A short summary of a note, by its most informative part."""
    if note.to_stage:
        return f"escalates from {note.from_stage} to {note.to_stage}: {note.why}"
    if note.exchanges is not UNSET:
        observations = len(note.observations)
        return f"context compaction: {observations} observations, {note.exchanges} turns omitted"
    return f"{note.subject}: {note.why}" if note.subject and note.why else note.subject
