"""What a verdict says to do next: the first step for a person, and how to fix each finding."""

from orchestrator.catalog.shared_literals import Outcome
from orchestrator.code_review.agents import escalation_stages
from orchestrator.code_review.findings.examined_files import WHOLE_CHANGE
from orchestrator.code_review.findings.reading_depth import NOTHING_READ, TEXT_ONLY
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.stop_rules import StopDecision
from orchestrator.code_review.verdict.decision import outcome_of
from orchestrator.code_review.verdict.model import Finding
from orchestrator.errors import answer_command, approve_command, raise_limit_command, resume_command
from orchestrator.optional_dependencies import NOT_INSTALLED

LISTED_ACTIONS = 10
VERDICT_POLICY = ".diffcourt/config/verdict.yaml"


def next_human_action(
    state: ReviewState, stop: StopDecision, outcome: Outcome, *, complete: bool
) -> str:
    """The one thing to do next."""
    if stop.reason == "cancelled":
        return "To have the change reviewed after all, start again: diffcourt review"
    return _waiting_action(state) or _stopped_action(state, stop, outcome, complete=complete)


def _waiting_action(state: ReviewState) -> str:
    """All questions and calls that wait for a person; empty if none does."""
    run = state.journal.run_id
    waiting = [one for one in escalation_stages.questions(state.journal) if not one.answer]
    several = len(waiting) > 1
    asked = [
        f"{one.question} Answer with: {answer_command(run, one.name if several else '')}"
        for one in waiting
    ]
    asked += [
        f"Decide whether {call.agent} may call {call.tool} {call.arguments}: "
        f"{approve_command(run, call.approval)} (or deny), then: {resume_command(run)}"
        for call in state.approvals
    ]
    return " ".join(asked)


def _stopped_action(
    state: ReviewState, stop: StopDecision, outcome: Outcome, *, complete: bool
) -> str:
    """What to do next with a review that does not wait for a person."""
    if stop.reason == "human":
        return f"Resolve this, then review again: {stop.detail}"
    if stop.reason == "budget":
        command = raise_limit_command(state.journal.run_id, stop.detail)
        return f"Continue with a higher limit ({command}), or review the rest by hand."
    if outcome == "merge":
        reviewed = len({entry.path for entry in state.synthesis.checked})
        files = len(state.given.workspace.change.files)
        return f"No blocking findings in the files that were reviewed ({reviewed} of {files})."
    findings = (one for one in state.synthesis.findings if one.state == "open")
    first = next((one for one in findings if one.standing != "refuted"), None)
    steps = [] if complete else _close_gaps(state)
    decides = first and outcome_of(first, state.given.catalog.verdict_policy) != "merge"
    if first is not None and (decides or not steps):
        where = f"{first.path}:{first.start_line}"
        wrong = f" If it is wrong: diffcourt dismiss {first.id} --reason TEXT." if decides else ""
        steps.insert(0, f"Start with {first.id} at {where}: {first.title}.{wrong}")
    return " ".join(steps) or "Resolve the reasons, then review again."


def _close_gaps(state: ReviewState) -> list[str]:
    """How an incomplete review becomes a complete one."""
    gaps = [skip for skip in state.synthesis.skipped if skip.gap]
    unread = [
        gap for gap in gaps if not gap.tool and (TEXT_ONLY in gap.why or NOTHING_READ in gap.why)
    ]
    others = [gap for gap in gaps if gap not in unread and NOT_INSTALLED not in gap.why]
    steps = []
    if len(unread) + len(others) < len(gaps):
        steps.append("Install what is missing, as the gaps say, and review again.")
    elif others:
        first = others[0]
        where = "the whole change" if first.path == WHOLE_CHANGE else first.path
        by = f", which {first.tool} did not" if first.tool else ""
        steps.append(f"Review {where} by hand{by}: {first.why}.")
    elif failed := [check for check in state.checks if not check.is_satisfied]:
        steps.append(
            f"Let the check {failed[0].name} run ({failed[0].detail}), or take it out of "
            f"required_checks in {VERDICT_POLICY} of the base branch."
        )
    if unread:
        more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
        steps.append(
            f"Read {unread[0].path}{more} by hand: no tool reads it as code. To accept such files "
            f"from now on, add `unread: note` to {VERDICT_POLICY} of the base branch, unless they "
            "run in CI or production."
        )
    return steps


def next_actions(findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """How to fix the open findings, the most severe first."""
    open_findings = [finding for finding in findings if finding.state == "open"]
    return tuple(
        f"{finding.id} {finding.path}:{finding.start_line}: {finding.fix_suggestion}"
        for finding in open_findings[:LISTED_ACTIONS]
        if finding.fix_suggestion
    )
