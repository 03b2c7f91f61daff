"""A dismissal applied to one change, and why a finding that it matches is reopened."""

from collections.abc import Callable, Iterator, Sequence

from orchestrator.catalog.repository_memory import Dismissal
from orchestrator.catalog.shared_literals import SEVERITIES, is_as_severe
from orchestrator.code_review.findings.finding_context import ContextBlock, leads_to
from orchestrator.code_review.findings.located_findings import LocatedFinding
from orchestrator.code_review.verdict.document_parts import FindingContext
from orchestrator.code_review.verdict.model import Finding


class PlacedDismissal(Dismissal, frozen=True, kw_only=True):
    """A dismissal, with the place of its finding in a change.

    Attributes:
        means: whether a finding is the one that was dismissed.
        added: path in head → the lines that the change adds.
        path: its file in head, which may have been renamed; empty where it is not placed.
        now: the block that contains it now; None if it is not placed.
        in_base: digests of the blocks that contain the same text in base.
        is_edited: its file exists but not its text, so it dismisses nothing.
    """

    means: Callable[[LocatedFinding | Finding], bool]
    added: Callable[[str], frozenset[int]]
    path: str = ""
    now: ContextBlock | None = None
    in_base: frozenset[str] = frozenset()
    is_edited: bool = False

    @property
    def has_moved_on(self) -> bool:
        """Whether the change alters the block of the finding since it was dismissed."""
        known = self.about.context if self.about else ""
        if not known or self.now is None:
            return False
        return self.now.digest != known and self.now.digest not in self.in_base


def why_reopened(finding: Finding, dismissals: Sequence[PlacedDismissal]) -> str:
    """Why a dismissed finding is open again; empty if it stays dismissed.

    Args:
        dismissals: all that match it and have not expired; at least one.
    """
    dismissals = [one for one in dismissals if not one.is_edited]
    if not dismissals:
        return "the line changed since"
    abouts, last = [one.about for one in dismissals if one.about], dismissals[-1]
    context = finding.context
    if context is not None and context.flow not in {"", *(one.flow for one in abouts)}:
        for way in _new_ways(finding, context, last):
            return way
    if last.now is not None and all(one.has_moved_on for one in dismissals):
        return _describe_change(last, last.now)
    known = min((one.severity for one in abouts), key=SEVERITIES.index)
    proved = finding.standing == "proved"
    if not is_as_severe(known, finding.severity) and (proved or finding.severity == "critical"):
        who = "an analyzer proves" if proved else "agents report"
        return f"{who} it as {finding.severity}, and it was dismissed as {known}"
    return ""


def _describe_change(dismissal: PlacedDismissal, block: ContextBlock) -> str:
    """How the change affects the block that contains a finding."""
    what = f"the function around it ({block.scope})" if block.scope else "the lines around it"
    return f"{what} at {dismissal.path}:{block.start}-{block.end} changed since"


def _new_ways(
    finding: Finding, context: FindingContext, dismissal: PlacedDismissal
) -> Iterator[str]:
    """Changed lines that lead to a finding from outside of its function."""
    block = ContextBlock(context.start_line, context.end_line, context.scope, context.lines)
    for side, path, line in leads_to(finding, block):
        if side == "base":
            yield f"{path}:{line}, which the change removes, leads to it"
        elif line in dismissal.added(path):
            yield f"{path}:{line}, which the change adds, leads to it"
