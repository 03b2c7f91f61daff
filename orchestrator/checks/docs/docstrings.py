"""Docstrings that the change leaves out or leaves behind.

``missing``: a new public function, class or module without a docstring where its surroundings have
theirs, or one that lost it. ``stale-parameter``: a docstring names a parameter that is not there.
Both sides are compared: what was missing or stale before stays quiet, and the habit that a missing
docstring breaks is the one base had.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from itertools import islice

from msgspec import Struct

from orchestrator.checks.check_protocol import CheckReply, RawFinding
from orchestrator.checks.docs.docstring_parameters import stale_parameters
from orchestrator.checks.path_kinds import is_product, is_public_module
from orchestrator.checks.python.source import (
    Definition,
    DefinitionNode,
    Job,
    Pair,
    Source,
    decorator_names,
    definitions,
    docstring_node,
    dotted_name,
    gap_on_fault,
    pairs,
)

TRIVIAL_STATEMENTS = 3
OWN_SHARE = 0.8  # documented in the class or file: from here on a missing one stands out
WHOLE_SHARE = 0.9  # the same, judged by other files of the change
SURROUNDINGS = 4  # least number of definitions that say anything about a habit

_MODULE = "<module>"
_EXEMPT_DECORATORS = frozenset({"overload", "override", "setter", "deleter", "getter"})
_PLAIN_BASES = frozenset({"object", "ABC", "Generic", "Protocol"})


class _Habit(Struct):
    """How many definitions of one kind have a docstring."""

    documented: int = 0
    total: int = 0

    def count(self, documented: bool) -> None:
        self.documented += documented
        self.total += 1

    @property
    def known(self) -> bool:
        return self.total >= SURROUNDINGS

    def kept(self, share: float) -> bool:
        return self.documented >= share * self.total


class _Habits(defaultdict[str, _Habit]):
    """Habits by kind: modules, classes, functions, and the methods of one class."""

    def __init__(self) -> None:
        super().__init__(_Habit)

    def learn(self, source: Source, worth: list[Definition]) -> None:
        """Count a source and those of its definitions that are worth a docstring."""
        if is_public_module(source.path):
            self[_MODULE].count(docstring_node(source.tree) is not None)
        for one in worth:
            for kind in _kinds(one):
                self[kind].count(docstring_node(one.node) is not None)


class _Whole:
    """What is kept of all files of the change.

    Attributes:
        names: last two parts of the dotted names base had: a moved definition is not new.
        documented: the same of what has a docstring in head.
        stale: the same with a parameter, for what was stale before.
        base, head: the habits of all files.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.documented: set[str] = set()
        self.stale: set[tuple[str, str]] = set()
        self.base, self.head = _Habits(), _Habits()


class _Candidate(Struct):
    """A docstring that may be missed, until all files are known."""

    found: RawFinding
    name: str
    kinds: tuple[str, ...]
    own: _Habits
    lost: bool = False


def run(job: Job) -> CheckReply:
    """Report docstrings that the change leaves out or leaves stale."""
    gaps: dict[str, str] = {}
    examined: list[str] = []
    missing: list[_Candidate] = []
    stale: list[tuple[tuple[str, str], RawFinding]] = []
    whole = _Whole()
    for pair in pairs(job, gaps):
        if is_product(pair.path):
            with gap_on_fault(gaps, pair.path):
                base = pair.base()
                worth = _worth_a_docstring(base) if base else []
                if base:
                    _remember(base, worth, whole)
                if pair.head:
                    missing += _missing(pair, pair.head, (base, worth), whole)
                    stale += _stale(pair.head)
                examined.append(pair.path)
    found = [one.found for one in missing if _stands_out(one, whole)]
    found += [one for identity, one in stale if identity not in whole.stale]
    return CheckReply(found, examined, gaps)


def _remember(base: Source, worth: list[Definition], whole: _Whole) -> None:
    whole.base.learn(base, worth)
    whole.names |= {_tail(one.dotted) for one in definitions(base.tree)}
    whole.stale |= {(_tail(one.dotted), one.parameter) for one in stale_parameters(base)}


def _stands_out(one: _Candidate, whole: _Whole) -> bool:
    """Whether it is new, or nowhere documented any more, and breaks a habit.

    The habit is that of the class, else the file, else all files: the first that can be told.
    """
    if one.name in (whole.documented if one.lost else whole.names):
        return False
    places = ((one.own, OWN_SHARE), (whole.base, WHOLE_SHARE), (whole.head, WHOLE_SHARE))
    return next(
        (
            habits[kind].kept(share)
            for habits, share in places
            for kind in one.kinds
            if habits[kind].known
        ),
        False,
    )


def _missing(
    pair: Pair, head: Source, before: tuple[Source | None, list[Definition]], whole: _Whole
) -> list[_Candidate]:
    """What has no docstring in head and is new by name in this file, or had one.

    Args:
        before: the file in base, and what in it was worth a docstring.
    """
    own = _Habits()
    base, worth = before
    if base:
        own.learn(base, worth)
    had = {one.dotted: docstring_node(one.node) is not None for one in worth}
    worth = _worth_a_docstring(head)
    whole.head.learn(head, worth)
    found = []
    for one in worth:
        lost = had.get(one.dotted, False)
        if docstring_node(one.node):
            whole.documented.add(_tail(one.dotted))
        elif lost or one.dotted not in had:
            single = _finding(pair.path, one, lost)
            found.append(_Candidate(single, _tail(one.dotted), _kinds(one), own, lost))
    if module := _missing_module(pair, head):
        found.append(_Candidate(module, _MODULE, (_MODULE,), own))
    return found


def _finding(path: str, one: Definition, lost: bool) -> RawFinding:
    what = "class" if isinstance(one.node, ast.ClassDef) else "function"
    return RawFinding(
        "missing",
        path,
        one.node.lineno,
        f"{one.dotted} lost its docstring"
        if lost
        else f"Public {what} {one.dotted} has no docstring; those around it have",
        key=one.dotted,
        scope=one.dotted,
    )


def _missing_module(pair: Pair, head: Source) -> RawFinding | None:
    if pair.status != "added" or pair.path.endswith("__init__.py"):
        return None
    if not is_public_module(pair.path) or docstring_node(head.tree):
        return None
    if len(head.tree.body) <= TRIVIAL_STATEMENTS:
        return None
    message = "This new module has no docstring; those around it have"
    return RawFinding("missing", pair.path, head.tree.body[0].lineno, message, key=_MODULE)


def _kinds(one: Definition) -> tuple[str, ...]:
    if isinstance(one.node, ast.ClassDef):
        return ("class",)
    return (f"methods of {one.parent.dotted}", "method") if one.parent else ("function",)


def _worth_a_docstring(source: Source) -> list[Definition]:
    """Public definitions, at the top or methods, that say more than their own lines do."""
    if not is_public_module(source.path):
        return []
    return [one for one in definitions(source.tree) if not _exempt(one) and _is_long(one.node)]


def _exempt(one: Definition) -> bool:
    return (
        not one.public
        or (isinstance(one.node, ast.ClassDef) and one.parent is not None)
        or not _EXEMPT_DECORATORS.isdisjoint(
            name.rpartition(".")[2] for name in decorator_names(one.node)
        )
        or _inherits_docstring(one)
    )


def _inherits_docstring(one: Definition) -> bool:
    """A method of a derived class may have its base's docstring."""
    owner = one.parent.node if one.parent else None
    return isinstance(owner, ast.ClassDef) and any(
        dotted_name(base.value if isinstance(base, ast.Subscript) else base).rpartition(".")[2]
        not in _PLAIN_BASES
        for base in owner.bases
    )


def _is_long(node: DefinitionNode) -> bool:
    """Whether more statements stand in it than a trivial one has."""
    inner = (one for one in ast.walk(node) if isinstance(one, ast.stmt))
    return next(islice(inner, TRIVIAL_STATEMENTS + 1, None), None) is not None


def _tail(dotted: str) -> str:
    return ".".join(dotted.split(".")[-2:])


def _stale(head: Source) -> list[tuple[tuple[str, str], RawFinding]]:
    """What is stale in head, each with an identity that survives a move."""
    return [
        (
            (_tail(one.dotted), one.parameter),
            RawFinding(
                "stale-parameter",
                head.path,
                one.line,
                f"The docstring of {one.dotted} names a parameter {one.parameter!r}; it has none",
                key=f"{one.dotted}({one.parameter})",
                scope=one.dotted,
                confidence=0.9,
            ),
        )
        for one in stale_parameters(head)
    ]
