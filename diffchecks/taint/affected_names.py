"""Finds the names whose definitions a change alters, for the users of changed files.

Taint analysis runs on both sides, and only the difference counts. A function elsewhere that uses no
altered name behaves the same on both sides, so neither has to run it.

A method is used as an attribute: its name stands with a dot before it here, as in ``.save``, and a
variable called ``save`` does not mention it.
"""

import ast
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from msgspec import Struct

from diffchecks.packed_files import read_file
from diffchecks.python.source_encoding import decode_python
from diffchecks.python.syntax_tree_cache import parse, walk
from diffchecks.taint.entry_points import Definition, distinctive_names

MAX_FILES: Final = 100
"""In a larger change most names are affected, so computing them costs more than it saves."""

_WORD: Final = re.compile(r"""(?P<attribute>(?:\.[\s\\]*|["'])?)(?P<name>[^\W\d]\w*)""")
_ATTRIBUTES_BY_KEYWORD: Final = re.compile(r"^\s*case\b", re.MULTILINE)
_WILDCARD: Final = "*"


class _Part(Struct, frozen=True):
    """A definition or statement of a module, or of a class in it.

    Attributes:
        text: its lines; for a class, those that are not in another part.
        binds: the names whose meaning it determines.
        in_class: those of its lines that the class runs, where a method's name is a variable.
    """

    text: str
    binds: frozenset[str]
    in_class: str = ""

    def mentions(self) -> set[str]:
        """The names in its text: all of them, and with a dot those that may be attributes."""
        by_keyword = _ATTRIBUTES_BY_KEYWORD.search(self.text) is not None
        words = _WORD.findall(self.text)
        attributes = {name for mark, name in words if mark or by_keyword}
        attributes.update(name for _, name in _WORD.findall(self.in_class))
        return {*(name for _, name in words), *(f".{name}" for name in attributes)}


def affected_names(
    root: Path, other: Path, files: Sequence[tuple[str | None, str | None]]
) -> frozenset[str] | None:
    """The names of changed files whose meaning the change alters; None: possibly all.

    These are the names bound by parts that differ between the sides or that mention such a name.
    The result is the same for both sides.

    Args:
        root: this side's directory; ``other``: the other side's.
        files: the path here and the path there of each changed file, None where it is not.
    """
    if len(files) > MAX_FILES:
        return None
    parts: list[_Part] = []
    altered: set[_Part] = set()
    try:
        for here, there in files:
            old, new = _parts_of(other, there), _parts_of(root, here)
            parts += old + new
            altered.update(_altered(old, new) if here == there else old + new)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OSError):
        return None  # an unreadable file is a gap elsewhere
    found = _closure(parts, altered)
    return None if _WILDCARD in found else found


def _altered(old: Sequence[_Part], new: Sequence[_Part]) -> Iterable[_Part]:
    """The parts that only one side has; all parts if the order of the others differs."""
    shared = set(old) & set(new)
    if [part for part in old if part in shared] != [part for part in new if part in shared]:
        return chain(old, new)
    return (part for part in chain(old, new) if part not in shared)


def _closure(parts: Iterable[_Part], altered: Iterable[_Part]) -> frozenset[str]:
    """The names that these parts bind, and transitively those of parts that mention them."""
    mentioning: dict[str, list[_Part]] = {}
    for part in set(parts):
        for name in part.mentions():
            mentioning.setdefault(name, []).append(part)
    waiting, found = deque(altered), set[str]()
    while waiting:
        for name in waiting.popleft().binds - found:
            found.add(name)
            waiting.extend(mentioning.pop(name, ()))
    return frozenset(found)


def _parts_of(root: Path, path: str | None) -> list[_Part]:
    if path is None:
        return []
    data = read_file(root, path)
    return list(_parts(parse(data).body, decode_python(data).split("\n")))


def _parts(body: Iterable[ast.stmt], lines: Sequence[str]) -> Iterator[_Part]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _parts_of_class(statement, lines)
        elif not _is_text(statement):
            yield _Part(_text(statement, lines), frozenset(bound_names(statement)))


def _parts_of_class(node: ast.ClassDef, lines: Sequence[str]) -> Iterator[_Part]:
    """The methods of a class, and the rest, which represents the class and all its methods.

    A method with an ambiguous name, such as ``__init__`` or ``get``, counts as the rest.
    """
    methods = [item for item in node.body if isinstance(item, Definition)]
    others = (item for item in node.body if not isinstance(item, Definition))
    whole = frozenset((node.name, *_attributes(set(_defined(node)) - {node.name})))
    rest = [_text(item, lines) for item in others if not _is_text(item)]
    header = lines[_first(node) - 1 : max(node.lineno, _first(node.body[0]) - 1)]
    yield _Part("\n".join((*header, *rest)), whole, in_class="\n".join(rest))
    for method in methods:
        names = frozenset((*_attributes([method.name]), *set(bound_names(method)) - {method.name}))
        own = names if distinctive_names([method.name]) else whole
        until = max(method.lineno, _first(method.body[0]) - 1)
        before_body = "\n".join(lines[_first(method) - 1 : until])
        yield _Part(_text(method, lines), own, in_class=before_body)


def _attributes(names: Iterable[str]) -> Iterator[str]:
    return (f".{name}" for name in distinctive_names(names))


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _first(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(item.lineno for item in decorators)])


def _text(node: ast.stmt, lines: Sequence[str]) -> str:
    return "\n".join(lines[_first(node) - 1 : node.end_lineno])


def _defined(node: ast.AST) -> Iterator[str]:
    """The names of the functions and classes in a tree."""
    return (item.name for item in walk(node) if isinstance(item, Definition | ast.ClassDef))


def bound_names(node: ast.AST) -> Iterator[str]:
    """The names that a statement binds, or whose values it may change."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from _defined(node)
            for item in walk(node):
                yield from item.names if isinstance(item, ast.Global) else ()
            return
        case ast.ClassDef():
            yield from _defined(node)
        case ast.Name(ctx=ast.Store() | ast.Del()):
            yield node.id
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            yield node.attr
            yield from _named(node)
        case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Expr():
            yield from _named(node)
        case ast.alias():
            yield (node.asname or node.name).partition(".")[0]
    for child in ast.iter_child_nodes(node):
        yield from bound_names(child)


def _named(node: ast.AST) -> Iterator[str]:
    return (item.id for item in walk(node) if isinstance(item, ast.Name))
