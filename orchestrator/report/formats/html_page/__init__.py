"""The verdict as one self-contained page: no network, a strict policy, readable without script."""

from markupsafe import Markup

from orchestrator.code_review.verdict.model import Verdict
from orchestrator.report import review_gaps_text
from orchestrator.report.findings_text import count_by_severity
from orchestrator.report.formats import FormatInputs
from orchestrator.report.formats.html_page.findings import render_findings
from orchestrator.report.formats.html_page.overview import (
    list_agents,
    list_costs,
    list_facts,
    list_rounds,
    render_coverage,
)
from orchestrator.report.formats.open_findings import gaps
from orchestrator.report.page_templates import asset, render, shared_style
from orchestrator.report.verdict_text import describe_since_previous

_OUTCOMES = {"merge": "Merge", "needs_changes": "Needs changes", "block": "Block"}


def render_html(verdict: Verdict, sources: FormatInputs, more: Markup | str = "") -> str:
    """The page; nothing in it is fetched, and only our own script and style may run.

    Args:
        more: further sections, such as ``run_sections.render_run`` with how the run went.
    """
    outcome, counts = _OUTCOMES[verdict.verdict], count_by_severity(verdict.findings)
    page = render(
        "verdict.html",
        verdict=verdict,
        title=f"{outcome}: {counts or 'no findings'}",
        style=shared_style() + asset("verdict.css"),
        script=asset("verdict.js"),
        outcome=outcome,
        counts=counts,
        about=list_facts(verdict),
        gaps=len(gaps(verdict)),
        since=describe_since_previous(verdict),
        questions=review_gaps_text.questions_to_author(verdict),
        findings=render_findings(verdict, sources.excerpts),
        coverage=render_coverage(verdict),
        agents=list_agents(verdict),
        rounds=list_rounds(verdict),
        costs=list_costs(verdict),
        more=more,
    )
    return f"{page}\n"
