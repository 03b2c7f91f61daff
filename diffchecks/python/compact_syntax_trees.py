"""Syntax trees that need a third of the memory of the parser's.

The parser's nodes keep their fields in a dictionary with room for thirty. These nodes have a slot
for each field, and are instances of the same ``ast`` classes. Line numbers and empty lists are
shared.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

V = TypeVar("V")

NO_NODES: Final = frozenset(
    {"arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "kwd_attrs", "level"}
    | {"module", "op", "ops", "rest", "simple", "type_comment"}
)
"""Fields that hold texts, numbers, expression contexts and operators."""

_SHARED_LINES: Final = 16_384


class _Copies(dict[type, Callable[[Any], Any]]):
    """The parser's class → function that copies its nodes; everything else is used as it is."""

    def __missing__(self, kind: type) -> Callable[[Any], Any]:
        self[kind] = found = lambda value: value
        return found


def _copier_of_fields(copies: _Copies) -> Callable[[Any], Any]:
    """The expression that copies a field's value; the items of a list are replaced in place."""
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
    """The parser's classes with fields, without the deprecated subclasses of ``Constant``."""
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
    """The source of the function that fills the slots of one class."""
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
    """The copy functions, one per class, which take half the time of a loop over fields.

    Their source is built from names of ``ast`` only.
    """
    copies = _Copies()
    names: dict[str, Any] = {f"COMPACT_{k.__name__}": made for k, made in compact_kinds.items()}
    lines = tuple(range(_SHARED_LINES))
    names |= {"new": ast.AST.__new__, "below": _copier_of_fields(copies), "LINES": lines}
    exec("\n".join(line for kind in compact_kinds for line in _copy_function(kind)), names)  # noqa: S102
    copies.update((kind, names[kind.__name__]) for kind in compact_kinds)
    return copies


_COMPACT: Final = {kind: _with_slots(kind) for kind in _kinds(ast.AST)}
_COPIES: Final = _copy_functions(_COMPACT)


def compact(tree: ast.Module) -> ast.Module:
    """Compact a tree; the given tree may no longer be used.

    A tree that is nested too deeply is not compacted, or only in part.
    """
    try:
        copied: ast.Module = _COPIES[type(tree)](tree)
    except RecursionError:
        return tree
    return copied


def by_kind(table: Mapping[type[Any], V]) -> dict[type[Any], V]:
    """A table by ``ast`` class that also contains the classes of compact nodes."""
    kinds = {_COMPACT[kind]: value for kind, value in table.items() if kind in _COMPACT}
    return {**table, **kinds}
