"""Guard clauses and calls of JavaScript, TypeScript, Go, Java, Ruby and PHP, from syntax trees."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from diffchecks.removed_controls.control import Control, Version
from diffchecks.removed_controls.guard_flow import GuardFlow
from diffchecks.removed_controls.lost_wrapping import strip_whitespace
from diffchecks.removed_controls.other_flow import read_ending, read_flow
from diffchecks.removed_controls.vocabulary import DENYING, split_words

if TYPE_CHECKING:
    from ast_grep_py import SgNode

GRAMMARS: Mapping[str, str] = {
    ".js": "tsx", ".jsx": "tsx", ".mjs": "tsx", ".cjs": "tsx", ".ts": "typescript",
    ".mts": "typescript", ".cts": "typescript", ".tsx": "tsx", ".go": "go", ".java": "java",
    ".rb": "ruby", ".php": "php",
}  # fmt: skip
"""File extension → grammar."""

_SCOPES = frozenset(
    [
        "class_declaration", "constructor_declaration", "function_declaration",
        "function_definition", "method", "method_declaration", "method_definition",
        "singleton_method", "variable_declarator", "pair", "class", "module",
        "assignment_expression", "public_field_definition", "field_definition",
    ]
)  # fmt: skip
_VALUES = frozenset(
    ["variable_declarator", "pair", "assignment_expression", "public_field_definition",
     "field_definition"]
)  # fmt: skip
_FUNCTIONS = frozenset(["arrow_function", "function_expression", "class"])
_IFS = frozenset(["if_statement", "if", "unless", "if_modifier", "unless_modifier"])
_CALLS = frozenset(
    [
        "call", "call_expression", "function_call_expression", "member_call_expression",
        "method_invocation", "scoped_call_expression",
    ]
)  # fmt: skip
_EITHER, _BOTH = frozenset(["||", "or"]), frozenset(["&&", "and"])
_TARGETS = frozenset(
    ["variable_declarator", "assignment_expression", "short_var_declaration", "const_spec",
     "var_spec", "assignment", "const_element", "property_element"]
)  # fmt: skip
_MAX_LENGTH = 2000  # characters of an assignment whose parts are examined
_STRINGS = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_RETURNS = frozenset(["return_statement", "return"])
_DECORATORS = frozenset(["annotation", "marker_annotation", "decorator", "attribute"])
_OF_CLASS = re.compile(
    r"(?:prepend_)?before_(?:action|filter)|protect_from_forgery|(?:load_and_)?authorize_resource"
    r"|validates?(?:_\w+)?|http_basic_authenticate_with"
)
# Calls that register the handler and the middleware of a route.
_ROUTES = re.compile(
    r"get|post|put|patch|delete|all|use|Handle|HandleFunc|route|GET|POST|PUT|DELETE"
)
_BLOCKS = frozenset(
    ["statement_block", "block", "compound_statement", "then", "body_statement", "statement_list"]
)

_NAMES = re.compile(r"(?<![\w$.'\"])\$?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?![\w(])")
_WORDS = re.compile(r"[A-Za-z_]\w*|\"[^\"\n]*\"|'[^'\n]*'")
_KEYWORDS = frozenset(
    [
        "const", "else", "err", "false", "func", "if", "in", "instanceof", "len", "length", "let",
        "new", "nil", "not", "null", "return", "self", "string", "this", "true", "typeof",
        "undefined", "unless", "var", "void",
    ]
)  # fmt: skip


def read_controls(grammar: str, lines: Sequence[str], touched: Collection[int]) -> Version:
    """Read the guard clauses and calls of a program.

    Args:
        touched: numbers of the differing lines and their neighbors.
    """
    from ast_grep_py import SgRoot  # noqa: PLC0415 - 65 ms that only a job with such files pays

    text = "\n".join(lines).encode("utf-8", "replace").decode() + "\n"
    root = SgRoot(text, grammar).root()
    reader = _Reader(lines, touched)
    reader.walk(root)
    flows = {name: flow for name, flow in reader.flows.items() if flow}
    return Version(tuple(reader.found), reader.scopes, flows)


class _Reader:
    """Collects the controls of a tree."""

    def __init__(self, lines: Sequence[str], touched: Collection[int]) -> None:
        self.found: list[Control] = []
        self.scopes = {"": (1, max(1, len(lines)))}
        self.flows: dict[str, GuardFlow | None] = {}  # None: several functions have the name
        self._lines, self._touched = lines, sorted(touched)

    def walk(self, root: SgNode) -> None:
        """Visit all nodes that the change touches."""
        waiting = [(root, "")]
        while waiting:
            node, scope = waiting.pop()
            span = node.range()
            first, last = span.start.line + 1, span.end.line + 1
            kind = node.kind()
            if kind in _SCOPES and (name := _scope_name(node)):
                scope = f"{scope}.{name}" if scope else name
                self.scopes.setdefault(scope, (first, last))
            if not self._is_touched(first, last):
                continue
            self._flow(node, scope)
            if kind in _IFS:
                self._guard(node, scope)
            elif kind in _CALLS:
                self._call(node, scope)
            elif kind in _TARGETS:
                self._variable(node, scope)
            elif kind in _RETURNS:
                self._answer(node, scope)
            elif kind in _DECORATORS:
                self._add("decorator", node, scope, f"{scope}@{strip_whitespace(node.text())}")
            elif kind == "unary_expression" and node.text().startswith("delete "):
                self._add("delete", node, scope, strip_whitespace(node.text()))
            waiting += [(child, scope) for child in reversed(node.children()) if child.is_named()]

    def _is_touched(self, first: int, last: int) -> bool:
        at = bisect_left(self._touched, first)
        return at < len(self._touched) and self._touched[at] <= last

    def _flow(self, node: SgNode, scope: str) -> None:
        if found := read_flow(node, scope):
            name, flow = found
            self.flows[name] = None if name in self.flows else flow

    def _guard(self, node: SgNode, scope: str) -> None:
        test = node.field("condition")
        body = node.field("consequence") or node.field("body")
        if test is None or body is None:
            return
        effect, rejection = _rejection(body)
        for part in _split(test, _BOTH) if effect in {"", "value"} else ():
            follows = self._first_line(body)
            self._add("condition", part, scope, _positive(part.text()), follows=follows)
        for part in _split(test) if effect else ():
            self._add("guard", part, scope, _positive(part.text()), effect, rejection)

    def _first_line(self, body: SgNode) -> str:
        while body.kind() in _BLOCKS and (inner := _statements(body)):
            body = inner[0]
        return strip_whitespace(self._lines[body.range().start.line])

    def _variable(self, node: SgNode, scope: str) -> None:
        """Record the value of a variable, and the entries of a deny list."""
        target = node.field("name") or node.field("left")
        name = target.text().lstrip("$") if target else ""
        if target and len(node.text()) <= _MAX_LENGTH:
            self._add("variable", node, scope, strip_whitespace(node.text()), name=name)
        self._entries(node, scope, name)

    def _entries(self, node: SgNode, scope: str, name: str) -> None:
        if split_words({name}).isdisjoint(DENYING):
            return
        for text in _STRINGS.findall(node.text()[: 10 * _MAX_LENGTH]):
            key, values, span = f"{name}:{text}", frozenset[str](), node.range()
            lines = span.start.line + 1, span.end.line + 1
            entry = Control("entry", scope, key, name, frozenset({text}), values, *lines, text)
            self.found.append(entry)

    def _answer(self, node: SgNode, scope: str) -> None:
        """Record the conditions for a positive answer."""
        value = next((child for child in node.children() if child.is_named()), None)
        parts = list(_split(value, _BOTH)) if value else []
        for part in parts if len(parts) > 1 else ():
            self._add("filter", part, scope, _positive(part.text()))

    def _call(self, node: SgNode, scope: str) -> None:
        target = node.field("function") or node.field("name") or node.field("method")
        arguments = node.field("arguments")
        if target is None:
            return
        name = re.split(r"\W+", target.text())[-1]
        passed = arguments.text() if arguments else ""
        key = strip_whitespace(f"{name}{passed}")
        self._add("call", node, scope, key, name=name, about=passed)
        self._entries(node, scope, name)
        if _OF_CLASS.fullmatch(name):
            self._add("decorator", node, scope, f"{scope}@{key}", name=name)
        elif _ROUTES.fullmatch(name) and arguments:
            route, *handlers = [child for child in arguments.children() if child.is_named()] or [
                node
            ]
            for handler in handlers[:-1]:
                key = strip_whitespace(f"{name}({route.text()}:{handler.text()}")
                self._add("middleware", handler, scope, key, name=name, follows=route.text())

    def _add(
        self,
        kind: str,
        node: SgNode,
        scope: str,
        key: str,
        effect: str = "",
        rejection: str = "",
        *,
        name: str = "",
        about: str | None = None,
        follows: str = "",
    ) -> None:
        text, span = node.text(), node.range()
        values = frozenset(_NAMES.findall(text if about is None else about)) - _KEYWORDS
        self.found.append(
            Control(
                kind,
                scope,
                key,
                name,
                frozenset(_WORDS.findall(text)) - _KEYWORDS,
                frozenset(part for value in values for part in value.split(".")) - _KEYWORDS,
                span.start.line + 1,
                span.end.line + 1,
                " ".join(text.split()),
                effect,
                rejection,
                follows,
            )
        )


def _scope_name(node: SgNode) -> str:
    """The name of a definition; empty for a value that is not a function."""
    if node.kind() in _VALUES:
        value = node.field("value") or node.field("right")
        if value is None or value.kind() not in _FUNCTIONS:
            return ""
    name = node.field("name") or node.field("key") or node.field("left") or node.field("property")
    return name.text() if name else ""


def _split(test: SgNode, joined_by: Container[str] = _EITHER) -> Iterator[SgNode]:
    """The operands of a disjunction or conjunction."""
    while test.kind() in {"parenthesized_expression", "parenthesized_statements"}:
        inner = [child for child in test.children() if child.is_named()]
        if len(inner) != 1:
            break
        test = inner[0]
    operator = test.field("operator")
    left, right = test.field("left"), test.field("right")
    if operator and left and right and operator.text() in joined_by:
        yield from _split(left, joined_by)
        yield from _split(right, joined_by)
    else:
        yield test


def _positive(text: str) -> str:
    """The condition without its negation."""
    text = strip_whitespace(text)
    while text.startswith("!") or (text.startswith("(") and text.endswith(")")):
        text = text[1:] if text.startswith("!") else text[1:-1]
    return text.replace("!==", "===").replace("!=", "==")


def _rejection(body: SgNode) -> tuple[str, str]:
    """How a block ends early, and with what; empty if it does not."""
    whole = body.text()
    while body.kind() in _BLOCKS:
        inner = _statements(body)
        if not inner:
            return "", ""
        body = inner[-1]
    return read_ending(body.text(), whole)


def _statements(block: SgNode) -> list[SgNode]:
    return [child for child in block.children() if child.is_named() and child.kind() != "comment"]
