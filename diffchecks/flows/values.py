"""What is known of a value: its name, its text, what it holds, and how a request gets into it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from diffchecks.check_io import FlowStep

if TYPE_CHECKING:
    from ast_grep_py import SgNode

UNKNOWN, TAINTED, MODULE = "\0", "\1", "\0" * 3
ALL = "all"
TARGETS = frozenset({"ssrf", "redirect"})
_HOST = re.compile(r"(?i)(?:get)?(?:host|hostname|origin|authority)")
_MAX_TAINTS = 6
_MAX_STEPS = 12
_MAX_TEXT = 2000

Cleared = Mapping[str, frozenset[str]]
"""Key of a source -> the classes that a check makes it safe for."""


class FlowTaint(Struct, frozen=True):
    """Something of a request that a value holds.

    Attributes:
        key: tells what it is of the request.
        steps: its way so far, the source first: line and text.
        cleared: the classes for which it is safe.
        parameter: the function whose parameter it is, if it is not known to come with a request.
        before: its way through other files.
    """

    key: str
    steps: tuple[tuple[int, str], ...]
    cleared: frozenset[str] = frozenset()
    parameter: str = ""
    before: tuple[FlowStep, ...] = ()

    def through(self, line: int, text: str) -> FlowTaint:
        """The same one step later."""
        if self.steps[-1] == (line, text) or len(self.steps) >= _MAX_STEPS:
            return self
        return replace(self, steps=(*self.steps, (line, text)))


class FlowValue(Struct, frozen=True):
    """A value.

    Attributes:
        name: the source, with aliases and imports replaced; empty: it has none.
        text: as text, with UNKNOWN and TAINTED for the parts that vary; MODULE: what is imported.
        fields: of a list or an object that is written out.
        passed, failed: what it clears where it is true, and where it is not.
        function: of the file.
    """

    name: str = ""
    text: str = UNKNOWN
    taints: tuple[FlowTaint, ...] = ()
    fields: Mapping[str, FlowValue] = field(default_factory=dict)
    passed: Cleared = field(default_factory=dict)
    failed: Cleared = field(default_factory=dict)
    function: SgNode | None = None

    def through(self, line: int, text: str) -> FlowValue:
        """The same, and what it holds, one step later."""
        if not self.taints:
            return self
        fields = {key: value.through(line, text) for key, value in self.fields.items()}
        return replace(
            self, taints=tuple(each.through(line, text) for each in self.taints), fields=fields
        )

    def safe_for(self, classes: frozenset[str]) -> FlowValue:
        """The same, safe for classes as well."""
        taints = tuple(replace(each, cleared=each.cleared | classes) for each in self.taints)
        return FlowValue(text=self.text, taints=taints)


CLEAN = FlowValue()


def tainted(taints: Iterable[FlowTaint], text: str = TAINTED) -> FlowValue:
    """A value that holds these, each once."""
    once: dict[tuple[str, frozenset[str]], FlowTaint] = {}
    for each in taints:
        once.setdefault((each.key, each.cleared), each)
    return FlowValue(text=text, taints=tuple(once.values())[:_MAX_TAINTS])


def harmless(values: Iterable[FlowValue]) -> FlowValue:
    """What is made of values and does no harm."""
    everywhere = frozenset({ALL})
    taints = [replace(each, cleared=everywhere) for value in values for each in value.taints]
    return tainted(taints) if taints else CLEAN


def concat(values: Sequence[FlowValue], between: str = "") -> FlowValue:
    """Text put together from values."""
    text = between.join(value.text for value in values)[:_MAX_TEXT]
    return tainted((each for value in values for each in value.taints), text)


def either(values: Sequence[FlowValue]) -> FlowValue:
    """One of several values."""
    if len(values) < 2:
        return values[0] if values else CLEAN
    one = next((value for value in values if value.taints), values[0])
    same = all(value.name == one.name for value in values)
    if same and not any(value.taints for value in values):
        return one
    text = one.text if one.taints or all(v.text == one.text for v in values) else UNKNOWN
    joined = tainted((each for value in values for each in value.taints), text)
    return replace(joined, fields=one.fields, name="" if one.taints and not same else one.name)


def checked(values: Iterable[FlowValue], classes: frozenset[str] = frozenset({ALL})) -> Cleared:
    """What a check of values clears; one of a URL's host says where the URL leads."""
    found: dict[str, frozenset[str]] = {}
    for taint in (each for value in values for each in value.taints):
        found[taint.key] = classes
        url, _, part = taint.key.rpartition(".")
        if _HOST.fullmatch(part):
            found[url] = TARGETS
    return found


def truth(value: FlowValue) -> FlowValue:
    """A value as a condition: where it is false, what it is as it came is empty, and safe."""
    name = value.name.replace("[", ".").rstrip("]")
    direct = name and len(value.taints) == 1 and value.taints[0].key.startswith(name)
    return replace(value, failed=merge(value.failed, checked([value]))) if direct else value


def merge(one: Cleared, other: Cleared) -> dict[str, frozenset[str]]:
    """What both clear together."""
    return {key: one.get(key, frozenset()) | other.get(key, frozenset()) for key in {*one, *other}}


def common(one: Cleared, other: Cleared) -> dict[str, frozenset[str]]:
    """What each of both clears."""
    both = ((key, one[key], other[key]) for key in one.keys() & other.keys())
    return {key: b if ALL in a else a if ALL in b else a & b for key, a, b in both}


class FlowState:
    """The values of names at one place of the program."""

    def __init__(self, values: Mapping[str, FlowValue], cleared: Cleared) -> None:
        self.values, self.cleared, self.dead = dict(values), dict(cleared), False

    def copy(self) -> FlowState:
        """A state that changes on its own."""
        return FlowState(self.values, self.cleared)

    def clear(self, cleared: Cleared) -> None:
        """A check has passed."""
        self.cleared = merge(self.cleared, cleared)

    def become(self, states: Sequence[FlowState]) -> None:
        """Go on from one of several states; those that have left do not count."""
        alive = [state for state in states if not state.dead]
        self.dead = not alive
        if not alive:
            return
        first, *others = alive
        self.values = dict(first.values)
        for state in others:  # most names have the same value everywhere
            same, there = self.values.items(), state.values
            self.values = {name: value for name, value in same if there.get(name) is value}
        for name in {name for state in others for name in (*first.values, *state.values)}:
            if name not in self.values or self.values[name].taints:
                values = [s.checked(s.values[name]) for s in alive if name in s.values]
                self.values[name] = either(values)
        self.cleared = reduce(common, (state.cleared for state in alive))

    def checked(self, value: FlowValue) -> FlowValue:
        """A value with what has been checked of it so far."""
        if not self.cleared or not value.taints:
            return value
        taints = tuple(
            replace(each, cleared=each.cleared | self._classes(each)) for each in value.taints
        )
        return replace(value, taints=taints)

    def _classes(self, taint: FlowTaint) -> frozenset[str]:
        of_keys = (
            classes
            for key, classes in self.cleared.items()
            if taint.key == key or taint.key.startswith(f"{key}.")
        )
        return frozenset().union(*of_keys)

    def clears(self, taint: FlowTaint, code: str) -> bool:
        """Whether a taint is safe for a class."""
        return not {code, ALL}.isdisjoint(taint.cleared | self._classes(taint))
