"""Python that is newer than the interpreter: read all the same, by rewriting what is new in it.

A check must not call a file unreadable because of the interpreter that it happens to run on.
Strings with replacement fields (PEP 701, PEP 750) are taken out, parsed piece by piece and put back
into the tree, as are those that go over several lines; type parameters and ``type`` statements
(PEP 695) and ``except`` without parentheses (PEP 758) are rewritten in place. Lines stay where they
are, columns may not.
"""

from __future__ import annotations

import ast
import copy
import re
import sys
import warnings
import zlib
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import decode_source

from orchestrator.checks.python.newer_strings import Field, Text, UnknownSyntaxError, read, split

COMPLETE = sys.version_info >= (3, 14)  # the newest syntax that is known here

_DEEPEST = 12  # strings in the fields of strings
_HEAD = re.compile(
    r"^([ \t]*)(type[ \t]+|(?:async[ \t]+def|def|class)[ \t]+)(\w+)[ \t]*", re.MULTILINE
)
_EXCEPT = re.compile(
    r"^([ \t]*except\*?[ \t]+)([\w.]+(?:[ \t]*,[ \t]*[\w.]+)+)(?=[ \t]*:)", re.MULTILINE
)


def parse(source: str | bytes, name: str = "<text>") -> ast.Module:
    """Parse Python of this interpreter's version or a newer one, without printing anything.

    Args:
        source: bytes are decoded by their own encoding comment.

    Raises:
        SyntaxError: as the interpreter put it; it is in no version that is known here.
        ValueError, RecursionError, MemoryError: as ``ast.parse``.
    """
    try:
        return _parse(source, name)
    except SyntaxError:
        if COMPLETE:
            raise
        with suppress(SyntaxError, UnknownSyntaxError):
            text = source if isinstance(source, str) else decode_source(source)
            return _rewritten(text, name, 0)
        raise


def older(text: str) -> tuple[str, Mapping[str, str]]:
    """The text in older syntax, and name → source of the strings that the name stands for.

    A name depends on its string alone, so that what is equal stays equal.

    Raises:
        UnknownSyntaxError: a string or bracket does not end.
    """
    taken: dict[str, str] = {}
    parts = [_stand_in(part, taken) if strings else part for strings, part in split(text)]
    return _plain_heads(_EXCEPT.sub(r"\1(\2)", "".join(parts))), taken


def _parse(text: str | bytes, name: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, name)


def _rewritten(text: str, name: str, depth: int) -> ast.Module:
    if depth > _DEEPEST:
        raise UnknownSyntaxError
    old, taken = older(text)
    tree = _parse(old, name)
    _Restore(taken, depth).visit(tree)
    return tree


def _stand_in(source: str, taken: dict[str, str]) -> str:
    name = f"ǂ{zlib.crc32(source.encode('utf-8', 'surrogatepass')):08x}"
    taken[name] = source
    ends = "\n" * source.count("\n")
    return f"({name}{ends})" if ends else name.ljust(len(source))


def _plain_heads(code: str) -> str:
    """Without type parameters, and with aliases as assignments."""
    done, at = [], 0
    for head in _HEAD.finditer(code):
        after = code[head.end() : head.end() + 1]
        alias = head[2].startswith("type")
        if head.start() < at or (alias and after not in {"[", "="}):
            continue
        done += [code[at : head.start()], f"{head[1]}{head[3]} " if alias else head[0]]
        at = head.end()
        if after == "[":
            at = _closing(code, at)
            done.append("\\\n" * code.count("\n", head.end(), at))
    return "".join([*done, code[at:]])


def _closing(code: str, start: int) -> int:
    """Just behind the bracket that closes the one at ``start``."""
    depth = 0
    for bracket in re.compile(r"[\[\]]").finditer(code, start):
        depth += 1 if bracket[0] == "[" else -1
        if depth == 0:
            return bracket.end()
    raise UnknownSyntaxError


class _Restore(ast.NodeTransformer):
    """Puts the strings that were taken out back into a tree."""

    def __init__(self, taken: Mapping[str, str], depth: int) -> None:
        self._taken, self._depth = taken, depth
        self._known: dict[str, ast.expr] = {}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A string where its name stands."""
        if node.id not in self._taken:
            return node
        if node.id not in self._known:
            self._known[node.id] = self._string(self._taken[node.id])
        found = copy.deepcopy(self._known[node.id])
        return ast.increment_lineno(found, node.lineno - 1)

    def _string(self, source: str) -> ast.expr:
        """The tree of strings side by side, the first line being 1."""
        try:
            node: ast.expr = ast.Constant(ast.literal_eval(f"({source})"))
        except (SyntaxError, ValueError):
            node = ast.JoinedStr(self._values(read(source), source))
        placed = self._placed(node, 1)
        placed.end_lineno = source.count("\n") + 1
        return placed

    def _values(self, pieces: list[Text | Field], source: str) -> list[ast.expr]:
        found: list[ast.expr] = []
        for piece in pieces:
            line = source.count("\n", 0, piece.start) + 1
            if isinstance(piece, Text):
                found.append(self._placed(ast.Constant(piece.value), line))
            else:
                found += self._field(piece, source, line)
        return found

    def _field(self, field: Field, source: str, line: int) -> list[ast.expr]:
        written = source[field.start : field.end]
        tree = _rewritten(f"({written}\n)", "<field>", self._depth + 1).body
        if len(tree) != 1 or not isinstance(tree[0], ast.Expr):
            raise UnknownSyntaxError
        value = ast.increment_lineno(tree[0].value, line - 1)
        spec = self._placed(ast.JoinedStr(self._values(field.spec, source)), line)
        by_default = "r" if field.shown and not field.spec else ""
        conversion = ord(field.conversion or by_default) if field.conversion or by_default else -1
        node = ast.FormattedValue(value, conversion, spec if field.spec else None)
        shown = [self._placed(ast.Constant(field.shown), line)] if field.shown else []
        return [*shown, self._placed(node, line)]

    @staticmethod
    def _placed(node: ast.expr, line: int) -> ast.expr:
        node.lineno = node.end_lineno = line
        node.col_offset = node.end_col_offset = 0
        return node
