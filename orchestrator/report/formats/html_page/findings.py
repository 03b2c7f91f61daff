"""Findings as articles of the page: text, code, data flow, and reporters."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from orchestrator.app.finding_excerpts import ExcerptLine
from orchestrator.catalog.shared_literals import SEVERITIES
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.report.findings_text import (
    fix_command,
    format_location,
    name_provers,
    open_findings,
)
from orchestrator.report.formats.html_page.code_lines import render_excerpt, render_patch
from orchestrator.report.page_templates import render

MAX_FINDINGS = 5_000
"""Findings that a page shows."""
LISTED_FROM = 4
"""Findings from which on a list of them stands above."""
MAX_OPEN = 20
"""Findings up to which that list is open at first."""


def no_actions(finding: Finding) -> Markup:
    """Nothing below a finding."""
    return Markup()


def render_findings(
    verdict: Verdict,
    excerpts: Mapping[str, Sequence[ExcerptLine]],
    actions: Callable[[Finding], Markup] = no_actions,
) -> Markup:
    """All open findings, most severe first, then waived and rejected ones folded away.

    Args:
        actions: what stands at the end of a finding.
    """
    findings = open_findings(verdict)
    counts = Counter(one.severity for one in findings)
    return render(
        "findings.html",
        findings=findings,
        severities=[(name, counts[name]) for name in SEVERITIES if counts[name]],
        waived=[(one, one.waiver) for one in verdict.findings if one.state == "waived"],
        rejected=[(entry.finding, entry.reason) for entry in verdict.rejected],
        excerpt=lambda one: render_excerpt(one, excerpts.get(one.id, ())),
        actions=actions,
        location=format_location,
        words=_list_words,
        proof=_describe_proof,
        patch_lines=render_patch,
        command=fix_command,
        max_findings=MAX_FINDINGS,
        listed_from=LISTED_FROM,
        max_open=MAX_OPEN,
    )


def _list_words(finding: Finding) -> list[tuple[str, str]]:
    """What is known of a finding, by name."""
    rows = [("Why", finding.detail if not finding.steps else finding.detail.partition("\n")[0])]
    rows.append(("Fix", finding.fix_suggestion))
    if finding.because_of is not None:
        where = f"{finding.because_of.path}:{finding.because_of.line}"
        rows.append(("Because of", f"{where}  {finding.cause_quote}"))
    rows += [(f"{one.by} {one.action} it".capitalize(), one.reason) for one in finding.remarks]
    rows += [(f"But ({one.by})", one.reason) for one in finding.objections]
    rows.append(("Confirmed by", ", ".join(finding.confirmed_by)))
    rows.append(("Waiver", finding.waiver))
    return [(name, words) for name, words in rows if words]


def _describe_proof(finding: Finding) -> str:
    """Who proved a finding's patch, or why nobody did."""
    assert finding.fix is not None
    return {
        "verified": f"by {name_provers(finding)}",
        "applies": f"not proven: {finding.fix.reason}",
        "refused": finding.fix.reason,
    }[finding.fix.state]
