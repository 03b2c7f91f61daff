"""Converts a template to statements for the taint analysis, as far as unescaped values need them.

Template expressions are almost Python. A filter binds like a product, so ``a ~ b|upper`` is read as
``a + b @ upper``, and then becomes a call of the filter.
"""

import ast
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

from msgspec import Struct

from diffchecks.data_files import read_names, read_patterns
from diffchecks.templates.page_scanner import Tag, TemplatePage

_Node = TypeVar("_Node", bound=ast.AST)

FILTER: Final = "|"
"""A prefix that keeps names of filters apart from names of values."""

_MAX_LENGTH: Final = 2000  # characters of a tag
_PATTERNS: Final = read_patterns("template_code")
_WORDS: Final = {"true": "True", "false": "False", "none": "None"}
_DEFAULTS: Final = frozenset({"default", "d", "default_if_none"})
_PLACES: Final = {"first": 0, "last": -1, "random": 0}


class Member(ast.Attribute):
    """``value.attr`` in a template: an attribute or an item."""


class Print(ast.stmt):
    """A value is printed without the escaping that its context needs."""

    def __init__(self, value: ast.expr, shown: str) -> None:
        super().__init__()
        self.value, self.shown = value, shown


class Include(ast.stmt):
    """Another template is rendered with the same values and more."""

    def __init__(self, template: str, values: list[tuple[str, ast.expr]], *, alone: bool) -> None:
        super().__init__()
        self.template, self.values, self.alone = template, values, alone


class ImportMacros(ast.stmt):
    """Imported macros: ``names`` of macros and variables, or the whole template as ``whole``."""

    def __init__(self, template: str, names: list[tuple[str, str]], whole: str) -> None:
        super().__init__()
        self.template, self.names, self.whole = template, names, whole


class TemplateCode(Struct):
    """The relevant content of a template.

    Attributes:
        prints: it prints a value unescaped.
        others: names of the templates that it extends, includes and imports.
        parent: the name of the template that it extends.
    """

    body: list[ast.stmt]
    prints: bool
    filters: frozenset[str]
    others: tuple[str, ...]
    parent: str


def read_code(
    page: TemplatePage, printed: Iterable[tuple[int, str]], *, lines: bool
) -> TemplateCode:
    """Read the statements of a template.

    Args:
        printed: offset → value that is printed without escaping.
        lines: lines that begin with a percent sign are statements, as in Mako and Bottle.
    """
    builder = _Builder(dict(printed))
    marks: list[tuple[int, Tag | re.Match[str]]] = [
        (tag.start, tag) for tag in page.tags if tag.kind != "comment"
    ]
    if lines:
        marks += [(found.start(), found) for found in _PATTERNS["control"].finditer(page.text)]
        marks += [(found.start(), found) for found in _PATTERNS["mako_file"].finditer(page.text)]
    ends = [found.start() for found in re.finditer("\n", page.text)]
    for start, mark in sorted(marks, key=lambda entry: entry[0]):
        builder.line = bisect_left(ends, start) + 1
        if not isinstance(mark, Tag):
            name = mark.groupdict().get("name")
            builder.statement(f"{mark['how']} '{name}'" if name else mark["code"])
        elif len(mark.source) > _MAX_LENGTH or mark.source.startswith(
            "\n"
        ):  # a line statement, read above
            continue
        elif mark.kind == "value" or start in builder.printed:
            builder.value(mark)
        else:
            builder.statement(mark.source[2:-2].strip("-+ \t\r\n"))
    return TemplateCode(
        list(_needed(builder.body)),
        builder.prints,
        frozenset(builder.filters),
        tuple(dict.fromkeys(builder.others)),
        builder.parent,
    )


def _needed(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements without those that have no effect on printed values."""
    for statement in body:
        if isinstance(statement, ast.For | ast.FunctionDef):
            statement.body = list(_needed(statement.body))
            if all(isinstance(inner, ast.Assign) for inner in statement.body):
                continue
        elif isinstance(statement, ast.If):
            statement.body = list(_needed(statement.body))
            statement.orelse = list(_needed(statement.orelse))
            if not (statement.body or statement.orelse):
                continue
        yield statement


class _Builder:
    """Builds statements from the tags in order."""

    def __init__(self, printed: dict[int, str]) -> None:
        self.printed = printed
        self.line = 1
        self.prints = False
        self.filters: set[str] = set()
        self.others: list[str] = []
        self.parent = ""
        self.body: list[ast.stmt] = []
        self._open: list[tuple[str, list[ast.stmt]]] = [("", self.body)]
        self._macros: set[str] = set()

    def value(self, tag: Tag) -> None:
        """Handle a tag that prints a value."""
        text = self.printed.get(tag.start)
        if text is not None:
            value = self._expression(text)
            if value is not None:
                self.prints = True
                self._add(Print(value, " ".join(text.split())[:60]))
        elif any(name in self._macros for name in _PATTERNS["called"].findall(tag.source)):
            self._call(tag.source[2:-2].strip("-+ \t\r\n"))

    def statement(self, text: str) -> None:
        """Handle a statement tag."""
        word, rest = [*text.split(None, 1), "", ""][:2]
        if word.startswith("end"):
            self._close(word.removeprefix("end"))
        elif word in {"else", "elif", "elseif", "empty"}:
            self._otherwise(word, rest)
        else:
            handler = _STATEMENTS.get(word)
            if handler is not None:
                handler(self, rest)

    def _add(self, statement: ast.stmt) -> None:
        self._open[-1][1].append(self._placed(statement))

    def _close(self, word: str) -> None:
        for at in range(len(self._open) - 1, 0, -1):
            if not word or self._open[at][0] == word:
                del self._open[at:]
                return

    def _for(self, text: str) -> None:
        found = _PATTERNS["for"].fullmatch(text)
        target = self._expression(found["target"]) if found else None
        of = self._expression(found["of"]) if found else None
        node = ast.For(
            target=target or ast.Tuple(elts=[], ctx=ast.Store()),
            iter=of or ast.Constant(None),
            body=[],
            orelse=[],
        )
        self._add(node)
        self._open.append(("for", node.body))

    def _if(self, text: str) -> None:
        node = ast.If(test=self._expression(text) or _unknown(), body=[], orelse=[])
        self._add(node)
        self._open.append(("if", node.body))

    def _otherwise(self, word: str, text: str) -> None:
        kind, body = self._open[-1]
        holder = self._open[-2][1] if len(self._open) > 1 else []
        node = holder[-1] if holder else None
        while isinstance(node, ast.If) and node.body is not body and node.orelse:
            node = node.orelse[-1]
        if kind != "if" or not isinstance(node, ast.If):
            return
        if word == "else":
            self._open[-1] = ("if", node.orelse)
            return
        test = self._expression(text) or _unknown()
        other = ast.If(test=test, body=[], orelse=[])
        node.orelse.append(self._placed(other))
        self._open[-1] = ("if", other.body)

    def _set(self, text: str) -> None:
        found = _PATTERNS["set"].fullmatch(text)
        if found is None:  # a block, or one of several names
            for name in re.findall(r"\w+", text.partition("=")[0]):
                self._assign(name, None)
            return
        self._assign(found["name"], self._expression(found["value"]))

    def _with(self, text: str) -> None:
        for name, value, other, alias in _PATTERNS["pair"].findall(text):
            self._assign(name or alias, self._expression(value or other))

    def _assign(self, name: str, value: ast.expr | None) -> None:
        target = ast.Name(id=name, ctx=ast.Store())
        self._add(ast.Assign(targets=[target], value=value or _unknown()))

    def _include(self, text: str) -> None:
        found = _PATTERNS["named"].match(text)
        if found is None:
            return
        pairs = [
            (name, value)
            for name, given, _, _ in _PATTERNS["pair"].findall(found["rest"])
            if name and (value := self._expression(given)) is not None
        ]
        self.others.append(found["name"])
        alone = re.search(r"\bonly\b|without\s+context", found["rest"]) is not None
        self._add(Include(found["name"], pairs, alone=alone))

    def _extends(self, text: str) -> None:
        found = _PATTERNS["named"].match(text)
        self.parent = found["name"] if found else ""
        self._include(text)

    def _from(self, text: str) -> None:
        found = _PATTERNS["from"].match(text)
        if found is not None:
            names = [
                (name, alias or name) for name, alias in _PATTERNS["alias"].findall(found["names"])
            ]
            self._import_macros(found["name"], names, "")

    def _import(self, text: str) -> None:
        found = _PATTERNS["named"].match(text)
        alias = re.match(r"\s*as\s+(\w+)", found["rest"]) if found else None
        if found and alias:
            self._import_macros(found["name"], [], alias[1])

    def _import_macros(self, template: str, names: list[tuple[str, str]], whole: str) -> None:
        self.others.append(template)
        self._macros.update([whole] if whole else (alias for _, alias in names))
        self._add(ImportMacros(template, names, whole))

    def _macro(self, text: str) -> None:
        found = _PATTERNS["macro"].match(text)
        name, given = (found["name"], found["given"]) if found else ("_", "")
        try:
            (node,) = ast.parse(f"def {name}({_rewritten(given)}): pass").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            (node,) = ast.parse("def _(): pass").body
        assert isinstance(node, ast.FunctionDef)
        node.body = []
        self._macros.add(name)
        self._add(node)
        self._open.append(("macro", node.body))

    def _call(self, text: str) -> None:
        value = self._expression(re.sub(r"\A\([^()]*\)\s*", "", text))
        if value is not None:
            self._add(ast.Expr(value=value))

    def _placed(self, node: _Node) -> _Node:
        for inner in ast.walk(node):
            if isinstance(inner, ast.expr | ast.stmt | ast.arg | ast.keyword):
                inner.lineno = inner.end_lineno = self.line
                inner.col_offset = inner.end_col_offset = 0
        return node

    def _expression(self, text: str) -> ast.expr | None:
        """Parse an expression; None if it is not supported."""
        rewritten = _rewritten(text)
        for ending in ("", " else ''"):
            try:
                node = ast.parse(f"({rewritten}\n{ending})", mode="eval").body
                found: ast.expr = _Filters(self.filters).visit(node)
                self._placed(found)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            return found
        return None


def _unknown() -> ast.expr:
    return ast.Name(id="", ctx=ast.Load())


_STATEMENTS: Final[dict[str, Any]] = {
    "for": _Builder._for, "if": _Builder._if, "set": _Builder._set, "with": _Builder._with,
    "include": _Builder._include, "extends": _Builder._extends, "inherit": _Builder._extends,
    "import": _Builder._import, "from": _Builder._from, "macro": _Builder._macro,
    "call": _Builder._call,
}  # fmt: skip


def _rewritten(text: str) -> str:
    """A template expression rewritten as Python."""

    def put(found: re.Match[str]) -> str:
        if found["text"]:
            return found["text"].replace("\n", " ")
        if found["filter"]:
            return f" @ {found['filter']}({_rewritten(found['given'])})"
        if found["at"]:
            return f"[{found['at']}]"
        if found["word"]:
            return _WORDS[found["word"]]
        return " @ " if found["bar"] else " + "

    return _PATTERNS["token"].sub(put, text)


class _Filters(ast.NodeTransformer):
    """Converts attributes to members and filters to calls."""

    def __init__(self, seen: set[str]) -> None:
        self._seen = seen

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return Member(value=self.visit(node.value), attr=node.attr, ctx=node.ctx)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if not isinstance(node.op, ast.MatMult):
            self.generic_visit(node)
            return node
        value = self.visit(node.left)
        call = node.right if isinstance(node.right, ast.Call) else None
        name: ast.expr = call.func if call else node.right
        if not isinstance(name, ast.Name):
            return _unknown()
        args = [self.visit(given) for given in (call.args if call else ())]
        return self._filtered(name.id, value, args)

    def _filtered(self, name: str, value: ast.expr, args: list[ast.expr]) -> ast.expr:
        if name in read_names("taint_keeping_filters"):
            return value
        if name in _DEFAULTS:
            return ast.BoolOp(op=ast.Or(), values=[value, *args[:1]]) if args else value
        if name in _PLACES:
            return ast.Subscript(value=value, slice=ast.Constant(_PLACES[name]), ctx=ast.Load())
        if name == "join":
            sep = args[0] if args and isinstance(args[0], ast.Constant) else ast.Constant("")
            joined = ast.Attribute(value=sep, attr="join", ctx=ast.Load())
            return ast.Call(func=joined, args=[value], keywords=[])
        if name == "add" and args:
            return ast.BinOp(left=value, op=ast.Add(), right=args[0])
        if name == "attr" and args and isinstance(args[0], ast.Constant):
            return Member(value=value, attr=str(args[0].value), ctx=ast.Load())
        self._seen.add(name)
        func = ast.Name(id=f"{FILTER}{name}", ctx=ast.Load())
        return ast.Call(func=func, args=[value, *args], keywords=[])
