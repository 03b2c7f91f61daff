"""What metrics and alerts count, kept over scrapes: only runs that have changed are read again.

Sums are whole numbers, money and time in billionths, so that their order does not matter: a counter
that fell by a rounding error would look like a restart.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import anyio
from msgspec import Struct

from orchestrator.app.runs import state_directory
from orchestrator.app.statistics.all_runs import FAULTS, Collected, count_steps
from orchestrator.app.statistics.run_facts import FindingFact, RunFacts, read_run
from orchestrator.errors import StoreError
from orchestrator.stores.sql_store import Mark, RunStore

BILLION = 1_000_000_000
REVIEW_BUCKETS = (1.0, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
CALL_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

Counts = Counter[tuple[str, ...]]
"""By the name of a metric and its labels. Of a histogram ``NAME``: the index of a bucket below
``NAME_bucket``, and billionths of a second below ``NAME_seconds``."""


class AlertFigures(NamedTuple):
    """The figures of some runs that alerts compare; ``billionths`` of US dollars."""

    reviews: int = 0
    complete: int = 0
    ended: int = 0
    person_asked: int = 0
    tools_performed: int = 0
    tool_errors: int = 0
    tasks: int = 0
    loops_cut: int = 0
    guard_blocks: int = 0
    steps: int = 0
    tokens: int = 0
    tasks_ok: int = 0
    billionths: int = 0

    @property
    def usd(self) -> float:
        """What they cost."""
        return self.billionths / BILLION


class RunSums(Struct, frozen=True):
    """What is kept of one run.

    Attributes:
        seconds: of a finished review.
        findings: of a finished run.
    """

    started: float
    counts: Counts
    figures: AlertFigures
    seconds: float | None
    findings: Sequence[FindingFact]


class RunTotals:
    """Sums over runs.

    Attributes:
        until: when it was brought up to date; seconds since the epoch.
    """

    def __init__(self) -> None:
        self.until = 0.0
        self._known: dict[str, tuple[Mark, RunSums | None]] = {}
        """By the ids of runs; without sums: it cannot be read."""
        self._stores = ""

    @classmethod
    def of(cls, collected: Collected) -> "RunTotals":
        """Those of runs that have been read."""
        totals = cls()
        totals.until = collected.until
        totals._known |= {run.run_id: (None, sum_run(run)) for run in collected.runs}
        totals._known |= {broken.run_id: (None, None) for broken in collected.broken}
        return totals

    def update(self, repos: Sequence[Path]) -> None:
        """Read what has changed in the stores of some repositories.

        Raises:
            StoreError: a store cannot be opened or listed. A damaged run is not an error.
        """
        self.until = time.time()
        stores = "\n".join(map(state_directory.mark_store, repos))
        if stores == self._stores and all(mark for mark, _ in self._known.values()):
            return
        found = set[str]()
        for repo in repos:
            with state_directory.open_store(repo) as store:
                found |= anyio.run(self._update_from, store)
        for gone in self._known.keys() - found:
            del self._known[gone]
        self._stores = stores

    async def _update_from(self, store: RunStore) -> set[str]:
        marks = await store.marks()
        changed = [
            name
            for name, mark in marks.items()
            if mark is None or self._known.get(name, (None, None))[0] != mark
        ]
        for run in await store.runs(only=changed) if changed else ():
            try:
                sums = sum_run(read_run(run, await store.rows(run.run_id)))
            except StoreError:
                sums = None
            self._known[run.run_id] = marks.get(run.run_id), sums
        return {*marks}

    def sum_counts(self) -> Counts:
        """What is counted of all runs."""
        total = Counts()
        for _, one in self._runs():
            total.update(one.counts)
        return total

    @property
    def broken(self) -> int:
        """The number of runs that are not counted."""
        return sum(sums is None for _, sums in self._known.values())

    def figures(self, begin: float, end: float) -> tuple[AlertFigures, list[float]]:
        """The figures of the runs that began in a time, and the seconds of their reviews."""
        runs = [one for _, one in self._runs() if begin <= one.started < end]
        sums = AlertFigures(*map(sum, zip(*(one.figures for one in runs), strict=True)))
        return sums, [one.seconds for one in runs if one.seconds is not None]

    def count_findings(self) -> Counter[tuple[str, str]]:
        """The number of different findings by severity and state, as in their newest review."""
        newest = dict[str, tuple[str, str]]()
        for _, _, findings in sorted((one.started, run, one.findings) for run, one in self._runs()):
            newest.update({one.identity: (one.severity, one.state) for one in findings})
        return Counter(newest.values())

    def _runs(self) -> Iterator[tuple[str, RunSums]]:
        return ((run, sums) for run, (_, sums) in self._known.items() if sums is not None)


def sum_run(run: RunFacts) -> RunSums:
    """What metrics and alerts count of a run."""
    counts = Counts()
    finished = run.is_review and run.state == "finished"
    if finished:
        counts["reviews", run.status, run.outcome] = 1
        counts["review_stops", run.stop] = 1
        _observe(counts, "review", REVIEW_BUCKETS, [run.seconds])
    elif run.is_review:
        counts["reviews_unfinished", run.state] = 1
    counts["reviews_asking_person",] = asked = run.is_review and run.person_asked
    counts["resumes", "ended"] = run.resumes_ended
    counts["resumes", "interrupted"] = run.resumes - run.resumes_ended
    counts["cost_usd",] = billionths = round(run.usd * BILLION)
    counts["steps",] = count_steps(run)
    counts.update(("tasks", task.agent, task.status) for task in run.tasks)
    counts.update(("loops_cut", agent) for agent in run.loops_cut)
    counts.update(("escalations", stage) for _, stage in run.escalations)
    counts.update(("guard_blocks", guard) for guard in run.guard_blocks)
    for tool in run.tool_calls:
        counts["tool_calls", tool.tool, tool.result if tool.performed else "refused"] += 1
    _observe(counts, "tool_call", CALL_BUCKETS, (call.seconds for call in run.tool_calls))
    for call in run.model_calls:
        counts["model_calls", call.model, "ok" if call.ok else "failed"] += 1
        for name in ("input_tokens", "cached_tokens", "output_tokens"):
            counts[name, call.model] += getattr(call, name)
    _observe(counts, "model_call", CALL_BUCKETS, (call.seconds for call in run.model_calls))
    performed = [tool for tool in run.tool_calls if tool.performed]
    cancelled = run.stop == "cancelled"
    figures = AlertFigures(
        reviews=run.is_review,
        complete=finished and run.status == "complete",
        ended=(finished and not cancelled) or (run.is_review and run.state == "interrupted"),
        person_asked=asked,
        tools_performed=len(performed),
        tool_errors=sum(tool.result in FAULTS for tool in performed),
        tasks=len(run.tasks),
        loops_cut=len(run.loops_cut),
        guard_blocks=len(run.guard_blocks),
        steps=counts["steps",],
        tokens=sum(call.input_tokens + call.output_tokens for call in run.model_calls),
        tasks_ok=sum(task.status == "ok" for task in run.tasks),
        billionths=billionths,
    )
    return RunSums(
        started=run.started,
        counts=counts,
        figures=figures,
        seconds=run.seconds if finished else None,
        findings=run.findings if run.state == "finished" else (),
    )


def _observe(
    counts: Counts, name: str, bounds: Sequence[float], seconds: Iterable[float | None]
) -> None:
    for one in seconds:
        if one is not None:
            counts[f"{name}_bucket", str(bisect_left(bounds, one))] += 1
            counts[f"{name}_seconds",] += round(one * BILLION)
