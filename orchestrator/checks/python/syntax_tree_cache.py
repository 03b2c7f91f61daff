"""Syntax trees of Python, kept for the checks that come after, and what walks them."""

import ast
import hashlib
from collections import OrderedDict
from collections.abc import Iterator

from orchestrator.checks.python import syntax_downgrade
from orchestrator.checks.python.compact_syntax_trees import NO_NODES, by_kind, compact
from orchestrator.checks.python.source_encoding import HiddenTextError, decode_python

KEPT = 5 << 20
"""Characters of source whose trees are kept to the end; a tree takes some twelve times its text."""

RECENT = 256 << 10
"""Characters of further source, of which the trees used last are kept."""

_BODY = ("body",)
_WITH_ELSE = ("body", "orelse")
_BLOCKS = by_kind(
    {
        ast.Module: _BODY,
        ast.FunctionDef: _BODY,
        ast.AsyncFunctionDef: _BODY,
        ast.ClassDef: _BODY,
        ast.With: _BODY,
        ast.AsyncWith: _BODY,
        ast.If: _WITH_ELSE,
        ast.For: _WITH_ELSE,
        ast.AsyncFor: _WITH_ELSE,
        ast.While: _WITH_ELSE,
        ast.Try: ("body", "orelse", "finalbody"),
        ast.TryStar: ("body", "orelse", "finalbody"),
    }
)
_BRANCHES = by_kind({ast.Try: "handlers", ast.TryStar: "handlers", ast.Match: "cases"})

_MIXED = frozenset({"keys", "kw_defaults", "names"})
"""Fields with lists in which not everything is a node."""


def _is_node(value: object) -> bool:
    return isinstance(value, ast.AST)


class _Children(dict[type[ast.AST], tuple[str, ...]]):
    """Kind of node → the fields in which other nodes may be."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        fields = () if issubclass(kind, ast.Constant) else kind._fields
        self[kind] = found = tuple(field for field in fields if field not in NO_NODES)
        return found


_CHILDREN = _Children()


class _Trees:
    """The trees of the texts that were parsed first, and of those that were used last.

    Check after check walks over the same files: of more than there is room for, those used last
    are always the ones that are needed again last.
    """

    def __init__(self, kept: int, recent: int) -> None:
        self._kept: dict[bytes, ast.Module] = {}  # by digest: a key of its text would hold that too
        self._recent: OrderedDict[bytes, tuple[ast.Module, int]] = OrderedDict()
        self._room, self._room_of_recent = kept, recent

    def of(self, text: str, name: str) -> ast.Module:
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).digest()
        tree = self._kept.get(key)
        if tree is None:
            if key not in self._recent:
                parsed = compact(syntax_downgrade.parse(text, name))
                return self._keep(key, parsed, len(text))
            self._recent.move_to_end(key)
            tree, _ = self._recent[key]
        return tree

    def _keep(self, key: bytes, tree: ast.Module, size: int) -> ast.Module:
        if size <= self._room:
            self._kept[key] = tree
            self._room -= size
            return tree
        self._recent[key] = tree, size
        self._room_of_recent -= size
        while self._room_of_recent < 0:
            _, (_, old) = self._recent.popitem(last=False)
            self._room_of_recent += old
        return tree


_TREES = _Trees(KEPT, RECENT)


def parse(source: str | bytes, name: str = "<text>") -> ast.Module:
    """A text's tree, which is shared with whoever parses it next: nobody may change it.

    Args:
        source: bytes are decoded by their own encoding comment.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as ``syntax_downgrade.parse``.
    """
    if isinstance(source, bytes):
        try:
            source = decode_python(source)
        except HiddenTextError:
            raise
        except (SyntaxError, ValueError):
            return syntax_downgrade.parse(source, name)  # which says it in the parser's words
    return _TREES.of(source, name)


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it in the order of ``ast.walk``, at a third of its cost.

    Left out are operators, and what says whether a name is read or set.
    """
    waiting = [node]
    for each in waiting:
        yield each
        for name in _CHILDREN[type(each)]:
            value = getattr(each, name, None)
            if isinstance(value, list):
                waiting += value if name not in _MIXED else filter(_is_node, value)
            elif isinstance(value, ast.AST):
                waiting.append(value)


def has_blocks(node: ast.AST) -> bool:
    """Whether a node is of a kind that holds statements."""
    return type(node) in _BLOCKS or type(node) in _BRANCHES


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The blocks of statements that a node holds, those of its handlers and cases among them."""
    for name in _BLOCKS.get(type(node), ()):
        yield getattr(node, name)
    branches = _BRANCHES.get(type(node))
    for branch in getattr(node, branches) if branches else ():
        yield branch.body


def all_blocks(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """Every block of statements in a tree, outer ones before those that they hold."""
    waiting: list[ast.AST] = [tree]
    for node in waiting:
        for block in blocks(node):
            yield block
            waiting += filter(has_blocks, block)
