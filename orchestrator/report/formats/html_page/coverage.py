"""How deep each file was read, what was not, and the required checks of the policy."""

from markupsafe import Markup

from orchestrator.code_review.verdict.model import Verdict
from orchestrator.report.formats.open_findings import describe_skip, joined_gaps
from orchestrator.report.page_templates import render
from orchestrator.wording import count_noun

MAX_FILES = 3_000


def render_coverage(verdict: Verdict) -> Markup:
    """The section of the page."""
    depth = verdict.depth
    counts = {"code": depth.code, "text": depth.text, "none": depth.none}
    total, bars, start = sum(counts.values()), [], 0.0
    for kind, count in counts.items():
        width = 100 * count / (total or 1)
        bars.append((kind, start, width))
        start += width
    words = (
        f"{depth.code:,} of {count_noun(total, 'file')} read as code, {depth.text:,} as text only, "
        f"{depth.none:,} not read"
    )
    return render(
        "coverage.html",
        verdict=verdict,
        files=total,
        bars=bars,
        words=words,
        gaps=joined_gaps(verdict),
        skip=describe_skip,
        max_files=MAX_FILES,
    )
