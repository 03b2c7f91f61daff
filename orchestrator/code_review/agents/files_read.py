"""Which changed files agents with a model have read."""

from orchestrator.code_review.agents import reviewer_assignment
from orchestrator.code_review.agents.judging import has_model
from orchestrator.code_review.review_state import ReviewState, Round
from orchestrator.engine.tool_call_records import calls_under

READING_TOOLS = frozenset({"read_file", "git_diff"})


def files_read(state: ReviewState) -> dict[str, set[str]]:
    """Path → the agents that read it; offline there are none.

    An agent has read a file of its task when its diff was shown in the opening or in the task, or
    when the agent called ``read_file`` or ``git_diff`` for it. Only one that ended with a report
    counts.
    """
    found: dict[str, set[str]] = {}
    if not has_model(state.settings):
        return found
    for done in state.rounds:
        ended = {result.agent for result in done.results if result.status == "ok"}
        for agent in ended:
            for path in _paths_read(state, done, agent):
                found.setdefault(path, set()).add(agent)
    return found


def _paths_read(state: ReviewState, done: Round, agent: str) -> set[str]:
    given = {path: None for task in done.plan.tasks if task.agent == agent for path in task.paths}
    in_task, _ = reviewer_assignment.fit_rest(state, given)
    shown = {path for path in given if path not in state.not_in_opening} | set(in_task)
    called = {
        str(call.arguments.get("path", ""))
        for task in done.tasks
        if task.spec.name == agent
        for call in calls_under(state.journal, task.key)
        if call.tool in READING_TOOLS and call.ok
    }
    return shown | (called & given.keys())
