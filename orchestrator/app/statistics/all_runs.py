"""Statistics over all runs of a store, computed from the rows of their journals.

Only one run's rows are in memory at a time. A run with a damaged journal is reported and left out.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import anyio
from msgspec import Struct

from orchestrator.app.runs import state_directory
from orchestrator.app.statistics.run_facts import (
    FindingFact,
    ModelCallFact,
    RunFacts,
    ToolCallFact,
    read_run,
)
from orchestrator.app.statistics.statistics_document import (
    AgentFigures,
    BrokenJournal,
    DayFigures,
    Figures,
    FindingCounts,
    ModelFigures,
    PatternFigures,
    Percentiles,
    RuleFigures,
    Statistics,
    ToolFigures,
)
from orchestrator.app.types import is_readable
from orchestrator.engine.tool_call_records import DECLINED
from orchestrator.errors import StoreError
from orchestrator.stores.sql_store import RunStore

FAULTS = frozenset({"failed", "timeout"})
"""Results of a tool call that are the tool's fault; ``declined`` is the caller's."""
T = TypeVar("T")


class Collected(Struct, frozen=True):
    """The facts of all readable runs, oldest first, and the runs that are not readable.

    Attributes:
        since, until: seconds since the epoch; ``since`` is 0 for all runs.
    """

    runs: list[RunFacts]
    broken: list[BrokenJournal]
    since: float
    until: float


def collect(
    repos: Sequence[Path | None] = (None,), *, since: float = 0.0, all_repositories: bool = False
) -> Collected:
    """Read the runs of some repositories' stores.

    Args:
        repos: a directory of each; None: the current one.
        since: only runs that began at this time or later, in seconds since the epoch.
        all_repositories: include every repository in a shared store.

    Raises:
        StoreError: a store cannot be opened or listed. A damaged run is not an error.
    """
    found = Collected([], [], since, time.time())
    for repo in repos:
        with state_directory.open_store(repo) as store:
            anyio.run(_read_store, store, found, all_repositories)
    runs = {run.run_id: run for run in found.runs}  # several may share a store
    broken = {one.run_id: one for one in found.broken}
    oldest_first = sorted(runs.values(), key=lambda run: (run.started, run.run_id))
    return Collected(oldest_first, list(broken.values()), since, found.until)


async def _read_store(store: RunStore, found: Collected, all_repositories: bool) -> None:
    """Add the runs of an open store."""
    for run in reversed(await store.runs(all_repositories=all_repositories)):  # oldest first
        if run.started < found.since and is_readable(run):
            continue
        try:
            found.runs.append(read_run(run, await store.rows(run.run_id)))
        except StoreError as error:
            found.broken.append(BrokenJournal(run.run_id, str(error)))


def summarize(collected: Collected) -> Statistics:
    """The statistics of the collected runs."""
    runs = collected.runs
    days = _grouped(runs, lambda run: _iso(run.started)[:10])
    patterns = _grouped([run for run in runs if run.pattern], lambda run: run.pattern)
    return Statistics(
        since=_iso(collected.since) if collected.since else "",
        until=_iso(collected.until),
        total=figures_of(runs),
        agents=_agents(runs),
        tools=_tools(runs),
        models=_models(runs),
        rules=_rules(runs),
        patterns=tuple(
            PatternFigures(name, figures_of(group)) for name, group in _by_use(patterns)
        ),
        days=tuple(DayFigures(day, figures_of(group)) for day, group in sorted(days.items())),
        broken=tuple(collected.broken),
    )


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def figures_of(runs: Sequence[RunFacts]) -> Figures:
    """The figures of some runs, oldest first."""
    reviews = [run for run in runs if run.is_review]
    finished = [run for run in reviews if run.state == "finished"]
    tools = [call for run in runs for call in run.tool_calls]
    models = [call for run in runs for call in run.model_calls]
    findings = _count_findings(_newest_findings(runs).values())
    tokens_in, _, tokens_out = _tokens(models)
    return Figures(
        runs=len(runs),
        verdicts=_ordered(Counter(run.outcome for run in finished)),
        stops=_ordered(Counter(run.stop for run in finished)),
        budget_stops=sum(run.stop == "budget" for run in finished),
        model_calls=len(models),
        model_errors=sum(not call.ok for call in models),
        model_seconds=percentiles(call.seconds for call in models),
        cache_share=_cache_share(models),
        tokens_per_finding=_ratio(tokens_in + tokens_out, findings.found),
        usd_per_review=_ratio(math.fsum(run.usd for run in reviews), len(reviews)),
        resumes=sum(run.resumes for run in runs),
        resumes_ended=sum(run.resumes_ended for run in runs),
        guard_blocks=_ordered(Counter(guard for run in runs for guard in run.guard_blocks)),
        review_seconds=percentiles(run.seconds for run in finished),
        findings=findings,
        rejected=sum(run.rejected for run in runs),
        **_states(reviews, finished),
        **_task_figures(runs),
        **_tool_figures(tools),
        **_token_figures(models),
    )


def _states(reviews: Sequence[RunFacts], finished: Sequence[RunFacts]) -> dict[str, Any]:
    states = Counter(run.state for run in reviews)
    complete = sum(run.status == "complete" for run in finished)
    cancelled = sum(run.stop == "cancelled" for run in finished)
    asked = sum(run.person_asked for run in reviews)
    return {
        "reviews": len(reviews),
        "complete": complete,
        "incomplete": len(finished) - complete - cancelled,
        "cancelled": cancelled,
        "interrupted": states["interrupted"],
        "waiting": states["waiting"],
        "running": states["running"],
        "completion": _ratio(complete, len(finished) - cancelled + states["interrupted"]),
        "person_asked": asked,
        "person_share": _ratio(asked, len(reviews)),
    }


def _task_figures(runs: Sequence[RunFacts]) -> dict[str, Any]:
    tasks = [task for run in runs for task in run.tasks]
    loops = sum(len(run.loops_cut) for run in runs)
    steps, usd = sum(map(count_steps, runs)), math.fsum(run.usd for run in runs)
    tokens_in, _, tokens_out = _tokens(call for run in runs for call in run.model_calls)
    tokens = tokens_in + tokens_out
    changes = _ordered(Counter(stage for run in runs for _, stage in run.escalations))
    return {
        "tasks": len(tasks),
        "tasks_out_of_budget": sum(task.status == "budget" for task in tasks),
        "steps": steps,
        "steps_per_task": _ratio(steps, len(tasks)),
        "loops_cut": loops,
        "loop_share": _ratio(loops, len(tasks)),
        "usd": usd,
        "usd_per_task": _ratio(usd, len(tasks)),
        "tokens_per_task": _ratio(tokens, sum(task.status == "ok" for task in tasks)),
        "escalations": changes,
        "escalation_rates": {
            stage: count / len(tasks) for stage, count in changes.items() if tasks
        },
    }


def _tool_figures(calls: Sequence[ToolCallFact]) -> dict[str, Any]:
    performed = _performed(calls)
    errors = _errors(performed)
    refusals = Counter(call.result for call in calls if not call.performed)
    return {
        "tool_calls": len(performed),
        "tool_errors": errors,
        "tool_error_rate": _ratio(errors, len(performed)),
        "tool_refusals": _ordered(refusals),
        "tool_seconds": percentiles(call.seconds for call in performed),
    }


def count_steps(run: RunFacts) -> int:
    """The number of calls of agents with a task; code calls tools as well, to prove patches."""
    agents = {task.agent for task in run.tasks}
    calls: list[ModelCallFact | ToolCallFact] = [*run.model_calls, *run.tool_calls]
    return sum(call.agent in agents for call in calls)


def percentiles(seconds: Iterable[float | None]) -> Percentiles:
    """Median and 95th percentile by nearest rank; None is ignored."""
    known = sorted(value for value in seconds if value is not None)
    if not known:
        return Percentiles()
    p50, p95 = (known[math.ceil(share * len(known)) - 1] for share in (0.5, 0.95))
    return Percentiles(len(known), round(p50, 6), round(p95, 6))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _ordered(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _tokens(calls: Iterable[ModelCallFact]) -> tuple[int, int, int]:
    """Input, the cached part of it, and output tokens."""
    listed = list(calls)
    return (
        sum(call.input_tokens for call in listed),
        sum(call.cached_tokens for call in listed),
        sum(call.output_tokens for call in listed),
    )


def _token_figures(calls: Iterable[ModelCallFact]) -> dict[str, Any]:
    names = ("input_tokens", "cached_tokens", "output_tokens")
    return dict(zip(names, _tokens(calls), strict=True))


def _cache_share(calls: Iterable[ModelCallFact]) -> float | None:
    tokens_in, cached, _ = _tokens(calls)
    return _ratio(cached, tokens_in)


def _by_use(groups: Mapping[str, Sequence[T]]) -> list[tuple[str, Sequence[T]]]:
    """The groups, the largest first."""
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def _grouped(items: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    groups = defaultdict[str, list[T]](list)
    for item in items:
        groups[key(item)].append(item)
    return dict(groups)


def _agents(runs: Sequence[RunFacts]) -> tuple[AgentFigures, ...]:
    tools = _grouped([call for run in runs for call in run.tool_calls], lambda call: call.agent)
    models = _grouped([call for run in runs for call in run.model_calls], lambda call: call.agent)
    tasks = Counter(task.agent for run in runs for task in run.tasks)
    loops = Counter(agent for run in runs for agent in run.loops_cut)
    changes = Counter(agent for run in runs for agent, _ in run.escalations)
    usd = Counter[str]()
    for run in runs:
        for agent, spent in run.usd_by_agent.items():
            usd[agent] += spent  # type: ignore[assignment]
    found = []
    for name in sorted({*tasks, *models} - {""}, key=lambda name: (-tasks[name], name)):
        called, asked = tools.get(name, []), models.get(name, [])
        performed = _performed(called)
        found.append(
            AgentFigures(
                name=name,
                tasks=tasks[name],
                steps_per_task=_ratio(len(called) + len(asked), tasks[name]),
                loops_cut=loops[name],
                escalations=changes[name],
                tool_calls=len(performed),
                tool_error_rate=_ratio(_errors(performed), len(performed)),
                model_calls=len(asked),
                **_token_figures(asked),
                usd=float(usd[name]),
                usd_per_task=_ratio(usd[name], tasks[name]),
                model_seconds=percentiles(call.seconds for call in asked),
            )
        )
    return tuple(found)


def _performed(calls: Iterable[ToolCallFact]) -> list[ToolCallFact]:
    return [call for call in calls if call.performed]


def _errors(calls: Iterable[ToolCallFact]) -> int:
    return sum(call.result in FAULTS for call in calls)


def _tools(runs: Sequence[RunFacts]) -> tuple[ToolFigures, ...]:
    calls = _grouped((call for run in runs for call in run.tool_calls), lambda call: call.tool)
    return tuple(
        ToolFigures(
            name=name,
            calls=len(performed),
            errors=_errors(performed),
            error_rate=_ratio(_errors(performed), len(performed)),
            declined=sum(call.result == DECLINED for call in performed),
            refused=len(called) - len(performed),
            seconds=percentiles(call.seconds for call in performed),
        )
        for name, called in _by_use(calls)
        for performed in [_performed(called)]
    )


def _models(runs: Sequence[RunFacts]) -> tuple[ModelFigures, ...]:
    calls = _grouped((call for run in runs for call in run.model_calls), lambda call: call.model)
    return tuple(
        ModelFigures(
            name=name,
            calls=len(called),
            errors=sum(not call.ok for call in called),
            **_token_figures(called),
            cache_share=_cache_share(called),
            usd=math.fsum(call.usd for call in called),
            seconds=percentiles(call.seconds for call in called),
        )
        for name, called in _by_use(calls)
    )


def _newest_findings(runs: Iterable[RunFacts]) -> dict[str, FindingFact]:
    """Each finding by its identity, as in its newest review; ``runs`` are oldest first."""
    known: dict[str, FindingFact] = {}
    for run in runs:
        if run.state == "finished":
            known.update({one.identity: one for one in run.findings})
    return known


def _rules(runs: Sequence[RunFacts]) -> tuple[RuleFigures, ...]:
    groups = _grouped(_newest_findings(runs).values(), lambda one: one.rule)
    return tuple(
        RuleFigures(
            name=name,
            category=next((one.category for one in found if one.category), ""),
            counts=_count_findings(found),
        )
        for name, found in _by_use(groups)
    )


def _count_findings(findings: Iterable[FindingFact]) -> FindingCounts:
    counts = Counter(one.state for one in findings)
    states = ("open", "fixed", "dismissed", "waived")
    return FindingCounts(counts.total(), **{state: counts[state] for state in states})
