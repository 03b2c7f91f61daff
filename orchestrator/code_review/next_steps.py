"""The next action that a finished review proposes to the user, and the fixes of its findings."""

from __future__ import annotations

from orchestrator.catalog.fields import Outcome
from orchestrator.code_review.agents import escalation_stages
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.stop_rules import Stop
from orchestrator.code_review.verdict.model import Finding
from orchestrator.errors import answer_command

LISTED_ACTIONS = 10


def next_human_action(state: ReviewState, stop: Stop, outcome: Outcome, *, complete: bool) -> str:
    """The one thing to do next."""
    waiting = [asked for asked in escalation_stages.questions(state.journal) if not asked.answer]
    if waiting:
        name = waiting[0].name if len(waiting) > 1 else ""
        command = answer_command(state.journal.run_id, name)
        return f"{waiting[0].question} Answer, and go on with: {command}"
    if stop.reason == "human":
        return f"See to this, then review again: {stop.detail}"
    if stop.reason == "budget":
        return "Review again with a higher limit (--max-...), or review the rest by hand."
    gaps = [skip for skip in state.synthesis.skipped if skip.gap]
    if gaps and not complete:
        first = gaps[0]
        return f"Look by hand at what was not reviewed; first {first.path}: {first.why}"
    if outcome == "merge":
        return "Merge it if you agree; nothing found stands against it."
    first_finding = state.synthesis.findings[0] if state.synthesis.findings else None
    if first_finding is None:
        return "See the reasons, then review again."
    where = f"{first_finding.path}:{first_finding.start_line}"
    return f"Start with {first_finding.id} at {where}: {first_finding.title}"


def next_actions(findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """How to mend what was found, the gravest first."""
    return tuple(
        f"{finding.id} {finding.path}:{finding.start_line}: {finding.fix_suggestion}"
        for finding in findings[:LISTED_ACTIONS]
        if finding.fix_suggestion
    )
