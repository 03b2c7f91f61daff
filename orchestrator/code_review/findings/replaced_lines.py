"""Pairs findings of one defect on both sides: on removed lines and on their replacements."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from msgspec import Struct

from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.findings.citations import changed_lines
from orchestrator.code_review.findings.located_findings import LocatedFinding
from orchestrator.code_review.findings.merging import MergedFinding, same_rule_or_title
from orchestrator.code_review.review_workspace import ReviewWorkspace

MAX_OFFSET = 5
"""Lines between a removed line and its replacement, counted from the start of the block."""


class _Place(Struct, frozen=True):
    """The position of a finding's changed line in a block of replaced lines.

    Attributes:
        unchanged: unchanged lines of the file before it, the same number on both sides.
        offset: changed lines of its side between the start of the block and it.
    """

    path: str
    unchanged: int
    offset: int


def replacement_pairs(
    workspace: ReviewWorkspace, findings: Sequence[MergedFinding]
) -> Iterator[tuple[str, str]]:
    """The fingerprints of findings in base and head of the same defect, the first of them last.

    Both are in one block of replaced lines, near each other, in the same category, and agree in
    rule or title.
    """
    placed = [(one.finding, _place(workspace, one.finding)) for one in findings]
    for (one, at), (other, there) in combinations([entry for entry in placed if entry[1]], 2):
        if (
            at
            and there
            and one.side != other.side
            and one.category == other.category
            and (at.path, at.unchanged) == (there.path, there.unchanged)
            and abs(at.offset - there.offset) <= MAX_OFFSET
            and same_rule_or_title(one, other)
        ):
            yield other.fingerprint, one.fingerprint


def _place(workspace: ReviewWorkspace, finding: LocatedFinding) -> _Place | None:
    """The place of a finding's first changed line, or of the one that causes it."""
    side, path = finding.side, finding.path
    first, last = finding.start_line, finding.end_line
    if (cause := finding.because_of) is not None:
        side, path = ("base" if cause.removed else "head"), cause.path
        first = last = cause.line
    changed = changed_lines(workspace, side, path)
    line = min((line for line in changed if first <= line <= last), default=None)
    if line is None:
        return None
    start = line
    while start - 1 in changed:
        start -= 1
    before = sum(one < start for one in changed)
    return _Place(_head_path(workspace, side, path), start - 1 - before, line - start)


def _head_path(workspace: ReviewWorkspace, side: SideName, path: str) -> str:
    """The name in head of a file that was renamed."""
    if side == "head":
        return path
    files = workspace.change.files
    return next((file.path for file in files if (file.old_path or file.path) == path), path)
