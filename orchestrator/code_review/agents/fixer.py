"""The fixer: an agent that writes patches for open findings without one, after the last iteration.

It has one attempt and one correction, in which it is shown why code refused its patches. Code
alone decides the state of a patch.
"""

from collections.abc import Mapping, Sequence

from orchestrator.code_review.agent_report_contracts import FixReport, as_form
from orchestrator.code_review.agents.briefs import ask_about, describe, severe_findings
from orchestrator.code_review.agents.participants import has_fixer
from orchestrator.code_review.findings.agent_reports import MAX_DETAIL
from orchestrator.code_review.findings.located_findings import ProposedFix
from orchestrator.code_review.fixes.fixed_findings import prove_fixes
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.verdict.model import Finding

MAX_FINDINGS = 10
LINES_AROUND = 12


async def write_fixes(state: ReviewState) -> None:
    """Ask the fixer for patches of open findings without one, and prove them."""
    if not has_fixer(state.given.settings):
        return
    if due := findings_to_fix(state):
        await _ask(state, "fix", due)
    refused = [
        finding
        for finding in state.synthesis.findings
        if finding.fingerprint in state.written and finding.fix and finding.fix.state == "refused"
    ]
    if refused:
        await _ask(state, "fix_again", refused)


def findings_to_fix(state: ReviewState) -> list[Finding]:
    """Open findings in head, of at least medium severity, without a patch that applies."""
    return [
        finding
        for finding in severe_findings(state)
        if finding.support != "refuted"
        and finding.evidence.side == "head"
        and (finding.fix is None or finding.fix.state == "refused")
    ][:MAX_FINDINGS]


async def _ask(state: ReviewState, part: str, findings: Sequence[Finding]) -> None:
    """Run one task of the fixer, and prove the patches."""
    name = str(state.given.settings.fixes.agent)
    shown = [_shown(finding) for finding in findings]
    result = await ask_about(state, state.agent(name), part, findings, LINES_AROUND, findings=shown)
    if result.status != "ok":
        return
    known = {key: one for one in findings for key in (one.id, one.fingerprint)}
    for fix in as_form(FixReport, result.report).fixes:
        if fix.finding in known:
            finding = known[fix.finding]
            state.written[finding.fingerprint] = (
                ProposedFix(name, finding.path, patch=fix.patch),
                *state.written.get(finding.fingerprint, ()),
            )
    await prove_fixes(state)


def _shown(finding: Finding) -> Mapping[str, object]:
    """A finding, and what happened to a patch for it."""
    shown = {
        **describe(finding, longest=MAX_DETAIL, quoted=False),
        "fix_suggestion": finding.fix_suggestion,
    }
    if finding.fix is not None:
        shown |= {"refused_patch": finding.fix.patch, "refused_because": finding.fix.reason}
    return shown
