"""Syntax trees in a third of the memory that the parser's take.

A node of the parser keeps its fields in a dictionary with room for thirty. A node of these has a
slot for each field, and is an instance of the same class of ``ast``. Line numbers and empty lists
are shared.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar, cast

V = TypeVar("V")

NO_NODES: Final = frozenset(
    {"arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "kwd_attrs", "level"}
    | {"module", "op", "ops", "rest", "simple", "type_comment"}
)
"""Fields that hold texts, numbers, and what says how a name is used or which operator it is."""

_SHARED_LINES: Final = 16_384


class _Copies(dict[type, Callable[[Any], Any]]):
    """Class of the parser → how its nodes are copied; everything else is taken as it is."""

    def __missing__(self, kind: type) -> Callable[[Any], Any]:
        self[kind] = found = _itself
        return found


def _itself(value: Any) -> Any:
    return value


def _copier_of_fields(copies: _Copies) -> Callable[[Any], Any]:
    """What makes the copy of a field's value: of a list its own items are replaced."""
    empty: list[Any] = []

    def below(value: Any) -> Any:
        if value.__class__ is not list:
            return copies[value.__class__](value)
        if not value:
            return empty
        for at, item in enumerate(value):
            value[at] = copies[item.__class__](item)
        return value

    return below


def _kinds(kind: type[ast.AST]) -> Iterator[type[ast.AST]]:
    """The parser's classes with fields; those below a constant are older names of it."""
    if kind.__module__ not in {"ast", "_ast"}:
        return  # somebody else's
    if kind._fields:
        yield kind
    else:
        for below in kind.__subclasses__():
            yield from _kinds(below)


def _with_slots(kind: type[ast.AST]) -> type[ast.AST]:
    names = {"__slots__": (*kind._fields, *kind._attributes), "__module__": kind.__module__}
    return type(kind.__name__, (kind,), names)


def _copy_function(kind: type[ast.AST]) -> Iterator[str]:
    """The text of the function that fills the slots of one class."""
    yield f"def {kind.__name__}(node):\n copied = new(COMPACT_{kind.__name__})"
    for name in (*kind._fields, *kind._attributes):
        yield f" value = node.{name}"
        if name.endswith("lineno"):
            yield f" copied.{name} = LINES[value] if value and value < {_SHARED_LINES} else value"
        elif kind is ast.Constant or name in NO_NODES or name in kind._attributes:
            yield f" copied.{name} = value"
        else:
            yield f" copied.{name} = below(value)"
    yield " return copied"


def _copy_functions(compact_kinds: Mapping[type[ast.AST], type[ast.AST]]) -> _Copies:
    """How nodes are copied: a loop over fields takes twice as long as a function for each class.

    The text of the functions is made of the names of ``ast`` alone.
    """
    copies = _Copies()
    names: dict[str, Any] = {f"COMPACT_{k.__name__}": made for k, made in compact_kinds.items()}
    lines = tuple(range(_SHARED_LINES))
    names |= {"new": ast.AST.__new__, "below": _copier_of_fields(copies), "LINES": lines}
    exec("\n".join(line for kind in compact_kinds for line in _copy_function(kind)), names)  # noqa: S102
    copies.update((kind, names[kind.__name__]) for kind in compact_kinds)
    return copies


class UnreadBody(Protocol):
    """Reads the body of a function when it is first needed."""

    def read(self) -> list[ast.stmt]:
        """The function's statements."""

    def may_define(self) -> bool:
        """Whether there can be a function in it."""


def _with_unread_body(kind: type[ast.AST]) -> type[ast.AST]:
    """The class for a function whose ``body`` may be an ``UnreadBody`` before it is looked at."""
    slot = kind.__dict__["body"]

    def read(node: ast.AST) -> list[ast.stmt]:
        body = slot.__get__(node)
        if not isinstance(body, list):
            body = body.read()
            slot.__set__(node, body)
        return cast("list[ast.stmt]", body)

    def may_define(node: ast.AST) -> bool:
        body = slot.__get__(node)
        return isinstance(body, list) or bool(body.may_define())

    names = {
        "__slots__": (),
        "__module__": kind.__module__,
        "body": property(read, slot.__set__),
        "may_define": property(may_define),
    }
    return type(kind.__name__, (kind,), names)


_COMPACT: Final = {kind: _with_slots(kind) for kind in _kinds(ast.AST)}
_UNREAD: Final = {
    _COMPACT[kind]: _with_unread_body(_COMPACT[kind])
    for kind in (ast.FunctionDef, ast.AsyncFunctionDef)
}
_COPIES: Final = _copy_functions(_COMPACT)


def compact(tree: ast.Module) -> ast.Module:
    """The same tree in little memory; the one given may no longer be used.

    One that is nested too deeply is returned as it is, or in part.
    """
    try:
        copied: ast.Module = _COPIES[type(tree)](tree)
    except RecursionError:
        return tree
    return copied


def leave_unread(function: ast.AST, body: UnreadBody) -> None:
    """Give a compact node of a function a body that is read when it is first looked at."""
    function.__class__ = _UNREAD[type(function)]
    function.body = body  # type: ignore[attr-defined]


def may_define(statement: ast.stmt) -> bool:
    """Whether functions can be defined in a statement; a body that is unread stays so."""
    return getattr(statement, "may_define", True)


def by_kind(table: Mapping[type[Any], V]) -> dict[type[Any], V]:
    """A table by classes of ``ast`` that also knows those of compact nodes."""
    kinds = {_COMPACT[kind]: value for kind, value in table.items() if kind in _COMPACT}
    unread = {_UNREAD[kind]: value for kind, value in kinds.items() if kind in _UNREAD}
    return {**table, **kinds, **unread}
