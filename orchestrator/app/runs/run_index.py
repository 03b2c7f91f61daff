"""Summaries of the runs of some repositories, including runs with unreadable journals."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec import Struct, field

from orchestrator.app.human_decisions.run_decisions import GRANTED
from orchestrator.app.policy_sources import load_policy, read_layers
from orchestrator.app.previous_reviews import NAME_KEY
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.run_record import RunRecord, Waiting, read_record
from orchestrator.app.runs.verdict_recording import VERDICT, is_waiting_verdict, last_row
from orchestrator.app.types import (
    DAMAGE,
    ENTRY_DAMAGED,
    PROGRAM,
    ReviewOptions,
    describe_damage,
    is_program_run,
    is_readable,
    review_options,
)
from orchestrator.code_review.change.types import change_from_json
from orchestrator.code_review.verdict.document_parts import Override
from orchestrator.code_review.verdict.model import ChangeRef, ReviewScore, RunUsage, VerdictStop
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.journal_keys import GRANT, INTAKE, Key
from orchestrator.engine.journal_rows import Intent, Outcome, decodable, read_fields, read_row
from orchestrator.engine.ports import Row, RunMeta
from orchestrator.errors import DiffcourtError, RunNotFound, StoreError
from orchestrator.stores.sql_store import Mark, RunStore


class VerdictBrief(Struct):
    """The parts of a verdict that a list shows, fast to decode."""

    verdict: str
    status: str
    change: ChangeRef
    stop: VerdictStop
    score: ReviewScore
    usage: RunUsage
    counts: dict[str, int] = field(default_factory=dict)
    override: Override | None = None


class RunSummary(Struct, kw_only=True):
    """One run in a list.

    Attributes:
        repo: the directory of its repository.
        started: seconds since the epoch.
        branch: the name of the change; may be empty.
        state: ``running``, ``waiting`` for a person, ``interrupted``, ``finished`` or
            ``unreadable``.
        brief: None while there is no verdict.
        record: of a run that is not finished.
        limits: of a run without a verdict: ``usd``, ``tokens``, ``tool_calls``, ``minutes``.
        problem: why it cannot be read.
    """

    run_id: str
    repo: Path
    started: float
    branch: str = ""
    change: str = ""
    state: str = "finished"
    writer: str = ""
    brief: VerdictBrief | None = None
    record: RunRecord | None = None
    limits: dict[str, float] = field(default_factory=dict)
    problem: str = ""

    @property
    def name(self) -> str:
        """The name to show for it."""
        return self.branch or self.change or self.run_id

    @property
    def is_of_program(self) -> bool:
        """Whether a program that uses the library keeps it, and not a review."""
        return self.change == PROGRAM

    @property
    def verdict(self) -> str:
        """The outcome, after overrides; empty while there is none."""
        if self.brief is None:
            return ""
        return self.brief.override.verdict if self.brief.override else self.brief.verdict

    @property
    def waiting(self) -> Sequence[Waiting]:
        """The questions and calls that wait for a person."""
        return self.record.waiting if self.record else ()


class CachedRunIndex:
    """The runs of some repositories; each is read again when a writer had it."""

    def __init__(self, repos: Sequence[Path]) -> None:
        self.repos = tuple(repos)
        self._kept: dict[tuple[Path, str], tuple[Mark, RunSummary]] = {}

    def list_runs(self) -> list[RunSummary]:
        """All runs, newest first."""
        found = [run for repo in self.repos for run in self._list(repo)]
        return sorted(found, key=lambda run: (run.started, run.run_id), reverse=True)

    def find(self, run_id: str) -> RunSummary:
        """One run, by its full id."""
        for repo in self.repos:
            with state_directory.open_store(repo) as store:
                for run in anyio.run(store.runs):
                    if run.run_id == run_id:
                        return anyio.run(summarize, store, repo, run)
        raise RunNotFound(f"there is no run {run_id} here; it may have been removed")

    def mark(self) -> str:
        """A text that changes whenever a journal has changed."""
        return digest([state_directory.mark_store(repo) for repo in self.repos])[:16]

    def _list(self, repo: Path) -> list[RunSummary]:
        with state_directory.open_store(repo) as store:
            return anyio.run(self._summarize_all, store, repo)

    async def _summarize_all(self, store: RunStore, repo: Path) -> list[RunSummary]:
        found, marks = [], await store.marks()
        for run in await store.runs():
            now = marks.get(run.run_id)
            mark, known = self._kept.get((repo, run.run_id), (None, None))
            if known is None or mark is None or mark != now:
                known = await summarize(store, repo, run)
                self._kept[repo, run.run_id] = now, known
            found.append(known)
        return found


async def summarize(store: RunStore, repo: Path, run: RunMeta) -> RunSummary:
    """One run of a store; one that cannot be read says why."""
    found = RunSummary(run_id=run.run_id, repo=repo, started=run.started, writer=run.writer or "")
    try:
        await _fill(found, store, run)
        if not is_readable(run):
            raise StoreError(ENTRY_DAMAGED)
    except (*DAMAGE, DiffcourtError) as error:
        found.state, found.problem = "unreadable", describe_damage(run.run_id, error)
    return found


async def _fill(found: RunSummary, store: RunStore, run: RunMeta) -> None:
    row = await store.find(run.run_id, VERDICT)
    name = await store.find(run.run_id, NAME_KEY)
    if name is not None:
        kind, _, own = str(read_fields(name.body).get("name") or "").partition("/")
        found.branch = own if kind == "branch" else f"{kind} {own}".strip()  # such as #12
    if row is not None:
        found.brief = msgspec.json.decode(decodable(row.body), type=VerdictBrief)
    if row is None or run.writer:
        rows = await store.rows(run.run_id)
        found.record = read_record(run.run_id, rows)
        if found.brief is None and (waiting := last_row(rows, is_waiting_verdict)):
            found.brief = msgspec.json.decode(decodable(waiting.body), type=VerdictBrief)
        if row is None and not is_program_run(run):
            found.limits = await read_limits(run.run_id, review_options(run), rows)
    found.change = _change_of(found, run)
    unfinished = "waiting" if found.waiting else "interrupted"
    found.state = "finished" if row else "running" if run.writer else unfinished


def _change_of(found: RunSummary, run: RunMeta) -> str:
    if is_program_run(run):
        return PROGRAM
    given = review_options(run)
    if given["diff_name"] or given["worktree"] or given["staged"]:
        return str(given["diff_name"] or ("work tree" if given["worktree"] else "staged"))
    if found.brief is not None:
        return f"{found.brief.change.base[:10]}..{found.brief.change.head[:10]}"
    return (
        f"{given['base']}..{given['head'] or 'HEAD'}" if given["base"] else given["head"] or "HEAD"
    )


_known: dict[str, Mapping[str, float]] = {}
"""Run → limits without grants; a run's base does not change."""


async def read_limits(
    run_id: str, options: Mapping[str, Any], rows: Sequence[Row]
) -> dict[str, float]:
    """The limits in force: ``usd``, ``tokens``, ``tool_calls``, ``minutes``.

    Only those of the options if base cannot be read.
    """
    if run_id not in _known:
        ended = (read_row(row) for row in rows if row.key == INTAKE)
        for intake in (body for body in ended if isinstance(body, Outcome)):
            try:
                _known[run_id] = await _read_bounds(options, intake)
            except (DiffcourtError, ValueError, TypeError, KeyError):
                _known[run_id] = {}
    limits = {name: options[flag] for flag, name in GRANTED.items() if options.get(flag)}
    limits = {**_known.get(run_id, {}), **limits}
    for row in rows:
        if Key.parse(row.key).part == GRANT and isinstance(begun := read_row(row), Intent):
            limits |= {
                GRANTED[flag]: begun.parameters[flag] for flag in GRANTED.keys() & begun.parameters
            }
    return limits


async def _read_bounds(options: Mapping[str, Any], intake: Outcome) -> dict[str, float]:
    change = change_from_json(msgspec.json.decode(intake.value))
    given = ReviewOptions.of_meta(options, None)
    bounds = load_policy(await read_layers(change), given).settings.bounds
    return {name: getattr(bounds, name) for name in GRANTED.values()}
