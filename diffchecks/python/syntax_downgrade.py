"""Parses Python newer than the interpreter, by rewriting the new syntax to older equivalents.

Whether a file can be read must not depend on the interpreter that runs the check. What stands in
the replacement fields of strings (PEP 701, PEP 750) is cut out, parsed and put back into the tree;
type parameters and ``type`` statements (PEP 695) and ``except`` without parentheses (PEP 758) are
rewritten in place. Line numbers are kept; columns may change.
"""

import ast
import copy
import re
import sys
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import decode_source
from typing import TYPE_CHECKING

from msgspec import Struct

from diffchecks.check_io import parse_program

if TYPE_CHECKING:
    from ast_grep_py import SgNode

COMPLETE = sys.version_info >= (3, 14)  # the newest supported syntax

_MAX_DEPTH = 12  # nesting of strings in replacement fields
_MARK = "ǂ"
_NAME = re.compile(rf"{_MARK}[0-9a-f]{{8}}")
_CHARACTER = re.compile(r"(?<!\\)(?:\\\\)*\\N\{\Z")
_MAX_BACKSLASHES = 50
_AFTER_EXPRESSION = {"=", "type_conversion", "format_specifier", "}", ":", ":="}
_NEWER = re.compile(r"[\"'\\\n#]")
"""Part of an expression that older replacement fields may not contain."""
_FIELDS = {"interpolation", "format_expression"}


class CutField(Struct):
    """What stood in replacement fields, and on which lines."""

    source: str
    lines: set[int]


class _Edit(Struct):
    start: int
    end: int
    text: str


def parse(source: str | bytes, name: str = "<text>") -> ast.Module:
    """Parse Python of this interpreter's version or newer, without printing warnings.

    Args:
        source: bytes are decoded by their own encoding declaration.

    Raises:
        SyntaxError: the interpreter's error; the text is invalid in all supported versions.
    """
    try:
        return _parse(source, name)
    except SyntaxError:
        if COMPLETE:
            raise
        with suppress(SyntaxError, UnicodeError, LookupError):  # of what has no valid syntax
            text = source if isinstance(source, str) else decode_source(source)
            return _rewritten(text, name, 0)
        raise


def rewrite_newer_syntax(text: str) -> tuple[str, Mapping[str, CutField]]:
    """The text in older syntax, and placeholder name → what was in replacement fields.

    The name depends only on what it replaces, so that equal code stays equal.
    """
    taken: dict[str, CutField] = {}
    parts, at = [], 0
    edits = _edits(parse_program(text, "python"), text, taken)
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, text[at:]]), taken


def _parse(text: str | bytes, name: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, name)


def _rewritten(text: str, name: str, depth: int) -> ast.Module:
    if depth > _MAX_DEPTH:
        raise SyntaxError("strings are nested too deeply")
    old, taken = rewrite_newer_syntax(text)
    tree = _parse(old, name)
    _Restore(taken, depth).visit(tree)
    return tree


def _edits(root: "SgNode", text: str, taken: dict[str, CutField]) -> Iterator[_Edit]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        kind, parts = node.kind(), node.children()
        if kind in {"string", "concatenated_string"}:
            yield from _edits_of_strings(node, text, taken)
            continue
        if kind in {"function_definition", "class_definition"}:
            yield from _without_type_parameters(parts, text)
        elif kind == "type_alias_statement" and text[_start(parts[1])].isidentifier():
            yield _Edit(_start(node), _start(parts[1]), "")
            inside = [part for each in parts[1].children() for part in each.children()]
            yield from _without_type_parameters(inside, text)
        elif kind in {"except_clause", "except_group_clause"}:
            ends = [at for at, part in enumerate(parts) if part.kind() == ":"]
            caught = [part for part in parts[: ends[0] if ends else 0] if part.is_named()]
            if any(part.kind() == "," for part in parts):
                yield _Edit(_start(caught[0]), _start(caught[0]), "(")
                yield _Edit(_end(caught[-1]), _end(caught[-1]), ")")
        waiting += parts


def _start(node: "SgNode") -> int:
    return node.range().start.index


def _end(node: "SgNode") -> int:
    return node.range().end.index


def _without_type_parameters(parts: "list[SgNode]", text: str) -> Iterator[_Edit]:
    for part in parts:
        if part.kind() == "type_parameter":
            lines = text.count("\n", _start(part), _end(part))
            yield _Edit(_start(part), _end(part), "\\\n" * lines)


def _edits_of_strings(group: "SgNode", text: str, taken: dict[str, CutField]) -> Iterator[_Edit]:
    """The edits of adjacent strings: names in replacement fields, and ``f`` for ``t``."""
    lost, waiting, is_raw = 0, [group], False
    while waiting:
        node = waiting.pop()
        kind, parts = node.kind(), node.children()
        if kind == "string_start":
            prefix = node.text().lower()
            is_raw = "r" in prefix
            if "t" in prefix:
                yield _Edit(_start(node), _end(node), prefix.replace("t", "f"))
        elif kind in _FIELDS:
            start = _end(parts[0])
            if not is_raw and _CHARACTER.search(text, max(0, start - _MAX_BACKSLASHES), start):
                continue
            end = _end_of_expression(parts)
            if _NEWER.search(text, start, end):
                lost += text.count("\n", start, end)
                line = parts[0].range().end.line + 1
                yield _Edit(start, end, _placeholder(text[start:end], line, taken))
            waiting += [part for part in parts if part.kind() == "format_specifier"]
        else:
            waiting += reversed(parts)
    if lost:
        yield _Edit(_start(group), _start(group), "(")
        yield _Edit(_end(group), _end(group), "\n" * lost + ")")


def _end_of_expression(parts: "list[SgNode]") -> int:
    """Where what a replacement field evaluates ends, at the latest at a colon."""
    for part in parts[1:]:
        if part.kind() == "ERROR":
            break
        inside = part.children() if part.kind() in {"lambda", "named_expression"} else [part]
        for each in inside:
            if each.kind() in _AFTER_EXPRESSION:
                return _start(each)
    raise SyntaxError("a replacement field cannot be read")


def _placeholder(source: str, line: int, taken: dict[str, CutField]) -> str:
    if not source.strip():
        raise SyntaxError("a replacement field is empty")
    name = f"{_MARK}{zlib.crc32(source.encode()):08x}"
    taken.setdefault(name, CutField(source, set())).lines.add(line)
    return name


class _Restore(ast.NodeTransformer):
    """Puts what was cut out of strings back into a tree."""

    def __init__(self, taken: Mapping[str, CutField], depth: int) -> None:
        self._taken, self._depth = taken, depth
        self._known: dict[str, ast.expr] = {}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a placeholder name with the expression."""
        cut = self._taken.get(node.id)
        if cut is None:
            return node
        if node.id not in self._known:
            self._known[node.id] = self._expression(cut.source)
        line = node.lineno
        if line not in cut.lines:
            line = min(cut.lines, key=lambda line: abs(line - node.lineno))
        return ast.increment_lineno(copy.deepcopy(self._known[node.id]), line - 1)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        """Replace a placeholder in the text that ``=`` shows."""
        if isinstance(node.value, str) and _MARK in node.value:
            node.value = _NAME.sub(self._source, node.value)
        return node

    def _source(self, name: re.Match[str]) -> str:
        cut = self._taken.get(name[0])
        return cut.source if cut else name[0]

    def _expression(self, source: str) -> ast.expr:
        tree = _rewritten(f"({source}\n)", "<field>", self._depth + 1).body
        if len(tree) != 1 or not isinstance(tree[0], ast.Expr):
            raise SyntaxError("a replacement field holds no expression")
        return tree[0].value
