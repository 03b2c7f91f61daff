"""The conditions under which a function denies, from its statements in any language."""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from itertools import product
from typing import TypeAlias, Union

from msgspec import Struct

Formula: TypeAlias = Union[str, tuple[str, tuple["Formula", ...]]]  # noqa: UP007 - as it is recursive
"""A condition: an atom, or ``not``, ``and`` or ``or`` with its operands."""

TRUE: Formula = ("and", ())
FALSE: Formula = ("or", ())
MAX_ATOMS = 8  # of two conditions that are compared: 256 assignments

DENIES = frozenset({"raise", "reject", "return"})
_LOGS = re.compile(
    r"(?i)(?:^|\.)(?:log|trace|debug|info|notice|warn|warning|error|exception|critical|fatal|print"
    r"|println|printf|puts|error_log|capture_(?:message|exception)|incr?|increment)$"
)
_LOGGERS = re.compile(r"(?i)(?:^|\.)_*(?:\w+_)?(?:log|logger|logging|console|warnings|slog)\.\w+$")


class GuardedStatement(Struct, frozen=True):
    """A statement.

    Attributes:
        text: its canonical text; of a compound statement, empty.
        exit: how it leaves the block: ``raise``, ``reject``, ``return``, ``value``, ``skip``.
        calls: the called names, outermost first.
        alone: whether it consists of a call whose result is not used.
        test: the condition of a branch; None for loops, ``with`` and ``try``.
        handlers: what is caught, and what is done then.
    """

    text: str
    line: int
    exit: str = ""
    calls: tuple[str, ...] = ()
    alone: bool = False
    test: Formula | None = None
    body: tuple["GuardedStatement", ...] = ()
    orelse: tuple["GuardedStatement", ...] = ()
    handlers: tuple[tuple[str, tuple["GuardedStatement", ...]], ...] = ()


class StatementPlace(Struct, frozen=True):
    """Where a statement is.

    Attributes:
        path: the positions of it and of the statements around it.
        local: the conditions of the branches around it, and the exits before it in its block.
        full: with the exits before all of them.
        swallows: what the handlers around it catch without consequence.
        plain: whether it is a branch of its own and not one case of several.
        branch: the statement whose branch it is in directly.
        outer: the conditions around that.
        around: the conditions around it alone.
    """

    step: GuardedStatement
    path: tuple[int, ...]
    local: Formula
    full: Formula
    swallows: tuple[str, ...]
    plain: bool
    branch: GuardedStatement | None
    outer: Formula
    around: Formula

    @property
    def denies(self) -> bool:
        """Whether it rejects a value or request."""
        return self.step.exit in DENIES


class GuardFlow:
    """The statements of a function with the conditions under which they run."""

    def __init__(self, steps: Sequence[GuardedStatement]) -> None:
        self.places = list(_walk(steps, _Around()))

    @cached_property
    def denials(self) -> list[StatementPlace]:
        """The statements that reject."""
        return [place for place in self.places if place.denies]

    def covers(self, denied: Formula, denial: StatementPlace, *, full: bool) -> bool:
        """Whether what was denied still leaves the function early.

        Without a condition, ``return`` is the usual end of what is denied with an exception.
        """
        own = atoms(denied)
        ends = DENIES if denial.step.exit == "return" else {"raise", "reject"}
        conditions = [
            place.full if full else place.local
            for place in self.places
            if place.step.exit in ends or (place.step.exit and place.branch)
        ]
        related = tuple(each for each in conditions if not atoms(each) or own & atoms(each))
        if full and len(atoms(("or", (denied, *related)))) > MAX_ATOMS:
            return False  # a long function; the conditions around the denial decide
        return implies(denied, ("or", related))


class _Around(Struct, frozen=True):
    path: tuple[int, ...] = ()
    local: Formula = TRUE
    full: Formula = TRUE
    swallows: tuple[str, ...] = ()
    cases: int = 0
    branch: GuardedStatement | None = None
    outer: Formula = TRUE


def _walk(steps: Sequence[GuardedStatement], around: _Around) -> Iterator[StatementPlace]:
    exits: Formula = TRUE
    for number, step in enumerate(steps):
        path, full = (*around.path, number), both(around.full, exits)
        yield StatementPlace(
            step,
            path,
            both(around.local, exits),
            full,
            around.swallows,
            around.branch is not None and not around.cases,
            around.branch,
            around.outer,
            around.local,
        )
        if step.test is None:
            swallows = tuple(caught for caught, done in step.handlers if only_logs(done))
            inner = _Around(
                (*path, 0), around.local, full, around.swallows + swallows, around.cases,
                None if step.body else around.branch, around.local,
            )  # fmt: skip
            yield from _walk(step.body, inner)
            for at, (_, done) in enumerate(step.handlers, 2):
                yield from _walk(done, _Around((*path, at), "caught", "caught"))
            continue
        elif_ = len(step.orelse) == 1 and step.orelse[0].test is not None
        for side, test, inner_steps in (
            (0, step.test, step.body),
            (1, negate(step.test), step.orelse),
        ):
            inner = _Around(
                (*path, side),
                both(around.local, test),
                both(full, test),
                around.swallows,
                around.cases + (1 if side and elif_ else 0),
                step,
                around.local,
            )
            yield from _walk(inner_steps, inner)
        if leaves(step.body):
            exits = both(exits, negate(step.test))
        if step.orelse and leaves(step.orelse):
            exits = both(exits, step.test)


def leaves(steps: Sequence[GuardedStatement]) -> bool:
    """Whether a block always ends early."""
    if not steps:
        return False
    last = steps[-1]
    if last.test is not None:
        return leaves(last.body) and leaves(last.orelse)
    return bool(last.exit)


def only_logs(steps: Sequence[GuardedStatement]) -> bool:
    """Whether a block does nothing, or writes to a log only."""
    return all(
        not step.exit
        and step.test is None
        and not step.body
        and not step.handlers
        and (not step.text or (step.alone and is_log(step.calls[0])))
        for step in steps
    )


def is_log(called: str) -> bool:
    """Whether a call with that name only writes to a log."""
    return bool(_LOGS.search(called) or _LOGGERS.search(called))


# --- conditions -----------------------------------------------------------------------------------


def negate(formula: Formula) -> Formula:
    """The opposite."""
    if not isinstance(formula, str) and formula[0] == "not":
        return formula[1][0]
    return ("not", (formula,))


def both(one: Formula, other: Formula) -> Formula:
    """The conjunction."""
    if one == TRUE:
        return other
    return one if other == TRUE else ("and", (one, other))


def parts(formula: Formula, *, negated: bool = False) -> Iterator[Formula]:
    """The operands of a disjunction, without regard to how it is written."""
    if not isinstance(formula, str):
        operator, operands = formula
        if operator == "not":
            yield from parts(operands[0], negated=not negated)
            return
        if operands and operator == ("and" if negated else "or"):
            for operand in operands:
                yield from parts(operand, negated=negated)
            return
    yield negate(formula) if negated else formula


def atoms(formula: Formula) -> frozenset[str]:
    """What the condition is about."""
    if isinstance(formula, str):
        return frozenset({formula})
    return reduce(frozenset.union, map(atoms, formula[1]), frozenset())


def _holds(formula: Formula, true: frozenset[str]) -> bool:
    if isinstance(formula, str):
        return formula in true
    operator, operands = formula
    if operator == "not":
        return not _holds(operands[0], true)
    if operator == "and":
        return all(_holds(each, true) for each in operands)
    return any(_holds(each, true) for each in operands)


def implies(one: Formula, other: Formula) -> bool:
    """Whether the other holds whenever the one does; also if there are too many atoms to tell."""
    names = sorted(atoms(one) | atoms(other))
    if len(names) > MAX_ATOMS:
        return True
    for values in product((False, True), repeat=len(names)):
        true = frozenset(name for name, value in zip(names, values, strict=True) if value)
        if _holds(one, true) and not _holds(other, true):
            return False
    return True


def equal(one: Formula, other: Formula) -> bool:
    """Whether both hold in the same cases."""
    return atoms(one) == atoms(other) and implies(one, other) and implies(other, one)
