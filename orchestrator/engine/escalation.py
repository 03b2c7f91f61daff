"""The ladder: an agent that failed tries again a rung higher, and at its end a person is asked.

    fast -> fast, another strategy -> stronger -> strongest -> a person -> strongest, as they say

Each step up is a note in the journal, with its reason. The first attempt stands under the task's
own key, those above it under ``KEY/rung2``, ``KEY/rung3``, ... All draw on the task's one budget.
"""

from __future__ import annotations

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from orchestrator.engine.agent import AgentResult, Harness, run_agent
from orchestrator.engine.budget import Account
from orchestrator.engine.events import Event
from orchestrator.engine.human_questions import ask
from orchestrator.engine.model_config import HUMAN
from orchestrator.engine.types import AgentSpec


class Step(Struct, frozen=True):
    """One step up, and why."""

    below: str
    rung: str
    why: str


class Task(Struct, frozen=True):
    """A brief for one agent.

    Attributes:
        key: its prefix in the journal, unique in the run.
        step: how it came to begin above the rung that the agent's last task ended on.
    """

    spec: AgentSpec
    brief: str
    key: str
    step: Step | None = None


async def climb(task: Task, harness: Harness, account: Account) -> AgentResult:
    """Work on a task rung by rung, until an attempt does not fail or there is no rung left.

    What a budget or the time ended does not climb: there is nothing left to climb with.

    Raises:
        AnswerPending: the next rung is a person, who has yet to answer.
        ReplayMismatch, StoreError: the run itself cannot go on.
    """
    spec, step = task.spec, task.step
    rungs = [spec.model, *harness.choose(spec).above]
    if step is not None and step.rung == HUMAN:
        rungs = [HUMAN]
    tried: list[AgentResult] = []
    for number, rung in enumerate(rungs, 1):
        key = task.key if number == 1 else f"{task.key}/rung{number}"
        brief = task.brief
        if step is not None:
            _record(step, f"{task.key}/rung{number}", spec.name, harness)
            brief += await _word_of_a_person(step, task, harness)
        if rung != HUMAN:
            spec = replace(spec, model=rung)
        tried.append(await run_agent(spec, brief, harness, key, account))
        if tried[-1].status != "failed" or number == len(rungs):
            break
        step = Step(rung, rungs[number], tried[-1].detail)
    choice = harness.choose(spec)
    return replace(
        tried[-1],
        turns=sum(one.turns for one in tried),
        tool_calls=sum(one.tool_calls for one in tried),
        rung=choice.rung,
        floor=choice.floor,
        above=choice.above[0] if choice.above and rung != HUMAN else "",
    )


async def _word_of_a_person(step: Step, task: Task, harness: Harness) -> str:
    """What a person said, as the end of a brief; empty where the next rung is none."""
    if step.rung != HUMAN:
        return ""
    agent = task.spec.name
    question = f"{agent} cannot go on by itself: {step.why}. What should it do, or know?"
    said = await ask(harness.journal, {task.key: (agent, question)})
    return f"\nA person was asked how to go on, and says:\n{said[task.key]}"


def _record(step: Step, key: str, agent: str, harness: Harness) -> None:
    journal = harness.journal
    replayed = journal.noted(key) is not None
    journal.note(key, {"agent": agent, **to_builtins(step)})
    said = f"{agent} climbs from {step.below} to {step.rung}: {step.why}"
    harness.observer(
        Event("note", journal.elapsed(), agent, key=key, detail=said, replayed=replayed)
    )
