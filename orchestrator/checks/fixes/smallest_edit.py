"""The edit that replaces one text by another and holds no more than what differs."""

from collections.abc import Iterable
from itertools import pairwise

from orchestrator.checks.check_io import Edit

Position = tuple[int, int]
"""Line and column, 1-based, in characters."""


def smallest_edit(start: Position, old: str, new: str) -> Edit:
    """The edit that replaces ``old``, which begins at ``start``, without what stays the same.

    Args:
        old, new: lines end with a line feed.
    """
    before = _same(old, new)
    after = _same(old[before:][::-1], new[before:][::-1])
    gone = old[before : len(old) - after]
    first = _advance(start, old[:before])
    return Edit(*first, *_advance(first, gone), new[before : len(new) - after])


def are_apart(edits: Iterable[Edit]) -> bool:
    """Whether no two edits overlap or insert at the same place; they are in the file's order."""
    places = [((e.start_line, e.start_column), (e.end_line, e.end_column)) for e in edits]
    return all(one[1] <= two[0] and one != two for one, two in pairwise(places))


def _same(one: str, two: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(two)))


def _advance(start: Position, text: str) -> Position:
    line, column = start
    last = text.rpartition("\n")[2]
    return line + text.count("\n"), len(last) + (1 if "\n" in text else column)
