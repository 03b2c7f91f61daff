"""Escalation in a review: the stage of each agent's next task, and what was escalated or asked."""

import json
from datetime import UTC, datetime

from msgspec.structs import replace

from orchestrator.code_review.agents.follow_up import concerned_agents
from orchestrator.code_review.findings.evidence_from_journal import latest
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.verdict.document_parts import (
    Escalation,
    HumanQuestion,
    PendingApproval,
)
from orchestrator.engine import approvals
from orchestrator.engine.agent_tasks import StageChange
from orchestrator.engine.field_types import shared_fields
from orchestrator.engine.human_questions import recorded_questions
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.model_routing import HUMAN
from orchestrator.engine.rubric_scoring import Scorecard, score_rubric
from orchestrator.engine.types import AgentSpec


def below_min_score(state: ReviewState, scored: Scorecard) -> dict[str, StageChange]:
    """Agents of this iteration whose work the judge scored below their stage's minimum.

    A criterion whose tags name agents is about their work. Any other is about the agents whose
    findings are doubted, rejected or named as missing, or about all agents if there are none.
    """
    found: dict[str, StageChange] = {}
    blamed = concerned_agents(state, scored.missing_of("judged"))
    for agent, work in latest(state.team()).items():
        others = bool(blamed) and agent not in blamed
        result, score = work.result, _judged(state, scored, _role(state, agent), tagged_only=others)
        if work.iteration != state.iteration.number or result.status != "ok":
            continue
        if result.next_stage and score is not None and score < result.min_score:
            minimum = f"the minimum {result.min_score:g} of {result.stage}"
            why = f"the judge scored {score:.2f}, below {minimum}"
            found[agent] = StageChange(result.stage, result.next_stage, why)
    return found


def _role(state: ReviewState, agent: str) -> str:
    """The name by which criteria refer to an agent: its role if several agents share one."""
    return state.agent(agent).role or agent


def _judged(
    state: ReviewState, scored: Scorecard, agent: str, *, tagged_only: bool
) -> float | None:
    """The rubric's score of an agent's work by the judge's marks, 0 to 1.

    Args:
        tagged_only: only criteria whose tags name the agent count.
    """
    team = {_role(state, task.spec.name) for task in state.iteration.tasks}
    criteria = tuple(
        c
        for c in scored.rubric.criteria
        if c.kind == "judged" and (agent in c.tags or (not tagged_only and team.isdisjoint(c.tags)))
    )
    card = score_rubric(replace(scored.rubric, criteria=criteria), scored.marks, asked=True)
    return card.total if card.is_judged else None


def at_current_stage(state: ReviewState, spec: AgentSpec) -> tuple[AgentSpec, StageChange | None]:
    """An agent at the stage where its last task ended, or the next if it scored too low."""
    last, change = latest(state.team()).get(spec.name), state.focus.stage_changes.get(spec.name)
    if last is None or not last.result.stage:
        return spec, None
    stage = change.to_stage if change and change.to_stage != HUMAN else last.result.stage
    return replace(spec, model=stage), change


def blocking(state: ReviewState) -> dict[Key, tuple[str, str]]:
    """The plan's questions that a person must answer: key → (agent, question)."""
    lead = state.given.settings.lead
    return {
        replace(state.iteration.key("plan"), question=number): (lead, question.question)
        for number, question in enumerate(state.iteration.plan.open_questions, 1)
        if question.blocking
    }


def answered(state: ReviewState) -> dict[str, str]:
    """A person's answers to the lead's questions so far, by question."""
    return {
        done.plan.open_questions[key.question - 1].question: answer
        for done in state.iterations
        for key, answer in done.answers.items()
    }


def escalations(journal: Journal) -> tuple[Escalation, ...]:
    """Every escalation of a run, with its reason, by iteration and agent."""
    found = []
    for text, body in journal.notes().items():
        key = Key.parse(text)
        if key.is_escalation and key.iteration:
            found.append(Escalation(iteration=key.iteration, **body))
    return tuple(sorted(found, key=lambda step: (step.iteration, step.agent)))


def questions(journal: Journal) -> tuple[HumanQuestion, ...]:
    """The questions to a person in a run, with the answers."""
    return tuple(
        HumanQuestion(
            **shared_fields(question, HumanQuestion),
            answered_by=question.who,
            answered_at=datetime.fromtimestamp(question.at, UTC).isoformat(timespec="seconds")
            if question.answer
            else "",
        )
        for question in sorted(recorded_questions(journal), key=lambda question: question.name)
    )


def pending_approvals(journal: Journal) -> tuple[PendingApproval, ...]:
    """The calls that wait for a person, of agents that have no result without them."""
    return tuple(
        PendingApproval(
            approval=approvals.approval_id(journal.run_id, call, str(request["request"])),
            call=call,
            agent=str(request["agent"]),
            tool=str(request["tool"]),
            arguments=json.dumps(request["arguments"], sort_keys=True),
            level=str(request["level"]),
        )
        for call, request in sorted(approvals.pending_approvals(journal).items())
        if not journal.recorded(Key.parse(call).task)
    )
