"""A changed text as the places where it differs, for checks that read lines and no syntax tree."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cached_property

from msgspec import Struct

LONGEST_CALL = 600  # characters: what is longer is data, not arguments

_OPENING, _CLOSING, _QUOTES = "([{", ")]}", "\"'`"
_CALLED = re.compile(r"\b(\w+)\(")
_WHITE = re.compile(r"\s+")


def squeezed(text: str) -> str:
    """Without any white space: code that was only laid out otherwise is the same."""
    return _WHITE.sub("", text)


def arguments(text: str, start: int) -> tuple[list[str], int] | None:
    """What stands between brackets, split at the commas between them.

    Args:
        start: just behind the opening bracket.

    Returns:
        The parts as written, and the place just behind the closing bracket; None where there is
        none within ``LONGEST_CALL``.
    """
    parts: list[str] = []
    depth, begin, quote, at = 0, start, "", start
    while at < min(len(text), start + LONGEST_CALL):
        char = text[at]
        if quote:
            at += char == "\\"
            quote = "" if char == quote else quote
        elif char in _QUOTES:
            quote = char
        elif char in _OPENING:
            depth += 1
        elif char in _CLOSING and depth == 0:
            return [*parts, text[begin:at]], at + 1
        elif char in _CLOSING:
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
        at += 1
    return None


class Hunk(Struct, frozen=True):
    """Numbers of the lines of base that went, and of head that came; either may be none."""

    base: range
    head: range


class ChangedText:
    """One file of both sides.

    Args:
        path: in head.
        base, head: the lines of each side.
        removed, added: numbers of the lines that differ, 1-based.
    """

    def __init__(
        self,
        path: str,
        base: list[str],
        head: list[str],
        removed: Collection[int],
        added: Collection[int],
    ) -> None:
        self.path, self.base, self.head = path, base, head
        self._removed, self._added = frozenset(removed), frozenset(added)

    @cached_property
    def removed_text(self) -> str:
        """All lines that went."""
        return _joined(self.base, sorted(self._removed))

    @cached_property
    def added_text(self) -> str:
        """All lines that came."""
        return _joined(self.head, sorted(self._added))

    @cached_property
    def squeezed_head(self) -> list[str]:
        """The lines of head without white space."""
        return [squeezed(line) for line in self.head]

    def loses_calls(self, name: str) -> bool:
        """Whether fewer calls of a name come than go."""
        return self._came[name] < self._went[name]

    @cached_property
    def _came(self) -> Counter[str]:
        return Counter(_CALLED.findall(self.added_text))

    @cached_property
    def _went(self) -> Counter[str]:
        return Counter(_CALLED.findall(self.removed_text))

    def hunks(self) -> Iterator[Hunk]:
        """Every place where the sides differ, in the order of the text."""
        old = new = 1
        while old <= len(self.base) or new <= len(self.head):
            before, after = old, new
            while old in self._removed:
                old += 1
            while new in self._added:
                new += 1
            if (before, after) == (old, new):
                old, new = old + 1, new + 1
            else:
                yield Hunk(range(before, old), range(after, new))

    def was(self, hunk: Hunk) -> str:
        """A place's text in base."""
        return _joined(self.base, hunk.base)

    def now(self, hunk: Hunk) -> str:
        """A place's text in head."""
        return _joined(self.head, hunk.head)


def _joined(lines: list[str], numbers: Collection[int]) -> str:
    return "\n".join(lines[number - 1] for number in numbers if 0 < number <= len(lines))
