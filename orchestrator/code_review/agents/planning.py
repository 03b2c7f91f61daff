"""From the lead's plan to bounded tasks. Code adds what the plan leaves out without a reason."""

from collections.abc import Iterable, Mapping, Set

from msgspec.structs import replace

from orchestrator.catalog.verdict_policy import CheckRule
from orchestrator.code_review.agent_report_contracts import PlannedTask, ReviewPlan, as_form
from orchestrator.code_review.agents import (
    escalation_stages,
    follow_up,
    model_skills,
    reviewer_assignment,
)
from orchestrator.code_review.agents.briefs import PROMPTS, build_brief
from orchestrator.code_review.findings.required_checks import concerned
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.tools.analyzer_tools import Analysis
from orchestrator.code_review.verdict.model import OPEN_QUESTION
from orchestrator.engine.agent_loop import LoopResult
from orchestrator.engine.agent_tasks import Task
from orchestrator.engine.types import AgentSpec


def lead_task(state: ReviewState) -> Task:
    """The lead's task in this iteration."""
    lead = model_skills.for_model(state, state.given.catalog.agents[state.given.settings.lead])
    reviewer_assignment.note_shown(state, lead.name, ())
    return Task(lead, lead_brief(state), state.iteration.key("plan"))


def lead_brief(state: ReviewState) -> str:
    """What the lead is asked."""
    change, focus = state.given.workspace.change, state.focus
    first = "plan_shares" if state.shares else "plan"
    task = PROMPTS[first if focus.retry is None else "plan_again"]
    roles = dict.fromkeys(share.role for share in state.shares) or state.examiners
    return build_brief(
        task,
        state.runtime.executor.nonce,
        base=change.base,
        head=change.head,
        files=len(change.files),
        specialists={role: state.given.catalog.agents[role].description for role in roles},
        iteration=focus.number,
        **_present(
            shares={share.agent: list(share.paths) for share in state.shares},
            proposed=dict(focus.concerned) if focus.retry is None else {},
            notes=list(change.notes),
            missing=dict(focus.retry or {}),
            wanted=list(focus.missing_evidence),
            answers=dict(focus.answers),
        ),
        **follow_up.earlier_rounds(state),
    )


def _present(**facts: object) -> dict[str, object]:
    return {name: fact for name, fact in facts.items() if fact}


def reviewable_paths(state: ReviewState) -> list[str]:
    """The files that agents are given: with lock files, which only a check reads."""
    workspace = state.given.workspace
    return [file.path for file in workspace.change.files if workspace.reviewable(file)]


def plan_by_code(state: ReviewState) -> ReviewPlan:
    """The plan without a lead: the single agent and every file, or what code has assigned."""
    scopes: Mapping[str, Iterable[str]] = {state.given.settings.single: reviewable_paths(state)}
    if state.pattern == "team":
        scopes = state.focus.retry or state.focus.shares
    return ReviewPlan(tasks=[PlannedTask(agent, list(paths)) for agent, paths in scopes.items()])


def read_plan(state: ReviewState, result: LoopResult) -> ReviewPlan:
    """The lead's plan, corrected so that policy and every changed file are covered.

    A file that it neither assigns nor skips with a reason goes to each specialist that it concerns,
    and so do all if the lead failed. The files of a required check that code has not run go to the
    agents with its tools. A question to an agent that does not exist goes to another one.
    """
    everything = reviewable_paths(state)
    known = set(everything)
    proposed = as_form(ReviewPlan, result.report) if result.status == "ok" else ReviewPlan(tasks=[])
    redirected = [
        replace(
            task,
            agent=_substitute(state, task),
            paths=[path for path in task.paths if path in known] or everything,
        )
        for task in _misassigned(state, proposed)
        if task.asks
    ]
    if state.shares and state.focus.retry is None:
        asked = replace(proposed, tasks=[*proposed.tasks, *redirected])
        return reviewer_assignment.apply_shares(asked, state.shares)
    accepted = [
        replace(task, paths=[path for path in task.paths if path in known])
        for task in proposed.tasks
        if task.agent in state.examiners
    ]
    if state.focus.retry is not None:
        tasks = [*accepted, *_retries_left_out(state, accepted), *redirected]
        return replace(proposed, tasks=tasks, skips=[])
    planned = {path for task in accepted for path in task.paths}
    skips = [s for s in proposed.skips if s.path in known - planned and s.why.strip()]
    planned |= {skip.path for skip in skips}
    forgotten = [path for path in everything if path not in planned]
    specialists = state.given.settings.specialists
    for agent, own in (state.focus.concerned or dict.fromkeys(specialists, forgotten)).items():
        concerns = frozenset(own)
        if paths := [path for path in forgotten if path in concerns]:
            accepted.append(PlannedTask(agent=agent, paths=paths))
    if not state.runtime.opening:  # otherwise code has run them on every file
        accepted += _tasks_for_required_checks(state, accepted)
    return replace(proposed, tasks=accepted + redirected, skips=skips)


def _retries_left_out(state: ReviewState, planned: Iterable[PlannedTask]) -> list[PlannedTask]:
    """The tasks of a further iteration that the lead's plan lacks.

    Where code assigns the files, it assigns those of the retry again; a lead that plans itself may
    leave them out, but no request about a finding, and nothing that a limit cut off
    which a person has raised since.
    """
    given, retry = {task.agent for task in planned}, state.focus.retry or {}
    met = [done for done in state.iterations if done.limit_raised]
    ended = [result for done in met for result in done.results]
    cut = {result.agent for result in ended if result.status in {"budget", "timeout"}}
    requests = {name: follow_up.paths_of_requests(state, name) for name in state.focus.requests}
    due = retry if state.shares else requests | {a: retry[a] for a in cut & retry.keys()}
    return [
        PlannedTask(agent=agent, paths=list(paths))
        for agent, paths in due.items()
        if agent not in given
    ]


def _misassigned(state: ReviewState, plan: ReviewPlan) -> list[PlannedTask]:
    """The tasks of the lead's plan for agents that do not exist or examine nothing."""
    known = {*state.examiners, *(share.role for share in state.shares)}
    return [task for task in plan.tasks if task.agent not in known]


def _substitute(state: ReviewState, task: PlannedTask) -> str:
    """The agent that gets such a task: of those with its files one of a similar name, or the first.

    ``security-expert`` is similar to ``security``.
    """
    paths = set(task.paths)
    able = [s.agent for s in state.shares if not paths or paths & set(s.paths)]
    agents = able or list(state.examiners)
    return next((name for name in agents if name in task.agent or task.agent in name), agents[0])


def _tasks_for_required_checks(
    state: ReviewState, planned: Iterable[PlannedTask]
) -> list[PlannedTask]:
    """Tasks for files of required checks that no agent with the check's tools was given."""
    given = {(task.agent, path) for task in planned for path in task.paths}
    lacking: dict[tuple[str, str], dict[str, None]] = {}
    names, agents = state.given.settings.specialists, state.given.catalog.agents
    for rule in state.given.catalog.verdict_policy.required_checks:
        paths = concerned(rule, state.given.workspace.open_paths)
        for tool in rule.tools:
            able = [name for name in names if tool in agents[name].tools]
            for path in paths if able else ():
                if not any((agent, path) in given for agent in able):
                    lacking.setdefault((able[0], rule.name), {})[path] = None
    return [
        PlannedTask(agent=agent, paths=list(paths), why=f"the check {name} is required of them")
        for (agent, name), paths in lacking.items()
    ]


def due_paths(state: ReviewState, rule: CheckRule) -> Mapping[str, frozenset[str]] | None:
    """The files that each tool of a check must examine; None if the check does not apply.

    The policy says where it applies. A lead can add checks of the policy but not remove any.
    """
    paths = concerned(rule, state.given.workspace.open_paths)
    required = any(rule.name in done.plan.required_checks for done in state.iterations)
    if not (paths or required):
        return None
    registry = state.runtime.executor.registry
    known = {name: registry.get(name) for name in rule.tools if name in registry.specs()}
    return {
        name: frozenset(filter(tool.concerns, paths))
        for name, tool in known.items()
        if isinstance(tool, Analysis)
    }


def open_questions(state: ReviewState) -> tuple[str, ...]:
    """What the lead leaves open: questions to a person, and unknown checks and agents."""
    plans = [done.plan for done in state.iterations]
    known = {rule.name for rule in state.given.catalog.verdict_policy.required_checks}
    open_ones = [q.question for plan in plans for q in plan.open_questions]
    questions = [
        f"{OPEN_QUESTION}{text}"
        for text in open_ones
        if text not in escalation_stages.answered(state)
    ]
    unknown = [
        f"the lead asks for the check {name}, which the policy does not know"
        for plan in plans
        for name in plan.required_checks
        if name not in known
    ]
    unassigned = [
        f"the lead assigned a task to {task.agent}, which is not an agent of this review; "
        + (
            f"{_substitute(state, task)} was asked: {task.asks}"
            if task.asks
            else "it asked nothing"
        )
        for done in state.iterations
        if done.planned is not None and done.planned.status == "ok"
        for task in _misassigned(state, as_form(ReviewPlan, done.planned.report))
    ]
    return tuple(dict.fromkeys((*questions, *unknown, *unassigned)))


def skipped_by_lead(state: ReviewState) -> dict[str, str]:
    """The files that the lead skipped and did not assign later: path → its reason."""
    taken_up = {p for done in state.iterations[1:] for task in done.plan.tasks for p in task.paths}
    return {
        skip.path: skip.why
        for done in state.iterations
        for skip in done.plan.skips
        if skip.path not in taken_up
    }


def build_tasks(state: ReviewState) -> list[Task]:
    """One bounded task per specialist with files to review, by the priorities of the plan."""
    scopes: dict[str, dict[str, None]] = {}
    asked: dict[str, list[PlannedTask]] = {}
    for planned in sorted(state.iteration.plan.tasks, key=lambda task: task.priority):
        scopes.setdefault(planned.agent, {}).update(dict.fromkeys(planned.paths))
        asked.setdefault(planned.agent, []).extend([planned] if planned.asks else [])
    skipped = {skip.path for skip in state.iteration.plan.skips}
    for agent in [agent for agent, paths in scopes.items() if asked[agent] and not paths]:
        own = state.focus.shares.get(agent) or reviewable_paths(state)
        scopes[agent] |= dict.fromkeys(path for path in own if path not in skipped)
    if not state.runtime.opening:  # with a model, code itself calls the analyzers with all files
        searched = dict.fromkeys(_searched_only(state))
        for paths in scopes.values():
            paths.update(searched)
    change, nonce = state.given.workspace.change, state.runtime.executor.nonce
    for agent, paths in scopes.items():
        reviewer_assignment.note_shown(state, agent, paths)
    return [
        Task(
            spec,
            build_brief(
                _task_text(state, agent, asked=bool(asked[agent])),
                nonce,
                base=change.base,
                head=change.head,
                paths=list(paths),
                **_present(
                    change=state.iteration.plan.summary,
                    questions=_show_questions(asked[agent], set(paths)),
                    wanted=list(state.focus.missing_evidence),
                    answers=dict(state.focus.answers),
                ),
                **follow_up.earlier_rounds(state, agent),
            )
            + reviewer_assignment.show_rest(state, paths)
            + reviewer_assignment.show_seams(state, agent),
            state.iteration.key("act", agent),
            stage_change,
        )
        for agent, paths in scopes.items()
        if paths
        for spec, stage_change in [
            escalation_stages.at_current_stage(state, _without_idle_tools(state, agent, paths))
        ]
    ]


def _show_questions(tasks: Iterable[PlannedTask], paths: Set[str]) -> list[dict[str, object]]:
    """An agent's questions by priority, with their files unless these are all of its ``paths``."""
    found: dict[str, tuple[int, dict[str, None]]] = {}
    for task in tasks:
        _, about = found.setdefault(task.asks, (task.priority, {}))
        about |= dict.fromkeys(task.paths)
    return [
        {"question": question, "priority": priority}
        | _present(paths=list(about) if about.keys() < paths else [])
        for question, (priority, about) in found.items()
    ]


def _task_text(state: ReviewState, agent: str, *, asked: bool) -> str:
    """What a specialist is to do.

    Args:
        asked: whether its facts contain questions.
    """
    if state.focus.retry is not None:
        return PROMPTS["review_again"]
    if state.is_trivial:
        return PROMPTS["review_trivial"]
    if agent in state.beside:
        return PROMPTS["review_beside"]
    return PROMPTS["review_and_answer" if asked else "review"]


def _searched_only(state: ReviewState) -> list[str]:
    """The vendored and generated files in which analyzers look for severe findings."""
    workspace = state.given.workspace
    return [file.path for file in workspace.change.files if workspace.searched_only(file)]


def _without_idle_tools(state: ReviewState, agent: str, paths: Iterable[str]) -> AgentSpec:
    """The agent with only those analyzers, and with a model skills, that apply to its files.

    A model is shown few tools, and one without files distracts. If none applies, the agent keeps
    all of them, so that the journal shows that they had nothing to examine.
    """
    registry, spec = state.runtime.executor.registry, state.agent(agent)
    files = [state.given.workspace.files[path] for path in paths]
    names = {name for file in files for name in file.paths}
    names.update(_searched_only(state))
    known = [registry.get(name) for name in spec.tools if name in registry.specs()]
    analyses = [tool for tool in known if isinstance(tool, Analysis)]
    idle = {tool.spec.name for tool in analyses if not any(map(tool.concerns, names))}
    if len(idle) < len(analyses):
        skills = spec.skills
        if state.runtime.opening:
            skills = tuple(s for s in skills if s.scope.files or not s.tools or s.tools - idle)
        tools = tuple(name for name in spec.tools if name not in idle)
        spec = replace(spec, tools=tools, skills=skills)
    return model_skills.for_model(state, spec, names)


def paths_to_retry(state: ReviewState, failed: Iterable[str]) -> dict[str, list[str]]:
    """What the next iteration examines: agent → files.

    It has the agents that failed, had a failing tool, or are asked about a finding. If there are
    none and the judge misses evidence, it has every agent.
    """
    # An iteration without budget for the lead has no tasks, so the one before it counts.
    worked = [done for done in state.iterations if done.tasks]
    last = [task.spec.name for task in worked[-1].tasks] if worked else []
    repeated = [agent for agent in dict.fromkeys(failed) if agent in last]
    requested = [agent for agent in state.focus.requests if agent not in repeated]
    if not repeated and not requested:
        missing = state.focus.missing_evidence
        repeated = follow_up.concerned_agents(state, missing) or last
    scopes = {
        agent: [path for task in done.plan.tasks if task.agent == agent for path in task.paths]
        for done in worked
        for agent in repeated
        if any(task.agent == agent for task in done.plan.tasks)
    }
    everything = reviewable_paths(state)
    found = {agent: list(dict.fromkeys(scopes.get(agent, everything))) for agent in repeated}
    return found | {agent: follow_up.paths_of_requests(state, agent) for agent in requested}
