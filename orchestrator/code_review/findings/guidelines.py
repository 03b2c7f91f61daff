"""Guidelines: the line of the repository's guidance on which a finding is based, looked up."""

from msgspec.structs import replace

from orchestrator.code_review.findings.located_findings import LocatedFinding, Rejection
from orchestrator.code_review.findings.quote_location import FileText, nearest_place
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.verdict.document_parts import Guideline

MAX_QUOTE = 300
"""Characters of a guideline that a verdict repeats."""


def guidance_texts(workspace: ReviewWorkspace, path: str) -> list[str]:
    """The texts of base's guidance with this path."""
    return ["\n".join(one.lines) for one in workspace.guidance if one.path == path]


def hold_guideline(
    workspace: ReviewWorkspace, finding: LocatedFinding
) -> LocatedFinding | Rejection:
    """The finding with its guideline at the actual line, or why it has none.

    A line of guidance that an agent names as the cause is the guideline.
    """
    finding = _cause_as_guideline(workspace, finding)
    cited = finding.guideline
    if cited is None:
        return finding
    for one in workspace.guidance:
        if one.path != cited.path or not one.lines:
            continue
        line = cited.line - one.first_line + 1
        if not cited.quote.strip() and 0 < line <= len(one.lines) and one.lines[line - 1].strip():
            place: tuple[int, int] | None = line, line
        else:
            places = FileText(one.lines).find(cited.quote)
            place = nearest_place(places, (line, line), cited.quote, ())
        if place is not None:
            start, end = place
            quote = "\n".join(one.lines[start - 1 : end]).strip()[:MAX_QUOTE]
            held = Guideline(one.path, start + one.first_line - 1, quote)
            return replace(finding, guideline=held)
    if not guidance_texts(workspace, cited.path):
        return Rejection("unverified", f"its guideline: base has no guidance {cited.path}")
    return Rejection("unverified", f"the quote of its guideline is not in {cited.path}")


def keep_guideline(workspace: ReviewWorkspace, finding: LocatedFinding) -> LocatedFinding:
    """The finding with its guideline if that is valid, else without."""
    held = hold_guideline(workspace, finding)
    return replace(finding, guideline=None) if isinstance(held, Rejection) else held


def _cause_as_guideline(workspace: ReviewWorkspace, finding: LocatedFinding) -> LocatedFinding:
    cause = finding.because_of
    if cause is None or finding.guideline or cause.path == finding.path:
        return finding
    if cause.line in workspace.added(cause.path) or not guidance_texts(workspace, cause.path):
        return finding
    return replace(finding, because_of=None, guideline=Guideline(cause.path, cause.line, ""))
