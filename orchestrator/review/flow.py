"""The review as a state machine: the main loop of the product, run by ``engine.state_machine``.

    Intake → Plan → Triage → Act → Synthesize → Evaluate → Iterate (→ Plan) or an end

Each handler does one thing and says where to go. What a handler learns from outside goes through
the journal, so that running the flow again over a journal takes the same way. Where only a person
can go on, it stops in StopHuman; with the answer recorded, the next run goes on from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps

from msgspec.structs import replace

from orchestrator.engine.agent import AgentResult
from orchestrator.engine.escalation import Task
from orchestrator.engine.human_questions import ask, asked
from orchestrator.engine.judge import Mark, Scorecard, judge
from orchestrator.engine.state_machine import Flow, State
from orchestrator.engine.stop_rules import Iteration, Stop, StopPolicy, decide
from orchestrator.engine.team import run_task, run_team
from orchestrator.errors import AnswerPending
from orchestrator.review.agents import escalation, judging, planning
from orchestrator.review.findings import examined, waivers
from orchestrator.review.findings.journal_queries import Work, failures, health
from orchestrator.review.findings.measured_criteria import measure
from orchestrator.review.findings.synthesis import Synthesis, build_findings
from orchestrator.review.review_state import Case, Round
from orchestrator.review.verdict.decision import check

ENDS = {
    "done": "Done",
    "budget": "StopBudget",
    "stagnation": "StopStagnation",
    "human": "StopHuman",
}


Handler = Callable[[Case], Awaitable[str]]


def may_ask(handler: Handler) -> Handler:
    """Have a handler stop the run where it finds that a person must answer first."""

    @wraps(handler)
    async def handled(case: Case) -> str:
        try:
            return await handler(case)
        except AnswerPending as pending:
            return await _wait(case, pending)

    return handled


async def intake(case: Case) -> str:
    """Look at what the change is. An empty one needs no review."""
    if case.session.change.files:
        return "Plan"
    case.stop = Stop("done", "the change is empty; there is nothing to review")
    return "Done"


@may_ask
async def plan(case: Case) -> str:
    """Have the lead plan, and hold its plan against the change: no file may be left out unsaid."""
    case.focus.number += 1
    case.rounds.append(Round(case.focus.number))
    if case.settings.pattern == "single":
        case.round.plan = planning.everything_to(case, case.settings.single)
        return "Triage"
    lead = case.catalog.agents[case.settings.lead]
    task = Task(lead, planning.lead_brief(case), f"{case.focus.number}/plan")
    case.round.plan = planning.read(case, await run_task(task, case.harness, case.budget))
    return "Triage"


async def triage(case: Case) -> str:
    """Bound the work: at most one task per specialist, over files that can be looked at."""
    case.round.tasks = planning.tasks(case)
    return "Act"


@may_ask
async def act(case: Case) -> str:
    """Send the specialists out, side by side."""
    await run_team(
        case.round.tasks, case.harness, case.budget, concurrency=case.settings.concurrency
    )
    return "Synthesize"


async def synthesize(case: Case) -> str:
    """Bring together what all iterations so far have shown."""
    calls, team, policy = case.calls(), case.team(), case.catalog.verdict_policy
    found = await build_findings(case.session, calls, team, case.answers("act"), policy)
    day = await waivers.today(policy, case.journal)
    case.synthesis = replace(
        found,
        findings=waivers.waived(found.findings, policy, day),
        checked=examined.checked(calls),
        skipped=examined.skipped(
            case.session, calls, team, case.withheld(), planning.left_out(case)
        ),
    )
    return "Evaluate"


@may_ask
async def evaluate(case: Case) -> str:
    """Score the review, and decide whether another round would gain anything."""
    case.round.answers = await ask(case.journal, escalation.blocking(case))
    marks = _measured(case)
    if judging.wanted(case.settings, case.rubric):
        marks |= await judging.judged(case)
    scored = judge(case.rubric, marks)
    case.scorecard = scored
    case.round.climbs = escalation.below_floor(case, scored)
    failed = failures(case.calls(), case.team())
    case.history.append(_iteration(case, scored, failed))
    stop = decide(case.history, _policy(case))
    case.round.decision = f"{stop.reason}: {stop.detail}" if stop else "iterate"
    case.journal.note(f"{case.round.number}/evaluate", {"decision": case.round.decision})
    if stop is not None:
        case.stop = stop
        return ENDS[stop.reason]
    case.focus.retry = planning.retry(case, (*failed, *case.round.climbs))
    case.focus.wanted = scored.missing_of("judged")
    case.focus.climbs = case.round.climbs
    case.focus.answers = escalation.answered(case)
    return "Iterate"


async def iterate(case: Case) -> str:
    """Go round again, for what is missing only; ``focus`` says what that is."""
    return "Plan"


FLOW: Flow[Case] = Flow.of(
    "Intake",
    [
        State("Intake", intake, ("Plan", "Done")),
        State("Plan", plan, ("Triage", "StopHuman")),
        State("Triage", triage, ("Act",)),
        State("Act", act, ("Synthesize", "StopHuman")),
        State("Synthesize", synthesize, ("Evaluate",)),
        State("Evaluate", evaluate, ("Iterate", *ENDS.values())),
        State("Iterate", iterate, ("Plan",)),
        *(State(end, pauses=end == "StopHuman") for end in ENDS.values()),
    ],
)


async def _wait(case: Case, pending: AnswerPending) -> str:
    """Say what there is so far, without those who wait for a person."""
    case.waiting = [
        Work(case.round.number, AgentResult(question.agent, "waiting", detail=question.question))
        for question in asked(case.journal)
        if question.name in pending.questions
    ]
    await synthesize(case)
    scored = judge(case.rubric, _measured(case))
    case.scorecard = scored
    case.history.append(_iteration(case, scored, failures(case.calls(), case.team())))
    case.stop = Stop("human", " ".join(pending.questions.values()))
    case.round.decision = f"human: {case.stop.detail}"
    return ENDS["human"]


def _measured(case: Case) -> dict[str, Mark]:
    """The marks of the measured criteria, and the required checks, by what there is so far."""
    calls, rules = case.calls(), case.catalog.verdict_policy.required_checks
    tools = health(calls)
    case.checks = [check(rule, planning.due(case, rule), tools) for rule in rules]
    everything = [file.path for file in case.session.change.files]
    return dict(measure(case.synthesis, everything, case.checks, calls, case.team()))


def _iteration(case: Case, scored: Scorecard, failed: Mapping[str, str]) -> Iteration:
    """This round as the facts that the stop rules speak of."""
    synthesis = case.synthesis
    signatures = tuple(f"{name}: {why}" for name, why in sorted(failed.items()))
    summaries = [
        str(entry.result.report.get("summary", ""))
        for entry in case.team()
        if entry.iteration == case.round.number and isinstance(entry.result.report, dict)
    ]
    unheard = tuple(f"nobody has looked into this answer: {a}" for a in case.round.answers.values())
    climbs = tuple(f"{agent}: {step.why}" for agent, step in case.round.climbs.items())
    return Iteration(
        score=scored.total,
        accepted=scored.accepted,
        gates=(*signatures, *unheard),
        missing=(*signatures, *unheard, *scored.missing_of("judged"), *climbs),
        failures=frozenset(signatures),
        evidence=frozenset(finding.fingerprint for finding in synthesis.findings),
        touched=frozenset(f"{by}:{c.path}" for c in synthesis.checked for by in c.by),
        uncertain=(*_uncertain(synthesis), *planning.questions(case)),
        gaps=sum(skip.gap for skip in synthesis.skipped),
        output="\n".join(summaries),
        budget=_budget_met(case),
        human=_human_needed(case),
    )


def _uncertain(synthesis: Synthesis) -> tuple[str, ...]:
    """What was not looked at, a line per tool and reason."""
    found = Counter((skip.tool, skip.why) for skip in synthesis.skipped if skip.gap)
    return tuple(
        f"{tool or 'no tool'} did not look at {count} {'part' if count == 1 else 'parts'}: {why}"
        for (tool, why), count in found.items()
    )


def _budget_met(case: Case) -> str:
    """The limit that this round ran into, or empty."""
    for entry in case.team():
        if entry.iteration == case.round.number and entry.result.status == "budget":
            return entry.result.detail
    for code, reason in case.journal.refusals(f"{case.round.number}/").values():
        if code == "budget_exhausted":
            return reason
    return ""


def _human_needed(case: Case) -> str:
    """What only a person can settle, and no answer alone, or empty."""
    needed = {tool for rule in case.catalog.verdict_policy.required_checks for tool in rule.tools}
    for done in case.rounds:
        for key, (code, reason) in case.journal.refusals(f"{done.number}/").items():
            tool = key.rsplit("/", 1)[-1]
            if code == "approval_required" or (code == "not_permitted" and tool in needed):
                return reason
    return ""


def _policy(case: Case) -> StopPolicy:
    given = case.settings.stagnation
    return StopPolicy(
        max_iterations=int(case.budget.bounds.iterations),
        same_failure=given.same_failure,
        epsilon=given.epsilon,
        flat_rounds=given.flat_rounds,
        similarity=given.similarity,
    )
