"""Writes out the names in a test of JavaScript, TypeScript or Go: patterns see through aliases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_DOTTED = re.compile(r"[A-Za-z_$][\w$]*(?:[?!]?\.[\w$]+)*")
_LITERAL = re.compile(r"-?\d[\w.]*|true|false|null|undefined|\"[^\"\n]*\"|'[^'\n]*'|`[^`$]*`")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,5})\})")
_PROJECT = re.compile(r"['\"`](?:\.|@/|~|#)")
_ASSERTS = re.compile(r"['\"](?:node:)?assert\b")
_LOADS = frozenset({"require", "import", "vi.importActual", "jest.requireActual"})
_DECLARATIONS = ("variable_declarator", "short_var_declaration", "var_spec", "const_spec")
_NAMES = frozenset({"identifier", "shorthand_property_identifier", "package_identifier"})
_WRAPPED = frozenset({"as_expression", "satisfies_expression", "non_null_expression"})


def _unescape(found: re.Match[str]) -> str:
    letter = chr(int(found[1] or found[2] or found[3], 16))
    return letter if re.match(r"\w", letter) else found[0]


class ScriptNames:
    """One test file.

    Attributes:
        nodes: of its syntax tree, in their order.
        plain: its code without comments.
        written: the same with names written out. ``imported`` stands for modules of the project,
            ``instance`` for objects of their classes.
    """

    def __init__(self, text: str, language: str) -> None:
        from ast_grep_py import SgRoot  # noqa: PLC0415 - 65 ms that only a job with such files pays

        grammar = "go" if language == "go" else "tsx"
        root = SgRoot(_ESCAPE.sub(_unescape, text), grammar).root()
        self.nodes = list(walk(root))
        self._names: dict[str, str] = {}
        self.plain = self._write(root)
        for node in self.nodes:
            for name, value in self._renamed(node, node.kind()):
                self._names.setdefault(name, value)
        self.written = self._write(root)

    def _renamed(self, node: SgNode, kind: str) -> Iterator[tuple[str, str]]:
        """The names that a node gives to what has another name, and that."""
        name, path = node.field("name"), node.field("path") or node.field("source")
        if kind == "import_statement":
            source = path.text() if path else ""
            top = "imported" if _PROJECT.match(source) else ""
            yield from _of_import(node, "assert" if _ASSERTS.match(source) else top)
        elif kind == "import_spec":
            if name and path and name.kind() == "package_identifier":
                yield name.text(), re.sub(r"/v\d+$", "", path.text()[1:-1]).rpartition("/")[2]
        elif kind == "parameter_declaration":
            if name and node.text().endswith("*testing.T"):
                yield name.text(), "t"
        elif kind in _DECLARATIONS and (value := node.field("right") or node.field("value")):
            left = node.field("left") or name
            assert left is not None
            if left.kind() == "object_pattern":
                yield from _of_pattern(left, self._write(value))
                return
            for one, other in zip(_listed(left), map(self._write, _listed(value)), strict=False):
                if _DOTTED.fullmatch(other) or (
                    _LITERAL.fullmatch(other) and self._is_fixed(one.text())
                ):
                    yield one.text(), other

    def _is_fixed(self, name: str) -> bool:
        changes = (
            rf"\b{re.escape(name)}\s*(?:[:*/%+-]?=(?!=)|\+\+|--)|(?:\+\+|--){re.escape(name)}\b"
        )
        return len(re.findall(changes, self.plain)) == 1

    def _write(self, node: SgNode) -> str:
        kind, parts = node.kind(), node.children()
        if kind == "comment":
            return node.text() if node.text().startswith(("//go:", "// +")) else " "
        if kind in _NAMES:
            return self._names.get(node.text(), node.text())
        if not parts or kind == "import_statement" or kind.endswith("pattern"):
            return node.text()
        text, at = node.text(), node.range().start.index
        written: list[str] = []
        ends = at
        for part in parts:
            span = part.range()
            is_declared = kind in _DECLARATIONS and part == (
                node.field("left") or node.field("name")
            )
            written += [
                text[ends - at : span.start.index - at],
                part.text() if is_declared else self._write(part),
            ]
            ends = span.end.index
        whole = "".join(written) + text[ends - at :]
        return self._simplified(kind, written[1::2], whole)

    def _simplified(self, kind: str, parts: list[str], whole: str) -> str:
        """An expression in its plainest form."""
        if kind in _WRAPPED:
            return parts[0]
        if kind == "parenthesized_expression" and _DOTTED.fullmatch(parts[1]):
            return parts[1]
        if kind == "await_expression" and parts[-1] == "imported":
            return parts[-1]
        if (
            kind == "call_expression"
            and parts[0] in _LOADS
            and _PROJECT.match(parts[-1].lstrip("("))
        ):
            return "imported"
        if kind == "new_expression" and parts[1].startswith("imported"):
            return "instance"
        if kind == "subscript_expression" and re.fullmatch(r"['\"`][\w$]+['\"`]", parts[-2]):
            return f"{parts[0]}.{parts[-2][1:-1]}"
        if (
            kind == "binary_expression"
            and parts[1] == "+"
            and all(map(_LITERAL.fullmatch, (parts[0], parts[2])))
        ):
            return re.sub(r"['\"`]\s*\+\s*['\"`]", "", whole)
        return whole


def walk(node: SgNode) -> Iterator[SgNode]:
    """A node and all below it."""
    yield node
    for part in node.children():
        yield from walk(part)


def _listed(node: SgNode) -> list[SgNode]:
    """The expressions of a list, or the one."""
    return (
        node.named_children()
        if node.kind() in {"expression_list", "array_pattern", "array"}
        else [node]
    )


def _of_import(statement: SgNode, top: str) -> Iterator[tuple[str, str]]:
    """Local name → what it stands for in a module."""
    for one in statement.find_all(kind="import_specifier"):
        names = [part.text() for part in one.children() if part.kind() == "identifier"]
        yield names[-1], f"{top}.{names[0]}".lstrip(".")
    for clause in statement.find_all(kind="import_clause"):
        for part in clause.children() if top else ():
            if part.kind() == "identifier":
                yield part.text(), top if top == "assert" else f"{top}.default"
            elif part.kind() == "namespace_import":
                yield part.children()[-1].text(), top


def _of_pattern(pattern: SgNode, value: str) -> Iterator[tuple[str, str]]:
    """Local name → the member that ``{ … } = value`` gives it."""
    for one in pattern.named_children() if _DOTTED.fullmatch(value) else ():
        names = re.findall(r"[\w$]+", one.text().partition("=")[0])
        if names and one.kind() != "rest_pattern":
            yield names[-1], f"{value}.{names[0]}"
