"""Decides whether a regular expression takes exponential or high polynomial time on some text.

The expression becomes an automaton without empty transitions and one state per character class
(Glushkov's construction), in which each edge has a multiplicity. A loop backtracks exponentially if
two different paths lead from a state back to it over the same text, and what follows the loop can
fail on that text. It takes cubic time or more if three loops in a row can share one text in any way
and what follows them can fail on it. If an assertion, a back reference or an atomic group matters,
the answer is no.
"""

import re
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product
from typing import Any, Literal

from diffchecks.graphs import reachable, shortest_path

# The standard library's parser has type stubs only under its old name.
_parser: Any = re._parser  # type: ignore[attr-defined]

MAX_LENGTH = 4000
"""The maximum length of an expression that is analyzed."""

_MANY = 20  # a repeat with at least this maximum counts as unbounded
_LONG = 1000  # and one with at least this maximum makes polynomial time noticeable
_MAX_LOOPS = 24  # in a row; their triples are tried
_MAX_STATES = 150
_MAX_PAIRS = 20_000
_MAX_ITEMS = 20_000
_SAMPLES = "aZ059_ \t\n\r-.,:/@\"'<>é٣\u2003\x00"

Growth = Literal["exponential", "polynomial"]
"""How the time grows with the text; polynomial: at least cubic."""

_Class = int  # a set of characters: one bit for each of the expression's sample characters
_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "CATEGORY_DIGIT": str.isdecimal,
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_WORD": lambda c: c.isalnum() or c == "_",
}


class _TooLarge(Exception):
    """The automaton is too large to analyze."""


@dataclass
class _Part:
    """The automaton of a part of an expression.

    Attributes:
        empty: it matches the empty text.
        first, last: states that begin and end a match of it.
        edges: pair of states -> number of ways in which one follows the other.
        opaque: what it matches depends on more than its character classes.
    """

    empty: bool = True
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    edges: Counter[tuple[int, int]] = field(default_factory=Counter)
    opaque: bool = False


@dataclass(frozen=True)
class _Tail:
    """What must match after a position: character classes, and perhaps the end."""

    needs: tuple[_Class, ...] = ()
    ends: bool = False

    def __add__(self, other: "_Tail") -> "_Tail":
        return _Tail(self.needs + other.needs, self.ends or other.ends)


@dataclass(frozen=True)
class _Step:
    """A part of a sequence that matches one character of a class or, as a loop, any number.

    A step with an empty class is a boundary that no repeated text can cross.
    """

    characters: _Class
    loops: bool
    skippable: bool


class _Expression:
    """A parsed expression, and the states of its character classes."""

    def __init__(self, tree: Any, flags: int) -> None:
        self._tree, self._flags = tree, flags
        self.classes: list[_Class] = []
        self._samples = sorted({*_SAMPLES, *_boundaries(tree)})
        self._items = 0
        self._has_slow_chain = False

    @cached_property
    def every(self) -> _Class:
        """All sample characters."""
        return (1 << len(self._samples)) - 1

    def judge(self, *, whole: bool) -> Growth | None:
        """The growth of its slowest loops; ``whole``: the whole text must match."""
        loops: list[tuple[_Part, _Tail]] = []
        self._sequence(self._tree, _Tail(ends=whole), loops)
        if any(self._is_exponential(part, tail) for part, tail in loops):
            return "exponential"
        return "polynomial" if self._has_slow_chain else None

    # --- construction

    def _sequence(
        self, items: Iterable[Any], tail: _Tail, loops: list[tuple[_Part, _Tail]]
    ) -> _Part:
        items = list(items)
        tails = [tail]
        for item in reversed(items[1:]):
            tails.append(self._needs(item) + tails[-1])
        self._has_slow_chain = self._has_slow_chain or self._is_slow_chain(items, tails[::-1])
        part = _Part()
        for item, behind in zip(items, reversed(tails), strict=False):
            part = _joined(part, self._item(item, behind, loops))
        return part

    def _item(self, item: Any, tail: _Tail, loops: list[tuple[_Part, _Tail]]) -> _Part:
        name, value = str(item[0]), item[1]
        self._items += 1
        if self._items > _MAX_ITEMS:
            raise _TooLarge
        characters = self._characters(item)
        if characters is not None:
            self.classes.append(characters)
            if len(self.classes) > _MAX_STATES:
                raise _TooLarge
            state = len(self.classes) - 1
            return _Part(False, [state], [state])
        if name == "SUBPATTERN":
            return self._sequence(value[3], tail, loops)
        if name == "BRANCH":
            return _either([self._sequence(branch, tail, loops) for branch in value[1]])
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            return self._repeated(value, tail, loops)
        return _Part(opaque=True)

    def _repeated(self, value: Any, tail: _Tail, loops: list[tuple[_Part, _Tail]]) -> _Part:
        least, most, items = int(value[0]), int(value[1]), value[2]
        part = _Part()
        if least > _MAX_STATES or (most < _MANY and most * len(items) > _MAX_STATES):
            raise _TooLarge
        for _ in range(least - 1 if most >= _MANY else least):
            part = _joined(part, self._sequence(items, tail, loops))
        if most >= _MANY:
            body = self._sequence(items, tail, loops)
            loop = _Part(body.empty or least == 0, body.first, body.last, Counter(body.edges))
            loop.opaque = body.opaque
            if not body.opaque:
                loop.edges.update((end, start) for end in body.last for start in body.first)
                loops.append((loop, tail))
            return _joined(part, loop)
        optional = _Part()
        for _ in range(most - least):
            optional = _joined(self._sequence(items, tail, loops), optional)
            optional.empty = True
        return _joined(part, optional)

    def _needs(self, item: Any) -> _Tail:
        """A necessary condition for an item to match; never more than necessary."""
        name, value = str(item[0]), item[1]
        self._items += 1
        if self._items > _MAX_ITEMS:
            raise _TooLarge
        characters = self._characters(item)
        if characters is not None:
            return _Tail((characters,))
        if name == "AT":
            return _Tail(ends=str(value) in ("AT_END", "AT_END_STRING"))
        if name == "SUBPATTERN":
            return self._all_need(value[3])
        if name.endswith("_REPEAT") and value[0]:
            return self._all_need(value[2])
        if name == "BRANCH":
            needs = [self._all_need(branch).needs for branch in value[1]]
            if all(needs):
                joint = 0
                for classes in needs:
                    joint |= classes[0]
                return _Tail((joint,))
        return _Tail()

    def _all_need(self, items: Iterable[Any]) -> _Tail:
        return sum(map(self._needs, items), _Tail())

    def _characters(self, item: Any) -> _Class | None:
        """The characters that an item matches; None if it is more than one class."""
        name, value = str(item[0]), item[1]
        if name == "ANY":
            return self._mask(lambda c: c != "\n" or bool(self._flags & re.DOTALL))
        if name not in ("LITERAL", "NOT_LITERAL", "IN"):
            return None
        members = value if name == "IN" else [("LITERAL", value)]
        negated = name == "NOT_LITERAL" or str(members[0][0]) == "NEGATE"
        mask = self._mask(lambda c: any(self._holds(member, c) for member in members))
        return self.every & ~mask if negated else mask

    def _mask(self, holds: Callable[[str], bool]) -> _Class:
        return sum(1 << bit for bit, c in enumerate(self._samples) if holds(c))

    def _holds(self, member: Any, character: str) -> bool:
        name, value = str(member[0]), member[1]
        cases = {character}
        if self._flags & re.IGNORECASE:
            cases |= {c for c in (character.lower(), character.upper()) if len(c) == 1}
        if name == "LITERAL":
            return any(ord(c) == value for c in cases)
        if name == "RANGE":
            return any(value[0] <= ord(c) <= value[1] for c in cases)
        if name == "CATEGORY":
            category = str(value)
            plain = category.replace("_NOT_", "_")
            ascii_only = bool(self._flags & re.ASCII) and not character.isascii()
            return (_CATEGORIES[plain](character) and not ascii_only) != (plain != category)
        return False

    # --- chains of loops

    def _is_slow_chain(self, items: Sequence[Any], tails: Sequence[_Tail]) -> bool:
        """Whether three loops of a sequence share a text on which what follows can fail."""
        steps: list[tuple[_Step | None, _Tail]] = []
        for item, tail in zip(items, tails, strict=True):
            inner = [*self._steps(item)]
            steps += [(step, self._behind(inner[at + 1 :]) + tail) for at, step in enumerate(inner)]
        loops = [at for at, (step, _) in enumerate(steps) if step and step.loops][:_MAX_LOOPS]
        return any(self._is_slow(steps, chosen) for chosen in combinations(loops, 3))

    def _steps(self, item: Any, *, skippable: bool = False) -> Iterator[_Step | None]:
        """An item as character classes; None: it depends on more than these."""
        name, value = str(item[0]), item[1]
        characters = self._characters(item)
        if characters is not None:
            yield _Step(characters, loops=False, skippable=skippable)
        elif name == "SUBPATTERN":
            for each in value[3]:
                yield from self._steps(each, skippable=skippable)
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, items = int(value[0]), int(value[1]), list(value[2])
            inner = [step for each in items for step in self._steps(each, skippable=skippable)]
            single = inner[0] if len(inner) == 1 else None
            if single and most >= _LONG and not single.loops:
                yield _Step(single.characters, loops=True, skippable=skippable or not least)
            elif least:
                yield from inner
        elif name == "AT":
            yield _Step(0, loops=False, skippable=False)
        elif not skippable:
            yield None

    def _behind(self, steps: Iterable[_Step | None]) -> _Tail:
        needs = (step for step in steps if step and step.characters and not step.skippable)
        return _Tail(tuple(step.characters for step in needs))

    def _is_slow(
        self, steps: Sequence[tuple[_Step | None, _Tail]], chosen: tuple[int, ...]
    ) -> bool:
        first, last = chosen[0], chosen[-1]
        if any(step is None for step, _ in steps[: last + 1]):
            return False
        common = self.every
        for at in chosen:
            common &= _characters_of(steps[at][0])
        between = [
            common & _characters_of(step)
            for at, (step, _) in enumerate(steps[first : last + 1], first)
            if step and at not in chosen and not step.skippable
        ]
        if not common or not all(between):
            return False
        text, tail = between or [common], steps[last][1]
        if any(all(step & ~need for step in text) for need in tail.needs):
            return True
        # It is not enough that only a line end may follow, since many texts end with one.
        matched = self._mask(lambda c: c == "\n")
        for step, _ in steps:
            matched |= _characters_of(step)
        return tail.ends and matched != self.every

    # --- single loops

    def _is_exponential(self, part: _Part, tail: _Tail) -> bool:
        following: dict[int, list[int]] = {}
        for start, end in part.edges:
            following.setdefault(start, []).append(end)
        for group in _cycles(following):
            inside = {s: [e for e in following.get(s, ()) if e in group] for s in group}
            for text in self._ambiguous(part, inside):
                if self._can_fail(text, tail):
                    return True
        return False

    def _ambiguous(
        self, part: _Part, inside: Mapping[int, Sequence[int]]
    ) -> Iterator[list[_Class]]:
        """Texts, as character classes, over which two paths lead from a state back to it."""
        for start, end in part.edges:
            if part.edges[start, end] > 1 and start in inside and end in inside:
                yield self._text(shortest_path(inside.__getitem__, end, start) or ())
        came_from: dict[tuple[int, int], tuple[int, int]] = {}
        for start, ends in sorted(inside.items()):
            for pair in filter(self._share, combinations(sorted(ends), 2)):
                came_from.setdefault(pair, (start, start))
        waiting = deque(came_from)
        while waiting:
            before = waiting.popleft()
            for pair in filter(self._share, product(inside[before[0]], inside[before[1]])):
                if pair[0] == pair[1]:
                    yield self._round(inside, came_from, before, pair[0])
                elif (key := (min(pair), max(pair))) not in came_from:
                    came_from[key] = before
                    waiting.append(key)
            if len(came_from) > _MAX_PAIRS:
                raise _TooLarge

    def _share(self, pair: tuple[int, int]) -> bool:
        """Whether two states have a common character."""
        return bool(self.classes[pair[0]] & self.classes[pair[1]])

    def _text(self, states: Iterable[int]) -> list[_Class]:
        return [self.classes[state] for state in states]

    def _round(
        self,
        inside: Mapping[int, Sequence[int]],
        came_from: Mapping[tuple[int, int], tuple[int, int]],
        pair: tuple[int, int],
        end: int,
    ) -> list[_Class]:
        """A text over which two paths diverge and meet at ``end``, and one leads back."""
        text = [self.classes[end]]
        while pair[0] != pair[1]:
            text.append(self.classes[pair[0]] & self.classes[pair[1]])
            pair = came_from[pair]
        return text + self._text((shortest_path(inside.__getitem__, end, pair[0]) or [])[1:])

    def _can_fail(self, text: Sequence[_Class], tail: _Tail) -> bool:
        """Whether what follows a loop can fail after repetitions of a text."""
        if any(all(step & ~need for step in text) for need in tail.needs):
            return True
        matched = 0
        for characters in self.classes:
            matched |= characters
        return tail.ends and matched != self.every


def _characters_of(step: _Step | None) -> _Class:
    return step.characters if step else 0


def _joined(before: _Part, after: _Part) -> _Part:
    edges = before.edges + after.edges
    edges.update((end, start) for end in before.last for start in after.first)
    return _Part(
        before.empty and after.empty,
        before.first + after.first if before.empty else before.first,
        after.last + before.last if after.empty else after.last,
        edges,
        before.opaque or after.opaque,
    )


def _either(parts: Sequence[_Part]) -> _Part:
    whole = _Part(empty=any(part.empty for part in parts))
    for part in parts:
        whole.first += part.first
        whole.last += part.last
        whole.edges.update(part.edges)
        whole.opaque = whole.opaque or part.opaque
    return whole


def _boundaries(tree: Any) -> Iterator[str]:
    """The first and last characters of an expression's classes, and their neighbors."""
    for item in tree:
        name, value = str(item[0]), item[1]
        if name in ("LITERAL", "NOT_LITERAL", "RANGE"):
            low, high = value if name == "RANGE" else (value, value)
            for point in (low - 1, low, high, high + 1):
                if 0 <= point < 0xD800:
                    yield from {chr(point), chr(point).lower()[0], chr(point).upper()[0]}
        elif isinstance(value, (list, tuple, _parser.SubPattern)):
            yield from _boundaries(_items_below(value))


def _items_below(value: Any) -> Iterator[Any]:
    for each in value:
        if isinstance(each, tuple) and len(each) == 2 and hasattr(each[0], "name"):
            yield each
        elif isinstance(each, (list, tuple, _parser.SubPattern)):
            yield from _items_below(each)


def _cycles(following: Mapping[int, Sequence[int]]) -> Iterator[set[int]]:
    """The strongly connected components of the states."""
    reached = {state: reachable(following, state) for state in following}
    done: set[int] = set()
    for state in sorted(reached):
        if state not in done and state in reached[state]:
            group = {other for other in reached[state] if state in reached.get(other, ())}
            done |= group
            yield group


def find_growth(expression: str | bytes, flags: int = 0, *, whole: bool = False) -> Growth | None:
    """How an expression's matching time grows with the text; None: no fast growth is known.

    Args:
        flags: of the module ``re``.
        whole: it must match the whole text, as with ``fullmatch``.
    """
    if len(expression) > MAX_LENGTH:
        return None
    if isinstance(expression, bytes):
        expression, flags = expression.decode("latin-1"), flags | re.ASCII
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = _parser.parse(expression, flags)
        return _Expression(tree, tree.state.flags).judge(whole=whole)
    except (re.error, RecursionError, OverflowError, ValueError, _TooLarge):
        return None
