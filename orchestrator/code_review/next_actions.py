"""What a verdict says to do next: the first step for a person, and how to fix each finding."""

from orchestrator.catalog.shared_literals import Outcome
from orchestrator.code_review.agents import escalation_stages
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.stop_rules import StopDecision
from orchestrator.code_review.verdict.model import Finding
from orchestrator.errors import answer_command, approve_command, resume_command

LISTED_ACTIONS = 10


def next_human_action(
    state: ReviewState, stop: StopDecision, outcome: Outcome, *, complete: bool
) -> str:
    """The one thing to do next."""
    if stop.reason == "cancelled":
        return "To have the change reviewed after all, start again: diffcourt review"
    return _waiting_action(state) or _stopped_action(state, stop, outcome, complete=complete)


def _waiting_action(state: ReviewState) -> str:
    """The first question to a person; empty if none waits."""
    waiting = [
        question for question in escalation_stages.questions(state.journal) if not question.answer
    ]
    if waiting:
        name = waiting[0].name if len(waiting) > 1 else ""
        command = answer_command(state.journal.run_id, name)
        return f"{waiting[0].question} Answer with: {command}"
    if state.approvals:
        run, call = state.journal.run_id, state.approvals[0]
        return (
            f"Decide whether {call.agent} may call {call.tool} {call.arguments}: "
            f"{approve_command(run, call.approval)} (or deny), then: {resume_command(run)}"
        )
    return ""


def _stopped_action(
    state: ReviewState, stop: StopDecision, outcome: Outcome, *, complete: bool
) -> str:
    """What to do next with a review that does not wait for a person."""
    if stop.reason == "human":
        return f"Resolve this, then review again: {stop.detail}"
    if stop.reason == "budget":
        command = resume_command(state.journal.run_id)
        return f"Continue with a higher limit ({command} --max-...), or review the rest by hand."
    gaps = [skip for skip in state.synthesis.skipped if skip.gap]
    if gaps and not complete:
        first = gaps[0]
        where = "the whole change" if first.path == "*" else first.path
        return f"Review by hand what was not reviewed, first {where}: {first.why}"
    if outcome == "merge":
        reviewed = len({entry.path for entry in state.synthesis.checked})
        files = len(state.given.workspace.change.files)
        return f"No blocking findings in the files that were reviewed ({reviewed} of {files})."
    findings = (one for one in state.synthesis.findings if one.state == "open")
    first_finding = next((one for one in findings if one.standing != "refuted"), None)
    if first_finding is None:
        return "Resolve the reasons, then review again."
    where = f"{first_finding.path}:{first_finding.start_line}"
    return f"Start with {first_finding.id} at {where}: {first_finding.title}"


def next_actions(findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """How to fix the open findings, the most severe first."""
    open_findings = [finding for finding in findings if finding.state == "open"]
    return tuple(
        f"{finding.id} {finding.path}:{finding.start_line}: {finding.fix_suggestion}"
        for finding in open_findings[:LISTED_ACTIONS]
        if finding.fix_suggestion
    )
