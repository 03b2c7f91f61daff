"""Syntax trees that need a third of the memory of the parser's.

The parser's nodes keep their fields in a dictionary with room for thirty. These nodes have a slot
for each field, and are instances of the same ``ast`` classes. Line numbers and empty lists are
shared.
"""

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

V = TypeVar("V")


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


_COMPACT: Final[Mapping[type[ast.AST], Any]] = {kind: _with_slots(kind) for kind in _kinds(ast.AST)}
_LINES: Final = tuple(range(16_384))
_EMPTY: Final[list[Any]] = []


def compact(tree: ast.Module) -> ast.Module:
    """Compact a tree; the given tree may no longer be used.

    A tree that is nested too deeply is not compacted, or only in part.
    """
    try:
        copied: ast.Module = _copy(tree, ast.Module)
    except RecursionError:
        return tree
    return copied


def _copy(node: Any, kind: type[ast.AST]) -> Any:
    """A copy of a node; the items of its lists are replaced in place."""
    compact_kind = _COMPACT[kind]
    copied = ast.AST.__new__(compact_kind)
    for name in compact_kind.__slots__:
        value = getattr(node, name)
        given = value.__class__
        if given is list:
            for at, item in enumerate(value):
                if item.__class__ in _COMPACT:
                    value[at] = _copy(item, item.__class__)
            value = value or _EMPTY
        elif given in _COMPACT:
            value = _copy(value, given)
        elif given is int and 0 <= value < len(_LINES):
            value = _LINES[value]
        setattr(copied, name, value)
    return copied


def by_kind(table: Mapping[type[Any], V]) -> dict[type[Any], V]:
    """A table by ``ast`` class that also contains the classes of compact nodes."""
    kinds = {_COMPACT[kind]: value for kind, value in table.items() if kind in _COMPACT}
    return {**table, **kinds}
