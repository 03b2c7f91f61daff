"""The smallest edit that replaces one text with another."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from diffchecks.check_io import Edit

Position = tuple[int, int]
"""Line and column, 1-based, in characters."""


def smallest_edit(start: Position, old: str, new: str) -> Edit:
    """The smallest edit that turns ``old``, which begins at ``start``, into ``new``.

    Args:
        old, new: lines end with a line feed.
    """
    before = common_prefix(old, new)
    after = common_prefix(old[before:][::-1], new[before:][::-1])
    gone = old[before : len(old) - after]
    first = _advance(start, old[:before])
    return Edit(*first, *_advance(first, gone), new[before : len(new) - after])


def are_apart(edits: Iterable[Edit]) -> bool:
    """Whether no two edits, in the file's order, overlap or insert at the same place."""
    places = [((e.start_line, e.start_column), (e.end_line, e.end_column)) for e in edits]
    return all(one[1] <= two[0] and one != two for one, two in pairwise(places))


def common_prefix(one: Sequence[object], two: Sequence[object]) -> int:
    """The length of the common prefix."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(two)))


def _advance(start: Position, text: str) -> Position:
    line, column = start
    last = text.rpartition("\n")[2]
    return line + text.count("\n"), len(last) + (1 if "\n" in text else column)
