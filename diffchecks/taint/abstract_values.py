"""Abstract values: constants, external names, objects of the tree, with or without taint."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from os.path import commonprefix
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

MAX_ORIGINS: Final = 6
MAX_LOCS: Final = 4
MAX_CHOICES: Final = 8
PART: Final = "›"  # a part of the preceding origin: facts about the whole apply to it
# a slice: characters that it lacks count as missing in the whole as well
SLICE: Final = "›~"
DECODED: Final = "»"  # computed from the preceding origin: facts about that no longer apply

ROW: Final = "row"
"""The mark of a value that represents any stored object of a database model, or many of them."""


class _NotConst:
    """The type of ``NOT_CONST``."""

    def __repr__(self) -> str:
        return "NOT_CONST"


NOT_CONST: Final = _NotConst()


class TaintStep(Struct, frozen=True):
    """One step on the way from a source to a sink.

    Attributes:
        path, line: where, 1-based.
        what: a short description, ``"bar" is set``.
        before: the previous step; None at the source.
    """

    path: str
    line: int
    what: str
    before: "TaintStep | None" = None

    def chain(self) -> list["TaintStep"]:
        """All steps, the source first."""
        steps: list[TaintStep] = []
        step: TaintStep | None = self
        while step is not None:
            steps.append(step)
            step = step.before
        return steps[::-1]


@dataclass(frozen=True, slots=True)
class Taint:
    """The origin of a value, and the known facts about it.

    Attributes:
        origin: identity of the source; parts and decoded forms have suffixes.
        kind: ``request``, ``socket``, ``environment``, ``argv``, ``file``; ``parameter`` for a
            parameter of a function without known callers, ``spliced`` once it is quoted in a
            statement.
        facts: facts about exactly this value: ``safe xss``, ``lacks '``.
        sure: 0 to 1, confidence in the flow up to here.
        trace: the steps to here; not part of the identity.
    """

    origin: str
    kind: str
    facts: frozenset[str] = frozenset()
    sure: float = 1.0
    trace: TaintStep | None = field(default=None, compare=False)

    def step(self, path: str, line: int, what: str) -> "Taint":
        """The taint after one more step; a second step on one line adds nothing."""
        last = self.trace
        if last is not None and last.line == line and last.path == path:
            return self
        return Taint(
            self.origin, self.kind, self.facts, self.sure, TaintStep(path, line, what, last)
        )

    def with_facts(self, facts: Iterable[str]) -> "Taint":
        """The taint with more facts."""
        return Taint(self.origin, self.kind, self.facts.union(facts), self.sure, self.trace)

    def of_kind(self, kind: str) -> "Taint":
        """The taint with another kind."""
        return Taint(self.origin, kind, self.facts, self.sure, self.trace)

    def derive(self, mark: str, site: str, sure: float = 1.0) -> "Taint":
        """The taint of a part or a decoded form; bounded, so that loops reach a fixed point."""
        facts = frozenset[str]() if mark == DECODED else self.facts
        origin = self.origin
        if f"{mark}{site}" not in origin and len(origin) < 400:
            origin = f"{origin}{mark}{site}"
        return Taint(origin, self.kind, facts, self.sure * sure, self.trace)


Facts = dict[str, frozenset[str]]


class Implication(Struct, frozen=True):
    """The facts about origins that follow if a value is true, and if it is false."""

    true: Facts
    false: Facts


class Value(Struct, eq=False):
    """An abstract value; treated as immutable.

    Attributes:
        const: the concrete value if known, else ``NOT_CONST``.
        ref: dotted name of an external object, ``flask.request.args``; a call appends ``()``;
            ``?.name`` is an attribute of an unknown object.
        taints: its origins, at most one taint per origin.
        locs: the heap objects that it may be.
        target: a function, class or module of the tree, or a bound method.
        prefix: the known beginning of its text.
        marks: further properties, such as ``normalized``.
        implies: what its truth implies for other values.
        choices: if unknown, the few constants that it may be; empty: any.
    """

    const: Any = NOT_CONST
    ref: str = ""
    taints: tuple[Taint, ...] = ()
    locs: tuple[int, ...] = ()
    target: Any = None
    prefix: str = ""
    marks: frozenset[str] = frozenset()
    implies: Implication | None = None
    choices: tuple[Any, ...] = ()

    @property
    def known(self) -> bool:
        """Whether the concrete value is known."""
        return self.const is not NOT_CONST

    @property
    def options(self) -> tuple[Any, ...]:
        """The constants that it may be; empty: anything."""
        return (self.const,) if self.const is not NOT_CONST else self.choices

    def with_implication(self, implies: Implication | None) -> "Value":
        """The value with an implication of its truth."""
        return replace(self, implies=implies)

    def with_taints(self, taints: tuple[Taint, ...]) -> "Value":
        """The value with these taints."""
        if not taints:
            return replace(self, taints=())
        return replace(self, const=NOT_CONST, taints=taints, choices=())


UNKNOWN: Final = Value()


class Deferred(Value):
    """A lazily evaluated import or definition of a module, since most are never used.

    Attributes:
        find: looks it up, or executes the definition.
        found: the value, once it was used.
    """

    find: Callable[[], Value] = Value
    found: Value | None = None


def resolve(value: Value) -> Value:
    """The value, evaluated if it is deferred."""
    if type(value) is not Deferred:
        return value
    if value.found is None:
        find, value.find = value.find, Value  # which may refer to the names of a whole module
        value.found = UNKNOWN  # for circular lookups
        value.found = find()
    return value.found


NORETURN: Final = Value(marks=frozenset({"noreturn"}))


def merge_taints(*groups: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """The combined taints of several values."""
    filled = [group for group in groups if group]
    if len(filled) <= 1:
        return filled[0] if filled else ()
    found: dict[str, Taint] = {}
    for group in filled:
        for taint in group:
            known = found.get(taint.origin)
            if known is None:
                found[taint.origin] = taint
            elif known is not taint:
                better = taint if taint.sure > known.sure else known
                facts = known.facts & taint.facts
                if "plain" in known.facts ^ taint.facts:  # then what holds of the other holds
                    facts = taint.facts if "plain" in known.facts else known.facts
                found[taint.origin] = Taint(
                    better.origin, better.kind, facts, better.sure, better.trace
                )
    return tuple(found.values())[:MAX_ORIGINS]


def same_const(left: Any, right: Any) -> bool:
    """Equality of constants that distinguishes ``1`` from ``True``."""
    return type(left) is type(right) and bool(left == right)


def prefix_of(value: Value) -> str:
    """The known beginning of a value's text."""
    return value.const if isinstance(value.const, str) else value.prefix


def join(left: Value, right: Value) -> Value:
    """The join of two values."""
    if left is right:
        return left
    left, right = resolve(left), resolve(right)
    if left is right:
        return left
    one, other = left.const, right.const
    # A name that is None on one path is only used on the other.
    if one is None and other is NOT_CONST:
        return right
    if other is None and one is NOT_CONST:
        return left
    same_value = one is not NOT_CONST and other is not NOT_CONST and same_const(one, other)
    prefixes = ("", "") if same_value else (prefix_of(left), prefix_of(right))
    return Value(
        one if same_value else NOT_CONST,
        left.ref if left.ref == right.ref or not right.ref else ("" if left.ref else right.ref),
        merge_taints(left.taints, right.taints),
        left.locs if left.locs == right.locs else tuple({*left.locs, *right.locs})[:MAX_LOCS],
        left.target if left.target is right.target or right.target is None else right.target,
        commonprefix(prefixes) if all(prefixes) else "",  # noqa: RUF071
        left.marks if left.marks == right.marks else _common_marks(left, right),
        None,
        () if same_value else _either_constant(left, right),
    )


def _common_marks(left: Value, right: Value) -> frozenset[str]:
    """The marks of both; where one is of the program alone, nothing untrusted leads it."""
    alone = [not (one.taints or one.locs) for one in (left, right)]
    led = left.marks if alone[1] else right.marks if alone[0] else frozenset()
    return (left.marks & right.marks) | (led & {"led"})


def _either_constant(left: Value, right: Value) -> tuple[Any, ...]:
    if not left.options or not right.options:
        return ()
    fresh = [
        option
        for option in right.options
        if not any(same_const(option, other) for other in left.options)
    ]
    return (*left.options, *fresh) if len(fresh) + len(left.options) <= MAX_CHOICES else ()


def join_all(values: Iterable[Value]) -> Value:
    """The join of values; unknown for none."""
    found = list(values)
    return reduce(join, found) if found else UNKNOWN


def same_value(left: Value, right: Value) -> bool:
    """Whether two values are equal except for their traces."""
    if left is right:
        return True
    left, right = resolve(left), resolve(right)
    return (
        left.ref == right.ref
        and left.locs == right.locs
        and left.target is right.target
        and left.prefix == right.prefix
        and left.marks == right.marks
        and len(left.choices) == len(right.choices)
        and set(left.taints) == set(right.taints)
        and (same_const(left.const, right.const) if left.known else not right.known)
    )


def ancestors(origin: str) -> Iterable[str]:
    """An origin and all wholes that it is a part of."""
    yield origin
    while True:
        cut = origin.rfind(PART)
        if cut < 0 or origin.rfind(DECODED) > cut:
            return
        origin = origin[:cut]
        yield origin
