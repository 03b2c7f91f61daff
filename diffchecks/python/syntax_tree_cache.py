"""A cache of Python syntax trees that all checks share, and functions that walk trees."""

import ast
import hashlib
from collections.abc import Iterator
from functools import lru_cache

from diffchecks.python import syntax_downgrade
from diffchecks.python.compact_syntax_trees import NO_NODES, by_kind, compact
from diffchecks.python.source_encoding import HiddenTextError, decode_python

KEPT = 8 << 20
"""Characters of source whose trees are always kept; a tree needs about twelve times its text."""

RECENT = 16
"""Further trees, the most recently used ones, that are kept."""

_BODY = ("body",)
_WITH_ELSE = ("body", "orelse")
_BLOCKS = by_kind({
    ast.Module: _BODY, ast.FunctionDef: _BODY, ast.AsyncFunctionDef: _BODY, ast.ClassDef: _BODY,
    ast.With: _BODY, ast.AsyncWith: _BODY, ast.If: _WITH_ELSE, ast.For: _WITH_ELSE,
    ast.AsyncFor: _WITH_ELSE, ast.While: _WITH_ELSE, ast.Try: ("body", "orelse", "finalbody"),
    ast.TryStar: ("body", "orelse", "finalbody"),
})  # fmt: skip
_BRANCHES = by_kind({ast.Try: "handlers", ast.TryStar: "handlers", ast.Match: "cases"})

_MIXED = frozenset({"keys", "kw_defaults", "names"})
"""List fields whose items are not all nodes."""


class _Children(dict[type[ast.AST], tuple[str, ...]]):
    """Node class → the fields that may contain other nodes."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        fields = () if issubclass(kind, ast.Constant) else kind._fields
        self[kind] = found = tuple(field for field in fields if field not in NO_NODES)
        return found


_CHILDREN = _Children()


class _Trees:
    """The trees of the texts that were parsed first, and of those used most recently.

    Each check walks over the same files in the same order, so with more files than fit, the most
    recently used ones are always needed again last.
    """

    def __init__(self, kept: int, recent: int) -> None:
        # By digest, since a key with the text would keep it in memory.
        self._kept: dict[bytes, ast.Module] = {}
        self._room = kept
        self._parse = lru_cache(recent)(lambda *given: compact(syntax_downgrade.parse(*given)))

    def of(self, text: str, name: str) -> ast.Module:
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).digest()
        tree = self._kept.get(key)
        if tree is None:
            tree = self._parse(text, name)
            if len(text) <= self._room:
                self._kept[key] = tree
                self._room -= len(text)
        return tree


_TREES = _Trees(KEPT, RECENT)


def parse(source: str | bytes, name: str = "<text>") -> ast.Module:
    """Parse a text; the tree is shared and must not be changed.

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
            return syntax_downgrade.parse(source, name)  # which raises the parser's own error
    return _TREES.of(source, name)


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and its descendants in the order of ``ast.walk``, in a third of its time.

    Operators and expression contexts are left out.
    """
    waiting = [node]
    for each in waiting:
        yield each
        for name in _CHILDREN[type(each)]:
            value = getattr(each, name, None)
            if isinstance(value, list):
                if name in _MIXED:
                    value = [one for one in value if isinstance(one, ast.AST)]
                waiting += value
            elif isinstance(value, ast.AST):
                waiting.append(value)


def has_blocks(node: ast.AST) -> bool:
    """Whether a node's class has blocks of statements."""
    return type(node) in _BLOCKS or type(node) in _BRANCHES


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The blocks of statements in a node, including those of its handlers and cases."""
    for name in _BLOCKS.get(type(node), ()):
        yield getattr(node, name)
    branches = _BRANCHES.get(type(node))
    for branch in getattr(node, branches) if branches else ():
        yield branch.body


def all_blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """All blocks of statements in a tree, outer ones first."""
    waiting: list[ast.AST] = [tree]
    for node in waiting:
        for block in blocks(node):
            yield block
            waiting += filter(has_blocks, block)
