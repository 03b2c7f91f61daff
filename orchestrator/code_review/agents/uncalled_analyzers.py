"""Code calls the analyzers of agents that ended early or wait: no model is needed for that.

So it does in a further iteration with calls that a limit had cut off in an earlier one.
"""

from collections.abc import Collection

from orchestrator.code_review.findings.evidence_from_journal import BY_CODE
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.tools.analyzer_tools import Analysis
from orchestrator.code_review.tools.registry import ANALYZERS
from orchestrator.engine.ports import Tool
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.types import AgentSpec, Bounds
from orchestrator.errors import BudgetExhausted

CODE = AgentSpec(BY_CODE, "runs the analyzers", "", tuple(ANALYZERS), bounds=Bounds())
"""As whom code itself calls analyzers."""


async def run_uncalled_analyzers(state: ReviewState) -> None:
    """Call what agents that ended early or wait did not call, and what a limit has cut off.

    The missing report stays a gap. The calls pass the executor like any others and count against
    the budget of the run, not of the agent.
    """
    calls = state.calls()
    called = {call.tool for call in calls if not call.why}
    ended = _agents_without_result(state)
    last = {(call.agent, call.tool): call for call in calls}
    cut = {
        which
        for which, call in last.items()
        if call.iteration < state.iteration.number and call.why.startswith(BudgetExhausted.code)
    }
    async with task_group() as group:
        for agent in (BY_CODE, *state.examiners):
            spec = CODE if agent == BY_CODE else state.agent(agent)
            key = state.iteration.key("analysis", agent).in_turn(1)
            for position, name in enumerate(spec.tools, 1):
                wanted = agent in ended and name not in called and is_useful(state, spec, name)
                if wanted or (agent, name) in cut:
                    called.add(name)
                    group.start_soon(state.call_tool, spec, key.tool_call(position, name), {})


def _agents_without_result(state: ReviewState) -> Collection[str]:
    """The examining agents without a report; all of them if the lead waits."""
    if not state.iteration.tasks:
        return state.examiners if state.unfinished_agents else ()
    ended = [*state.iteration.results, *(work.result for work in state.unfinished_agents)]
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
