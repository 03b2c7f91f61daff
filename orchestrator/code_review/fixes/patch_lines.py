"""The lines of a finding's patch, to show, post or write them.

A verdict may be read from an untrusted file, so a patch can be any text.
"""

from collections.abc import Iterator

from msgspec import Struct

from diffchecks.fixes.patches import FileHunks, PatchRefused, read_patch
from diffchecks.unified_diff import PatchHunk
from orchestrator.code_review.change.numbered_diff import HunkLine
from orchestrator.code_review.verdict.document_parts import Fix
from orchestrator.code_review.verdict.model import Finding


class PatchedLines(Struct, frozen=True):
    """Consecutive lines of head, and their replacement by a patch.

    Attributes:
        start, end: 1-based, inclusive.
        old, new: the lines with their line ends; neither is empty.
    """

    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def end(self) -> int:
        """The last line that is replaced."""
        return self.start + len(self.old) - 1


def patched_files(fix: Fix | None) -> list[FileHunks]:
    """The files of a patch; none if there is no patch or it cannot be read."""
    try:
        return read_patch(fix.patch) if fix else []
    except PatchRefused:
        return []


def hunk_rows(hunk: PatchHunk) -> Iterator[HunkLine]:
    """The lines of a hunk with their numbers and line ends, which a file's last one may lack."""
    old, new = hunk.old_start + (not hunk.old_count), hunk.new_start + (not hunk.new_count)
    for marker, text in hunk.lines:
        mark = marker.decode()
        shown = mark + text.decode("utf-8", "surrogateescape")
        yield HunkLine(mark, old if mark != "+" else 0, new if mark != "-" else 0, shown)
        old, new = old + (mark != "+"), new + (mark != "-")


def changed_span(hunk: PatchHunk) -> PatchedLines | None:
    """From the first to the last line that a hunk changes, with the lines between.

    If it only adds or only removes lines, the span includes a neighboring line; None if there is
    none.
    """
    rows = list(hunk_rows(hunk))
    changed = [place for place, row in enumerate(rows) if row.sign != " "]
    first, last = changed[0], changed[-1]
    marks = {row.sign for row in rows[first : last + 1]}
    if not {" ", "-"} & marks or not {" ", "+"} & marks:
        if first:
            first -= 1
        elif last + 1 < len(rows):
            last += 1
        else:
            return None
    part = rows[first : last + 1]
    old, new = (tuple(row.text for row in part if row.sign != mark) for mark in ("+", "-"))
    return PatchedLines(next(row.old for row in part if row.old), old, new)


def only_span(finding: Finding) -> PatchedLines | None:
    """The span that a verified patch replaces; None if there is not exactly one in its file."""
    files = patched_files(finding.fix) if finding.fix and finding.fix.is_verified else []
    if [(file.path, len(file.hunks)) for file in files] != [(finding.path, 1)]:
        return None
    return changed_span(files[0].hunks[0])


def split_line_ends(old: str, new: str) -> tuple[str, str] | None:
    """Two last lines without their line ends; None if these differ."""
    ends = [line[len(line.rstrip("\r\n")) :] for line in (old, new)]
    if ends[0] != ends[1]:
        return None
    return old.removesuffix(ends[0]), new.removesuffix(ends[1])


def count_changed_lines(fix: Fix) -> int:
    """The lines that a patch removes and adds."""
    return sum(file.changed_lines for file in patched_files(fix))
