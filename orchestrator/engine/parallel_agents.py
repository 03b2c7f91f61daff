"""Run agents concurrently, up to a limit, with the failure of one isolated from the others."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
from msgspec import to_builtins
from msgspec.structs import replace

from orchestrator.engine.agent_loop import AgentRuntime, LoopResult
from orchestrator.engine.budget import NO_COST, Account
from orchestrator.engine.escalation import Task, escalate
from orchestrator.engine.journal import EffectResult
from orchestrator.engine.observer_events import Event
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.types import AgentSpec
from orchestrator.errors import (
    AnswerPending,
    ApprovalPending,
    ProviderRefused,
    ReplayMismatch,
    StoreError,
)


async def run_team(
    tasks: Sequence[Task],
    runtime: AgentRuntime,
    budget: Account,
    *,
    concurrency: int,
    on_result: Callable[[LoopResult], None] | None = None,
) -> list[LoopResult]:
    """Run every task; results in the order of the tasks.

    An agent that fails, times out or spends its budget becomes a result that says so; the others
    go on. Only what ends the run itself (a broken journal, an interrupt) is raised.

    Args:
        on_result: called with each result as it arrives, even if other agents wait for a person.

    Raises:
        ApprovalPending: an agent waits for a person's approval; the others have finished.
        AnswerPending: agents wait for a person's answer; names all of their questions.
        ProviderRefused: no model can be called until a person changes a setting.
    """
    results: dict[int, LoopResult] = {}
    waiting: list[ApprovalPending] = []
    asking: dict[str, str] = {}
    limiter = anyio.CapacityLimiter(concurrency)

    cached = _PrefixCache(runtime)

    async def one(position: int, task: Task) -> None:
        async with limiter, cached.wait_for_first(task.spec) as shared:
            try:
                results[position] = await run_task(task, shared, budget)
                if on_result is not None:
                    on_result(results[position])
            except ApprovalPending as pending:
                waiting.append(pending)
            except AnswerPending as pending:
                asking.update(pending.questions)

    async with task_group() as group:
        for position, task in enumerate(tasks):
            group.start_soon(one, position, task)
    if waiting:
        raise waiting[0]
    if asking:
        raise AnswerPending(runtime.journal.run_id, asking)
    return [results[position] for position in sorted(results)]


class _PrefixCache:
    """Makes agents wait until the first agent of their model has its first reply.

    A provider caches a prefix once it has replied to it: agents that begin at the same time would
    each pay for the opening that they share. Without an opening no agent waits.
    """

    def __init__(self, runtime: AgentRuntime) -> None:
        self._runtime = runtime
        self._replied: dict[str, anyio.Event] = {}

    @asynccontextmanager
    async def wait_for_first(self, spec: AgentSpec) -> AsyncIterator[AgentRuntime]:
        """The runtime for an agent, once there is a reply to the first agent of its model."""
        runtime = self._runtime
        model = runtime.choose_model(spec).model
        if not runtime.opening or model in self._replied:
            if runtime.opening:
                await self._replied[model].wait()
            yield runtime
            return
        replied = self._replied[model] = anyio.Event()

        def observe(event: Event) -> None:
            if event.kind == "model_finished":
                replied.set()
            runtime.observer(event)

        try:
            yield replace(runtime, observer=observe)
        finally:
            replied.set()


async def run_task(task: Task, runtime: AgentRuntime, budget: Account) -> LoopResult:
    """Run one task as one effect: a finished task is never run again."""
    spec, journal = task.spec, runtime.journal
    replayed = journal.recorded(task.key)

    async def perform() -> EffectResult:
        # Only a run that was interrupted has any; the search reads all records.
        used = journal.spent(task.key) if str(task.key) in journal.repeated else NO_COST
        account = Account(spec.name, spec.bounds, parent=budget, used=used)
        try:
            with anyio.fail_after(min(spec.bounds.seconds, max(budget.seconds_left(), 0))):
                result = await escalate(task, runtime, account)
        except TimeoutError:
            result = LoopResult(spec.name, "timeout", detail="it ran out of time")
            if (sent_back := journal.noted(task.key.report)) is not None:
                result = LoopResult(spec.name, "ok", report=sent_back["report"])
        except (AnswerPending, ApprovalPending, ProviderRefused, ReplayMismatch, StoreError):
            raise
        except Exception as error:  # a gap in the result, not the end of the run
            result = LoopResult(spec.name, "failed", detail=f"{type(error).__name__}: {error}")
        return EffectResult(to_builtins(result))

    started = Event(
        "agent_started", journal.elapsed(), spec.name, key=str(task.key), replayed=replayed
    )
    runtime.observer(started)
    request = {"agent": spec.name, "digest": spec.digest, "brief": journal.put(task.brief)}
    value = await journal.effect(task.key, request, perform)
    result = LoopResult(**value)
    runtime.observer(
        Event(
            "agent_finished",
            journal.elapsed(),
            spec.name,
            key=str(task.key),
            detail=result.status,
            data=result.report,
            replayed=replayed,
        )
    )
    return result
