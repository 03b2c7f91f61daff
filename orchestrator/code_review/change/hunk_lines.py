"""Walks over the lines of a unified diff, with the number of each on both sides."""

import re
from collections.abc import Iterable, Iterator

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
