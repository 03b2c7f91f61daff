"""A program's syntax tree, of which only the parts near given lines are searched."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_MAX_LINES, _MAX_CHARACTERS = 60, 20_000
"""The maximum size of a part that is searched as a whole."""
_MAX_NODES = 3000
"""The maximum number of nodes visited to find the parts near given lines."""


class _Part(Struct, frozen=True):
    """A node and its place: 0-based inclusive lines, and character offsets in the program."""

    node: SgNode
    first: int
    last: int
    start: int
    end: int


class ProgramTree:
    """The tree of a program by the first grammar that parses all of it, else by the first.

    Children of nodes are cached, since a hostile file has many nodes and many findings.
    """

    def __init__(self, text: str, grammars: Sequence[str]) -> None:
        self.root = _parse(text, grammars)
        self._parts: dict[tuple[int, int], list[SgNode]] = {}
        self._children: dict[tuple[int, int, str], tuple[list[_Part], list[int]]] = {}

    @cached_property
    def top(self) -> Sequence[SgNode]:
        """The top-level nodes of the program."""
        return self.root.children()

    def parts(self, first: int, last: int) -> Sequence[SgNode]:
        """The largest parts that touch given lines and do not exceed the searchable size.

        Args:
            first, last: 0-based and inclusive.
        """
        if (first, last) not in self._parts:
            self._parts[first, last] = list(self._search(first, last))
        return self._parts[first, last]

    def _search(self, first: int, last: int) -> Iterator[SgNode]:
        parts, looked = [_part(self.root)], 0
        while parts and looked < _MAX_NODES:
            looked += 1
            part = parts.pop()
            small = part.end - part.start <= _MAX_CHARACTERS
            if small and part.last - part.first <= _MAX_LINES:
                yield part.node
                continue
            children, ends = self._children_of(part)
            at = bisect_left(ends, first)
            while at < len(children) and children[at].first <= last:
                parts.append(children[at])
                at += 1

    def _children_of(self, part: _Part) -> tuple[list[_Part], list[int]]:
        """The children of a node, with the last line of each."""
        key = (part.start, part.end, part.node.kind())
        if key not in self._children:
            children = [_part(node) for node in part.node.children()]
            self._children[key] = children, [child.last for child in children]
        return self._children[key]


def _part(node: SgNode) -> _Part:
    span = node.range()
    return _Part(node, span.start.line, span.end.line, span.start.index, span.end.index)


def _parse(text: str, grammars: Sequence[str]) -> SgNode:
    from ast_grep_py import SgRoot  # noqa: PLC0415 - 65 ms that only a job with such files pays

    # It rejects lone surrogates, and Go's grammar needs a line end after the last line.
    whole = text.encode("utf-8", "replace").decode()
    whole += "" if whole.endswith("\n") else "\n"
    first = SgRoot(whole, grammars[0]).root()
    if first.find(kind="ERROR") is None:
        return first
    others = (SgRoot(whole, grammar).root() for grammar in grammars[1:])
    return next((root for root in others if root.find(kind="ERROR") is None), first)
