"""Syntax trees of Python, kept for the checks that come after, and what walks them by statement."""

import ast
from collections import OrderedDict
from collections.abc import Iterator

from orchestrator.checks.python import syntax_downgrade
from orchestrator.checks.python.source_encoding import HiddenTextError, decode_python

ROOM = 256 * 1024
"""Characters of source whose trees are kept; a tree takes some hundred times its text."""

_BODY = ("body",)
_WITH_ELSE = ("body", "orelse")
_BLOCKS: dict[type[ast.AST], tuple[str, ...]] = {
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
_BRANCHES: dict[type[ast.AST], str] = {
    ast.Try: "handlers",
    ast.TryStar: "handlers",
    ast.Match: "cases",
}


class _Trees:
    """The trees of the most recently parsed texts."""

    def __init__(self, room: int) -> None:
        self._kept: OrderedDict[str, ast.Module] = OrderedDict()
        self._room = room

    def of(self, text: str, name: str) -> ast.Module:
        tree = self._kept.get(text)
        if tree is None:
            tree = self._kept[text] = syntax_downgrade.parse(text, name)
            self._room -= len(text)
        self._kept.move_to_end(text)
        while self._room < 0:
            old, _ = self._kept.popitem(last=False)
            self._room += len(old)
        return tree


_TREES = _Trees(ROOM)


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
