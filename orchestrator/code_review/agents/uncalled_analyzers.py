"""Code calls the analyzers of agents that ended early or wait: no model is needed for that."""

from collections.abc import Collection

from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.tools.analyzer_tools import Analysis
from orchestrator.code_review.tools.registry import ANALYZERS
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.ports import Tool
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.types import AgentSpec, ToolCall


async def run_uncalled_analyzers(state: ReviewState) -> None:
    """Call the analyzers that agents which ended early or wait in this iteration did not call.

    The missing report stays a gap. The calls pass the executor like any others and count against
    the budget of the run, not of the agent.
    """
    called = {call.tool for call in state.calls() if not call.why}
    async with task_group() as group:
        for agent in _agents_without_result(state):
            spec, key = state.agent(agent), state.round.key("analysis", agent).in_turn(1)
            for position, name in enumerate(spec.tools, 1):
                if name not in called and is_useful(state, spec, name):
                    called.add(name)
                    group.start_soon(_call, state, spec, key.tool_call(position, name))


def _agents_without_result(state: ReviewState) -> Collection[str]:
    """The examining agents without a report; all of them if the lead waits."""
    if not state.round.tasks:
        return state.examiners if state.waiting_agents else ()
    ended = [*state.round.results, *(work.result for work in state.waiting_agents)]
    without = {result.agent for result in ended if result.status != "ok"}
    return [agent for agent in state.examiners if agent in without]


def find_tool(state: ReviewState, spec: AgentSpec, name: str) -> Tool | None:
    """A tool of the review that an agent may call; None if there is none of this name."""
    executor = state.runtime.executor
    if name not in (known := executor.registry.specs()) or executor.policy.refusal(
        spec, known[name]
    ):
        return None
    return executor.registry.get(name)


def is_useful(state: ReviewState, spec: AgentSpec, name: str) -> bool:
    """Whether it is an analyzer that reads a changed file and that the agent may call."""
    tool = find_tool(state, spec, name) if name in ANALYZERS else None
    return isinstance(tool, Analysis) and any(map(tool.concerns, state.given.workspace.files))


async def _call(state: ReviewState, spec: AgentSpec, key: Key) -> None:
    call = ToolCall(str(key), key.tool, {})
    await state.runtime.executor.call(spec, call, key, state.given.budget)
