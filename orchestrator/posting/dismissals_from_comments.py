"""Findings that people dismissed in a pull request: still shown, but not counted."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from orchestrator.catalog.shared_literals import OUTCOMES, Outcome
from orchestrator.code_review.verdict.decision import exit_code
from orchestrator.code_review.verdict.model import Finding, SeverityCounts, Verdict, severity_counts
from orchestrator.posting.forge import PostedDismissal


def apply_dismissals(verdict: Verdict, dismissals: Iterable[PostedDismissal]) -> Verdict:
    """The verdict with dismissed findings as waived, decided again without them.

    If not only open findings decided the outcome or the exit code, these stay: options of the job
    are unknown here.
    """
    known = {one.identity: one for one in dismissals}
    findings = tuple(_apply(finding, known) for finding in verdict.findings)
    gone = [new.id for old, new in zip(verdict.findings, findings, strict=True) if old != new]
    if not gone:
        return verdict
    marked = replace(
        verdict,
        findings=findings,
        counts=SeverityCounts(**severity_counts(findings)),
        reasons=(*verdict.reasons, f"dismissed in this request: {', '.join(gone)}"),
    )
    if _decide(verdict.findings, verdict.status) != verdict.verdict:
        return marked
    outcome = _decide(findings, verdict.status)
    by_outcome = exit_code(verdict.verdict, verdict.status, verdict.fail_on)
    if by_outcome != verdict.exit_code:
        return replace(marked, verdict=outcome)
    code = exit_code(outcome, verdict.status, verdict.fail_on)
    return replace(marked, verdict=outcome, exit_code=code)


def _apply(finding: Finding, known: Mapping[str, PostedDismissal]) -> Finding:
    found = known.get(finding.identity) or known.get(finding.fingerprint)
    if found is None or finding.state != "open":
        return finding
    return replace(
        finding, state="waived", outcome="merge", waiver=f"dismissed by {found.by}: {found.reason}"
    )


def _decide(findings: Sequence[Finding], status: Literal["complete", "incomplete"]) -> Outcome:
    """The outcome of the open findings; incomplete is never merge."""
    outcomes = [finding.outcome for finding in findings if finding.state == "open"]
    if status == "incomplete":
        outcomes.append("needs_changes")
    return max(outcomes, key=OUTCOMES.index, default="merge")
