"""An agent's tasks: run concurrently, one by one as effects, and stage by stage.

``run_team`` runs tasks up to a limit at once, with the failure of one isolated from the others;
``run_task`` runs one as one effect; ``escalate`` tries a failed one again at the next stage:

    fast -> fast, another strategy -> stronger -> strongest -> a person -> strongest, answered

Each escalation is a note in the journal, with its reason. The first attempt is under the task's own
key, later ones under ``KEY/attempt2``, ``KEY/attempt3``, ... All draw on the task's one budget.
If the provider is down, the next attempt is at the same stage of another one, whose stages follow.
"""

from collections.abc import Callable, Sequence

import anyio
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from orchestrator.engine.agent_context import AgentRuntime
from orchestrator.engine.agent_loop import LoopResult, run_agent
from orchestrator.engine.budget import NO_COST, Account
from orchestrator.engine.human_questions import ask_person
from orchestrator.engine.journal import EffectResult
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.model_routing import HUMAN
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


class StageChange(Struct, frozen=True):
    """A move of a task from one escalation stage to the next, and why."""

    from_stage: str
    to_stage: str
    why: str


class Task(Struct, frozen=True):
    """A brief for one agent.

    Attributes:
        key: its journal key; unique.
        change: why it starts at a later stage than that at which the agent's last task ended.
    """

    spec: AgentSpec
    brief: str
    key: Key
    change: StageChange | None = None


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
    places = anyio.Semaphore(concurrency, fast_acquire=True)
    cached = _PrefixCache(runtime)

    async def one(position: int, task: Task) -> None:
        shared, replied = await cached.wait_for_first(task.spec)
        try:
            results[position] = await run_task(task, shared, budget)
            if on_result is not None:
                on_result(results[position])
        except ApprovalPending as pending:
            waiting.append(pending)
        except AnswerPending as pending:
            asking.update(pending.questions)
        finally:
            replied.set()
            places.release()

    async with task_group() as group:
        for position, task in enumerate(tasks):
            await places.acquire()
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
        self._replied: dict[str | None, anyio.Event] = {None: anyio.Event()}

    async def wait_for_first(self, spec: AgentSpec) -> tuple[AgentRuntime, anyio.Event]:
        """Its runtime, once its model's first agent has a reply, and what to set when it ends."""
        runtime = self._runtime
        model = runtime.choose_model(spec).model if runtime.opening else None
        if model in self._replied:
            if runtime.opening:
                await self._replied[model].wait()
            return runtime, self._replied[model]
        replied = self._replied[model] = anyio.Event()

        def observe(event: Event) -> None:
            if event.kind == "model_finished":
                replied.set()
            runtime.observer(event)

        return replace(runtime, observer=observe), replied


async def run_task(task: Task, runtime: AgentRuntime, budget: Account) -> LoopResult:
    """Run one task as one effect: a finished task is never run again."""
    spec, journal, key = task.spec, runtime.journal, str(task.key)

    async def perform() -> EffectResult:
        # Only a run that was interrupted has any; the search reads all records.
        used = journal.spent(key) if key in journal.repeated else NO_COST
        account = Account(spec.name, spec.bounds, parent=budget, used=used)
        try:
            with anyio.fail_after(min(spec.bounds.seconds, max(budget.seconds_left(), 0))):
                result = await escalate(task, runtime, account)
        except TimeoutError:
            result = LoopResult(spec.name, "timeout", detail="it ran out of time")
            if (sent_back := journal.noted(task.key.at("report"))) is not None:
                result = LoopResult(spec.name, "ok", report=sent_back["report"])
        except (AnswerPending, ApprovalPending, ProviderRefused, ReplayMismatch, StoreError):
            raise
        except Exception as error:  # a gap in the result, not the end of the run
            result = LoopResult(spec.name, "failed", detail=f"{type(error).__name__}: {error}")
        return EffectResult(to_builtins(result))

    replayed = journal.recorded(key)
    event = Event("agent_started", journal.elapsed(), spec.name, key=key, replayed=replayed)
    runtime.observer(event)
    request = {"agent": spec.name, "digest": spec.digest, "brief": journal.put(task.brief)}
    value = await journal.effect(key, request, perform)
    result = LoopResult(**value)
    ended = replace(event, kind="agent_finished", at=journal.elapsed())
    runtime.observer(replace(ended, detail=result.status, data=result.report))
    return result


async def escalate(task: Task, runtime: AgentRuntime, account: Account) -> LoopResult:
    """Work on a task stage by stage until an attempt succeeds or no stage is left.

    Exhausted budget or time does not escalate: the later stages would draw on the same budget.

    Raises:
        AnswerPending: the next stage is a person, who has yet to answer.
        ReplayMismatch, StoreError: the run itself cannot continue.
    """
    spec, change = task.spec, task.change
    stages = [spec.model, *runtime.choose_model(spec).next_stages]
    if change is not None and change.to_stage == HUMAN:
        stages = [HUMAN]
    tried: list[LoopResult] = []
    left: set[str] = set()
    for number, stage in enumerate(stages, 1):
        attempt = replace(task.key, attempt=number)
        brief = task.brief
        if change is not None:
            _record(change, attempt, spec.name, runtime)
            brief += await _ask_how_to_go_on(change, task, runtime)
        if stage != HUMAN:
            spec = replace(spec, model=stage)
        tried.append(
            await run_agent(spec, brief, runtime, task.key if number == 1 else attempt, account)
        )
        if tried[-1].vendor_down:
            others = _replacing(spec, runtime, left)
            stages[number:] = [n for n in others if n not in stages[:number]] or stages[number:]
        if tried[-1].status != "failed" or number == len(stages):
            break
        change = StageChange(stage, stages[number], tried[-1].detail)
    choice = runtime.choose_model(spec)
    return replace(
        tried[-1],
        turns=sum(result.turns for result in tried),
        tool_calls=sum(result.tool_calls for result in tried),
        stage=choice.stage,
        min_score=choice.min_score,
        next_stage=choice.next_stages[0] if choice.next_stages and stage != HUMAN else "",
    )


def _replacing(spec: AgentSpec, runtime: AgentRuntime, left: set[str]) -> list[str]:
    """The stages at the next vendor, as the agent's own is down; empty if there is no other.

    Args:
        left: vendors to which the task does not return; the agent's own is added.
    """
    own = runtime.choose_model(spec)
    left.add(own.vendor)
    for stage in own.elsewhere:
        choice = runtime.choose_model(replace(spec, model=stage))
        if choice.vendor not in left:
            return [stage, *choice.next_stages]
    return []


async def _ask_how_to_go_on(change: StageChange, task: Task, runtime: AgentRuntime) -> str:
    """A person's answer as the end of a brief; empty if the next stage is a model."""
    if change.to_stage != HUMAN:
        return ""
    agent = task.spec.name
    question = f"{agent} cannot continue by itself: {change.why}. What should it do, or know?"
    answers = await ask_person(runtime.journal, {task.key: (agent, question)})
    return f"\nA person was asked how to continue, and answered:\n{answers[task.key]}"


def _record(change: StageChange, key: Key, agent: str, runtime: AgentRuntime) -> None:
    journal = runtime.journal
    replayed = journal.noted(key) is not None
    journal.note(key, {"agent": agent, **to_builtins(change)})
    detail = f"{agent} escalates from {change.from_stage} to {change.to_stage}: {change.why}"
    runtime.observer(
        Event("note", journal.elapsed(), agent, key=str(key), detail=detail, replayed=replayed)
    )
