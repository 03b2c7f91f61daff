"""Which of the tools that opened playbooks name were run."""

from collections.abc import Mapping

from orchestrator.code_review.agents.judging import has_model
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.tools.analyzer_tools import Analysis
from orchestrator.engine.tool_call_records import calls_under
from orchestrator.engine.tool_registry import NAVIGATION
from orchestrator.engine.types import AgentSpec


def playbook_tools(state: ReviewState) -> Mapping[str, bool]:
    """``playbook: tool`` → whether the tool ran, for all that opened playbooks name.

    Excluded are tools that apply to no changed file, and those that the agent may not call.
    """
    idle = {call.ref for call in state.calls() if not call.did_its_work}
    completed = (call for call in calls_under(state.journal, "") if call.completed)
    ran = {call.tool for call in completed if call.key not in idle}
    return {
        f"{skill.name}: {tool}": tool in ran
        for task in (task for done in state.rounds for task in done.tasks)
        for skill in task.spec.skills
        for tool in sorted(skill.tools)
        if _applies(state, task.spec, tool)
    }


def _applies(state: ReviewState, spec: AgentSpec, name: str) -> bool:
    executor = state.runtime.executor
    if name not in executor.registry.specs():
        return False
    tool = executor.registry.get(name)
    # A model reads further only if the opening leaves questions; not to do so is no omission.
    if NAVIGATION in tool.spec.tags and has_model(state.given.settings):
        return False
    return executor.policy.refusal(spec, tool.spec) is None and (
        not isinstance(tool, Analysis) or any(map(tool.concerns, state.given.workspace.files))
    )
