"""Escalation: a failed task is tried again at the next stage; the last stage may be a person.

    fast -> fast, another strategy -> stronger -> strongest -> a person -> strongest, answered

Each escalation is a note in the journal, with its reason. The first attempt is under the task's own
key, later ones under ``KEY/attempt2``, ``KEY/attempt3``, ... All draw on the task's one budget.
"""

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from orchestrator.engine.agent_loop import AgentRuntime, LoopResult, run_agent
from orchestrator.engine.budget import Account
from orchestrator.engine.human_questions import ask_person
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.model_routing import HUMAN
from orchestrator.engine.observer_events import Event
from orchestrator.engine.types import AgentSpec


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
    for number, stage in enumerate(stages, 1):
        attempt = task.key.in_attempt(number)
        brief = task.brief
        if change is not None:
            _record(change, attempt, spec.name, runtime)
            brief += await _ask_how_to_go_on(change, task, runtime)
        if stage != HUMAN:
            spec = replace(spec, model=stage)
        tried.append(
            await run_agent(spec, brief, runtime, task.key if number == 1 else attempt, account)
        )
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
