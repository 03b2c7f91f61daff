"""The review as a state machine: the main loop of the product, run by ``engine.state_machine``.

    Intake → Plan → Triage → Act → Synthesize → Evaluate → Iterate (→ Plan) or an end

Each handler does its state's work and returns the next state. All input from outside goes through
the journal, so running the flow again over a journal visits the same states. If only a person can
answer, the flow stops in StopHuman; once the answer is recorded, a resumed run continues.
"""

from collections import Counter, defaultdict

from msgspec.structs import replace

from orchestrator.code_review.agents import (
    escalation_stages,
    fixer,
    follow_up,
    judging,
    model_skills,
    planning,
    prover,
    shared_opening,
    verifier,
)
from orchestrator.code_review.agents.files_read import cut_short, files_read, hunks_read, refusals
from orchestrator.code_review.agents.participants import needs_judge
from orchestrator.code_review.agents.skill_requirements import skill_requirements
from orchestrator.code_review.agents.uncalled_analyzers import run_uncalled_analyzers
from orchestrator.code_review.findings import reading_depth, waivers
from orchestrator.code_review.findings.carried_findings import place_claims, settled_by, targets_of
from orchestrator.code_review.findings.dismissals import place_dismissals, reported_paths
from orchestrator.code_review.findings.evidence_from_journal import (
    Work,
    failures,
    health,
    tool_notes,
)
from orchestrator.code_review.findings.finding_context import add_contexts
from orchestrator.code_review.findings.measured_criteria import score_measured
from orchestrator.code_review.findings.required_checks import check_required
from orchestrator.code_review.findings.verdict_findings import Synthesis, build_findings
from orchestrator.code_review.fixes.fixed_findings import prove_fixes, with_fixes
from orchestrator.code_review.review_state import Iteration, ReviewState
from orchestrator.code_review.stop_rules import IterationFacts, StopDecision, decide_stop
from orchestrator.engine.agent_loop import LoopResult
from orchestrator.engine.agent_tasks import run_task, run_team
from orchestrator.engine.human_questions import ask_person, recorded_questions
from orchestrator.engine.rubric_scoring import CriterionMark, Scorecard, score_rubric
from orchestrator.engine.state_machine import Flow, State
from orchestrator.engine.tool_call_records import calls_under
from orchestrator.errors import ApprovalRequired, BudgetExhausted, NotPermitted
from orchestrator.wording import count_noun

ENDS = {
    "done": "Done",
    "budget": "StopBudget",
    "stagnation": "StopStagnation",
    "human": "StopHuman",
}


async def intake(state: ReviewState) -> str:
    """Place the previous review's open findings in the change; for models, run the analyzers.

    An empty change needs no review.
    """
    if state.given.workspace.change.files:
        state.carried = await place_claims(state.given.workspace, state.given.handed_over.claims)
        state.focus.targets = targets_of(state.carried)
        if state.given.settings.has_model:
            state.settled, state.why_unsettled = settled_by(
                state.given.handed_over, state.given.workspace.change, state.policy_digests
            )
            await shared_opening.open_for_models(state)
            await model_skills.choose_packs(state)
        return "Plan"
    state.stop = StopDecision("done", "the change is empty; there is nothing to review")
    return "Done"


async def plan(state: ReviewState) -> str:
    """Have the lead plan; code adds each file that the plan neither assigns nor skips."""
    state.focus.number += 1
    state.iterations.append(Iteration(state.focus.number, shown=state.focus.shown))
    if state.runtime.opening and state.focus.number > 1:  # then there are findings to respond to
        state.runtime = replace(state.runtime, shown_contracts={})
    if not state.is_led:
        state.iteration.plan = planning.plan_by_code(state)
        return "Triage"
    task = planning.lead_task(state)
    state.iteration.planned = await run_task(task, state.runtime, state.given.budget)
    state.iteration.plan = planning.read_plan(state, state.iteration.planned)
    return "Triage"


async def triage(state: ReviewState) -> str:
    """Turn the plan into at most one bounded task per specialist."""
    state.iteration.tasks = planning.build_tasks(state)
    return "Act"


async def act(state: ReviewState) -> str:
    """Run the specialists concurrently; call the analyzers of those that end without a report."""
    await run_team(
        state.iteration.tasks,
        state.runtime,
        state.given.budget,
        concurrency=state.given.settings.concurrency,
        on_result=state.iteration.results.append,
    )
    await run_uncalled_analyzers(state)
    return "Synthesize"


async def synthesize(state: ReviewState) -> str:
    """Build the findings of all iterations so far; prove them, and patches for them."""
    await rebuild_findings(state)
    await prover.prove_findings(state)
    await prove_fixes(state)
    return "Evaluate"


async def rebuild_findings(
    state: ReviewState, *, keep_ids: bool = False, as_of_iteration: int = 0
) -> None:
    """Build the findings from all reports and verifications so far.

    Args:
        keep_ids: findings that were built before keep their ids.
        as_of_iteration: without those that a person drops by then; 0: by the present iteration.
    """
    calls, team = state.calls(), state.team()
    reported = reported_paths(calls, team, state.carried)
    policy, number = state.given.catalog.verdict_policy, as_of_iteration or state.iteration.number
    dropped = [one for each in state.dropped if each.iteration <= number for one in each.waivers]
    ids = {one.fingerprint: one.id for one in state.synthesis.findings if keep_ids}
    policy = replace(policy, waivers=(*policy.waivers, *dropped))
    policy = await place_dismissals(state.given.workspace, policy, reported)
    found = await build_findings(
        state.given.workspace, calls, team, state.answers(), policy, state.references(ids)
    )
    checked = reading_depth.list_checked(
        calls, files_read(state), state.given.catalog.languages, await hunks_read(state)
    )
    day = await waivers.run_day(policy, state.journal)
    paths = await state.given.workspace.contents.paths("head") if policy.waivers else ()
    findings = await add_contexts(state.given.workspace, found.findings)
    findings = waivers.apply_waivers(findings, policy, day)
    synthesis = replace(
        found,
        findings=with_fixes(findings, state.fixes),
        waivers=waivers.describe_waivers(findings, policy, paths, day),
        memory=waivers.describe_memory(findings, policy, paths, day),
        checked=checked,
        skipped=reading_depth.add_unread(
            [
                *reading_depth.list_skipped(
                    state.given.workspace,
                    calls,
                    team,
                    state.withheld(),
                    planning.skipped_by_lead(state),
                ),
                *cut_short(state, checked),
            ],
            checked,
            state.given.workspace,
            state.given.catalog.languages,
            gap=policy.unread == "gap",
            inert=await reading_depth.find_inert(state.given.workspace),
        ),
    )
    state.synthesis = prover.with_proofs(synthesis, state.proofs)
    state.focus.shown = {**state.focus.shown, **found.shown}
    state.focus.targets = {**state.focus.targets, **found.targets}


async def evaluate(state: ReviewState) -> str:
    """Verify claims, score the review, and decide whether to iterate or how to stop."""
    state.iteration.answers = await ask_person(state.journal, escalation_stages.blocking(state))
    await verifier.verify_findings(state)
    if state.iteration.verified:
        await rebuild_findings(state, keep_ids=True)
    await _score(state)
    stop = _decide(state)
    following = state.iteration.number + 1
    if any(drop.again and drop.iteration == following for drop in state.dropped):
        # Once all that is on record is replayed, without the dropped ones.
        await rebuild_findings(state, keep_ids=True, as_of_iteration=following)
    if stop is None:
        return "Iterate"
    state.stop = stop
    if stop.reason in {"done", "stagnation"}:
        await fixer.write_fixes(state)
    return ENDS[stop.reason]


async def _score(state: ReviewState, *, ask_judge: bool = True) -> None:
    """Score the iteration; without the judge in a review that ends before it is asked."""
    marks, asked = _measure(state), needs_judge(state.given.settings, state.rubric)
    if asked and judging.is_decided(state):
        asked = False
        marks |= judging.marks_of_decided(state.rubric)
    if asked and ask_judge:
        marks |= await judging.run_judge(state)
    state.scorecard = score_rubric(state.rubric, marks, asked=asked)
    if ask_judge:
        changes = escalation_stages.below_min_score(state, state.scorecard)
        state.iteration.stage_changes = changes
    state.history.append(_gather_facts(state, state.scorecard))


def _decide(state: ReviewState) -> StopDecision | None:
    """Why to stop after this iteration; None: go on."""
    iteration = state.iteration
    # An iteration that a limit cut short, which a person has raised since, says nothing.
    facts = zip(state.history, state.iterations, strict=True)
    history = [each for each, done in facts if not done.limit_raised]
    bounds = state.given.budget.bounds
    stop = decide_stop(history, state.given.settings.stagnation, bounds.iterations)
    iteration.decision = f"{stop.reason}: {stop.detail}" if stop else "iterate"
    state.journal.note(iteration.key("evaluate"), {"decision": iteration.decision})
    at_limit = bool(history[-1].budget)  # the number of iterations is not raised
    iteration.limit_raised = at_limit and state.journal.granted_after(iteration.key("evaluate"))
    return None if iteration.limit_raised else stop


async def iterate(state: ReviewState) -> str:
    """Limit the next iteration to what is missing."""
    assert state.scorecard is not None
    failed = failures(state.calls(), state.team())
    focus = state.focus
    focus.missing_evidence = state.scorecard.missing_of("judged")
    focus.requests = follow_up.find_requests(state)
    focus.retry = planning.paths_to_retry(
        state, (*(failure.agent for failure in failed), *state.iteration.stage_changes)
    )
    focus.stage_changes = state.iteration.stage_changes
    focus.answers = escalation_stages.answered(state)
    return "Plan"


async def stop_for_person(state: ReviewState) -> str:
    """Conclude with the results so far, without the agents that wait for a person."""
    questions = [question for question in recorded_questions(state.journal) if not question.answer]
    state.approvals = escalation_stages.pending_approvals(state.journal)
    waiting: defaultdict[str, list[str]] = defaultdict(list)
    for call in state.approvals:
        waiting[call.agent].append(f"{call.tool} needs approval")
    for question in questions:
        waiting[question.agent].append(question.question)
    state.unfinished_agents = [
        Work(state.iteration.number, LoopResult(agent, "waiting", detail="; ".join(why)))
        for agent, why in waiting.items()
    ]
    await run_uncalled_analyzers(state)
    await synthesize(state)
    await _score(state, ask_judge=False)
    calls = [f"{call.agent} requests {call.tool} {call.arguments}" for call in state.approvals]
    state.stop = StopDecision(
        "human", " ".join([*(question.question for question in questions), *calls])
    )
    state.iteration.decision = f"human: {state.stop.detail}"
    return ENDS["human"]


FLOW: Flow[ReviewState] = Flow.of(
    "Intake",
    [
        State("Intake", intake, ("Plan", "Done")),
        State("Plan", plan, ("Triage", "StopHuman")),
        State("Triage", triage, ("Act",)),
        State("Act", act, ("Synthesize", "StopHuman")),
        State("Synthesize", synthesize, ("Evaluate",)),
        State("Evaluate", evaluate, ("Iterate", *ENDS.values())),
        State("Iterate", iterate, ("Plan",)),
        *(State(end, pauses=end in {"StopHuman", "StopBudget"}) for end in ENDS.values()),
    ],
    when_waiting=stop_for_person,
)


async def end_cancelled(state: ReviewState, detail: str) -> None:
    """End a review that a person cancelled with the results so far; nothing more is called."""
    state.stop = StopDecision("cancelled", detail)
    if not state.iterations:
        state.iterations.append(Iteration(1))
    ended = {result.agent for result in state.iteration.results}
    state.unfinished_agents = [
        Work(state.iteration.number, LoopResult(task.spec.name, "cancelled", detail=detail))
        for task in state.iteration.tasks
        if task.spec.name not in ended
    ]
    await rebuild_findings(state)
    if len(state.history) < len(state.iterations):
        await _score(state, ask_judge=False)
    state.iteration.decision = f"cancelled: {detail}"


def _measure(state: ReviewState) -> dict[str, CriterionMark]:
    """Set the required checks and tool notes; return the marks of the measured criteria."""
    calls, rules = state.calls(), state.given.catalog.verdict_policy.required_checks
    tools = health(calls)
    state.tool_notes = tool_notes(calls)
    off = {skip.tool: skip.why for skip in state.synthesis.skipped if skip.tool}
    state.checks = [
        check_required(rule, planning.due_paths(state, rule), tools, off) for rule in rules
    ]
    everything = [file.path for file in state.given.workspace.change.files]
    named = skill_requirements(state)
    return dict(
        score_measured(state.synthesis, everything, state.checks, calls, state.team(), named)
    )


def _gather_facts(state: ReviewState, scored: Scorecard) -> IterationFacts:
    """The facts of this iteration for the stop rules."""
    synthesis = state.synthesis
    signatures = tuple(map(str, failures(state.calls(), state.team())))
    results = sorted(state.iteration.results, key=lambda result: result.agent)
    reports = [result.report for result in results if isinstance(result.report, dict)]
    summaries = [str(report.get("summary", "")) for report in reports]
    agent_requests = follow_up.find_requests(state, rejected=False)
    requests = [text for texts in agent_requests.values() for text in texts]
    answers = state.iteration.answers.values()
    unused = tuple(f"nobody has looked into this answer: {answer}" for answer in answers)
    changes = state.iteration.stage_changes.items()
    escalated = tuple(f"{agent}: {step.why}" for agent, step in changes)
    earlier = () if scored.is_judged else state.focus.missing_evidence
    missed = scored.missing_of("judged") or earlier
    return IterationFacts(
        score=scored.total,
        accepted=scored.accepted,
        judged=scored.is_judged,
        gates=(*signatures, *unused),
        missing=(*signatures, *unused, *scored.missing_of("judged"), *escalated, *requests),
        failures=frozenset(signatures),
        evidence=frozenset(finding.fingerprint for finding in synthesis.findings),
        touched=frozenset(
            (
                *(f"{by}:{c.path}" for c in synthesis.checked for by in c.by),
                *(f"fixed:{f.id}" for f in synthesis.findings if f.fix and f.fix.is_verified),
            )
        ),
        uncertain=(
            *_uncertain(synthesis),
            *planning.open_questions(state),
            *dict.fromkeys(_refused_look_ups(state).values()),
            *(f"the judge misses: {text}" for text in missed),
        ),
        gaps=sum(skip.gap for skip in synthesis.skipped),
        output="\n".join(summaries),
        budget=_budget_met(state),
        human=_human_needed(state),
    )


def _uncertain(synthesis: Synthesis) -> tuple[str, ...]:
    """What was not reviewed, a line per tool and reason."""
    found = Counter((skip.tool, skip.why) for skip in synthesis.skipped if skip.gap)
    return tuple(
        f"{f'not reviewed by {tool}' if tool else 'not reviewed'} "
        f"({count_noun(count, 'part')}): {why}"
        for (tool, why), count in found.items()
    )


def _budget_met(state: ReviewState) -> str:
    """The limit that this iteration reached, or empty."""
    for result in sorted(state.iteration.results, key=lambda result: result.agent):
        if result.status == "budget":
            return result.detail
    passed_over = _refused_look_ups(state)
    for key, refusal in state.journal.refusals(str(state.iteration.number)).items():
        if refusal.code == BudgetExhausted.code and key not in passed_over:
            return refusal.reason
    return ""


def _refused_look_ups(state: ReviewState) -> dict[str, str]:
    """Key → text of each look-up beyond a limit, of agents that reported all the same.

    Those that have read all hunks of their files only lacked more around them.
    """
    reported = {result.agent for result in state.iteration.results if result.status == "ok"}
    read = {one.path: [hunk.read_by for hunk in one.hunks] for one in state.synthesis.checked}
    for task in state.iteration.plan.tasks:
        if any(task.agent not in by for path in task.paths for by in read.get(path, ())):
            reported.discard(task.agent)
    refused = refusals(state, state.iteration).items()
    return {key: f"{agent} {text}" for key, (agent, text) in refused if agent in reported}


def _human_needed(state: ReviewState) -> str:
    """What only a person can decide, beyond answering a question; or empty."""
    needed = {
        tool for rule in state.given.catalog.verdict_policy.required_checks for tool in rule.tools
    }
    for done in state.iterations:
        for call in calls_under(state.journal, str(done.number)):
            required = call.code == NotPermitted.code and call.tool in needed
            if call.refusal and (required or call.code == ApprovalRequired.code):
                return call.refusal.reason
    return ""
