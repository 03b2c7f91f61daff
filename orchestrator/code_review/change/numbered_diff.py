"""Unified diffs whose lines have their numbers."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class HunkLine(Struct, frozen=True, gc=False):
    """A line of a hunk.

    Attributes:
        sign: ``+``, ``-``, a space, or a backslash before the mark of a missing line end.
        old, new: 1-based numbers in base and head; 0 on a side that does not have it.
        written: as in the diff, where the sign of an empty line may be missing.
    """

    sign: str
    old: int
    new: int
    written: str

    @property
    def text(self) -> str:
        """The line itself, without the sign."""
        return self.written[1:]


def number_hunk_lines(lines: Iterable[str]) -> Iterator[HunkLine | str]:
    """The lines of hunks with their numbers; all others, such as headers, as they are."""
    old = new = old_end = new_end = 0
    for line in lines:
        if hunk := _HUNK.match(line):
            old, new = int(hunk[1]), int(hunk[3])
            old_end, new_end = old + int(hunk[2] or 1), new + int(hunk[4] or 1)
            yield line
        elif old < old_end or new < new_end:
            sign = line[:1] or " "
            in_old, in_new = sign in " -", sign in " +"
            yield HunkLine(sign, old if in_old else 0, new if in_new else 0, line)
            old, new = old + in_old, new + in_new
        else:
            yield line


LINE_AT_MOST, SHARED_AT_MOST = 1_000, 100
"""Characters of one line that are shown, and those before what differs from its replacement."""

_INDEX = re.compile(r"index ([0-9a-f]+)\.\.([0-9a-f]+)")


class NumberedFileDiff(Struct, frozen=True):
    """One file's part of a diff.

    Attributes:
        blobs: object ids in base and head; empty when the contents are equal.
        lines: the text to show.
    """

    blobs: tuple[str, ...]
    lines: tuple[str, ...]
    hunk_lines: tuple[HunkLine, ...]


FileDiffs = Mapping[str, NumberedFileDiff]
"""By path."""


def number_lines(text: str) -> list[NumberedFileDiff]:
    """Split a diff of git into files, and put its number between each line's sign and text.

    That of a removed line is its number in base, that of others their number in head.
    """
    lines = text.split("\n")
    starts = [at for at, line in enumerate(lines) if line.startswith("diff --git ")]
    return [_number_file(lines[start:end]) for start, end in pairwise([*starts, len(lines)])]


def _number_file(lines: Sequence[str]) -> NumberedFileDiff:
    blobs: tuple[str, ...] = ()
    shown, hunk_lines = list[str](), list[HunkLine]()
    numbered, replaced = [*number_hunk_lines(lines)], dict[HunkLine, str]()
    for one, two in pairwise(x for x in numbered if isinstance(x, HunkLine) and x.sign != "\\"):
        if (one.sign, two.sign) == ("-", "+"):
            replaced |= {one: two.text, two: one.text}
    for line in numbered:
        if isinstance(line, HunkLine):
            hunk_lines.append(line)
            number = f"{line.new or line.old}: " if line.sign in "+- " else ""
            shown.append(f"{line.sign}{number}{shorten_line(line.text, replaced.get(line, ''))}")
        elif index := _INDEX.match(line):
            blobs = index.groups()
        elif line:
            shown.append(line)
    return NumberedFileDiff(blobs, tuple(shown), tuple(hunk_lines))


def shorten_line(line: str, other: str = "") -> str:
    """A line as it is shown: of a long one its beginning, or where it differs from another."""
    if len(line) <= LINE_AT_MOST:
        return line
    pairs = enumerate(zip(line, other, strict=False))
    shared = next((at for at, (one, two) in pairs if one != two), min(len(line), len(other)))
    start = max(0, min(shared - SHARED_AT_MOST, len(line) - LINE_AT_MOST))
    end = start + LINE_AT_MOST
    return f"{line[start:end]} [cut: characters {start + 1} to {end} of {len(line)}]"


def show_page(files: Iterable[NumberedFileDiff], offset: int, most: int) -> str:
    """Return the lines from a number on, at most so many characters.

    A page ends with a file. A file that is larger than a page is split between lines.

    Args:
        offset: number of the first line, from 1, as the page before names it.
    """
    parts = list(files)
    lines = [line for part in parts for line in part.lines]
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + len(part.lines))
    first = offset - 1
    end, size = first, 0
    while end < len(lines) and size + len(lines[end]) < most:
        size += len(lines[end]) + 1
        end += 1
    if end < len(lines):
        whole = [start for start in starts if first < start <= end]
        end = whole[-1] if whole else end
    if first >= len(lines):
        return f"the diff has {len(lines)} lines; offset {offset} is behind them" if lines else ""
    shown = lines[first:end]
    if first not in starts:
        name = lines[max(start for start in starts if start < first)]
        shown.insert(0, f"[continued: {name}]")
    if end < len(lines):
        left = sum(1 for start in starts[:-1] if start >= end)
        shown.append(
            f"[lines {offset} to {end} of {len(lines)}; {left} files follow as a whole; "
            f"continue with offset {end + 1}]"
        )
    return "\n".join(shown)
