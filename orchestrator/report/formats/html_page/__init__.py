"""The verdict as one self-contained page: no network, a strict policy, readable without script."""

from markupsafe import Markup

from orchestrator.code_review.verdict.model import Verdict, name_counts
from orchestrator.report import review_gaps_text
from orchestrator.report.formats import FormatInputs
from orchestrator.report.formats.html_page.findings import render_findings
from orchestrator.report.formats.html_page.run_sections import render_coverage
from orchestrator.report.formats.listing_formats import describe_result, gaps
from orchestrator.report.page_templates import asset, render
from orchestrator.report.ranking import describe_outcome, describe_readers
from orchestrator.report.verdict_text import describe_reliance, describe_since_previous


def render_html(verdict: Verdict, sources: FormatInputs, more: Markup | str = "") -> str:
    """The page; nothing in it is fetched, and only our own script and style may run.

    Args:
        more: further sections, such as ``run_sections.render_run`` with how the run went.
    """
    page = render(
        "verdict.html",
        verdict=verdict,
        title=describe_result(verdict),
        style=asset("shared.css") + asset("verdict.css"),
        script=asset("verdict.js"),
        outcome=describe_outcome(verdict),
        readers=describe_readers(verdict),
        unread=verdict.verdict == "merge" and not verdict.is_read,
        counts=name_counts(verdict.findings),
        reliance=describe_reliance(verdict),
        gaps=len(gaps(verdict)),
        since=describe_since_previous(verdict),
        questions=review_gaps_text.questions_to_author(verdict),
        findings=render_findings(verdict, sources.excerpts),
        coverage=render_coverage(verdict),
        more=more,
    )
    return f"{page}\n"
