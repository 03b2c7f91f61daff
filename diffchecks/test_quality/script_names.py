"""Writes out the names in a test of JavaScript, TypeScript or Go: patterns see through aliases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from diffchecks.data_files import read_patterns

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_PATTERNS = read_patterns("tests")
_LOADS = frozenset({"require", "import", "vi.importActual", "jest.requireActual"})
_NAMES = frozenset({"identifier", "shorthand_property_identifier", "package_identifier"})
OWN = "%own"
"""Stands for a directory of the test, and what is below it; no expression is written so."""
_BELOW_OWN = re.compile(rf'\({OWN}(?:, *"(?![^"]*\.\.)[^"]*")*\)')


def _unescape(found: re.Match[str]) -> str:
    letter = chr(int(found[1] or found[2] or found[3], 16))
    return letter if re.match(r"\w", letter) else found[0]


class ScriptNames:
    """One test file.

    Attributes:
        nodes: of its syntax tree, in their order.
        plain: its code without comments; its own directories are ``OWN``, as in ``written``.
        written: the same with names written out. ``imported`` stands for modules of the project,
            ``instance`` for objects of their classes.
    """

    def __init__(self, text: str, language: str) -> None:
        from ast_grep_py import SgRoot  # noqa: PLC0415 - 65 ms that only a job with such files pays

        text = _PATTERNS["escape"].sub(_unescape, text)
        root = SgRoot(text, "go" if language == "go" else "tsx").root()
        self.nodes = list(_walk(root))
        self._names: dict[str, str] = {}
        self._makers = set[str]()
        given = [n.text() for n in self.nodes if n.kind() == "parameter_declaration"]
        self._parameters = {word for text in given for word in re.findall(r"\w+", text)}
        self.plain = self.write(root)
        for node in self.nodes * 2:  # what a function returns is known once its names are
            for name, value in self._renamed(node, node.kind()):
                self._names.setdefault(name, value)
            body, up = node.field("body"), node if node.field("name") else node.parent()
            named = up and (up.field("name") or up.field("key"))
            if named and body and _PATTERNS["makes"].search(self.write(body)):
                self._makers.add(named.text())
        self.written, known = self.write(root), self._names
        self._names = {name: value for name, value in known.items() if value == OWN}
        self.plain, self._names = self.write(root), known

    def _renamed(self, node: SgNode, kind: str) -> Iterator[tuple[str, str]]:
        """The names that a node gives to what has another name, and that."""
        left = node.field("left") or node.field("name")
        value = node.field("right") or node.field("value") or node.field("path")
        if kind == "import_statement":
            yield from _of_import(node)
        elif kind == "parameter_declaration" and left and node.text().endswith("*testing.T"):
            yield left.text(), "t"
        elif left is None or value is None:
            return
        elif kind == "import_spec":
            yield left.text(), re.sub(r"/v\d+$", "", value.text()[1:-1]).rpartition("/")[2]
        elif _PATTERNS["declares"].match(kind) or _PATTERNS["assigns"].match(kind):
            whole = self.write(value)
            for one in left.named_children() if _PATTERNS["dotted"].fullmatch(whole) else ():
                key, *local = re.findall(r"[\w$]+", one.text().partition("=")[0])
                if left.kind() == "object_pattern":
                    yield (local or [key])[0], f"{whole}.{key}"
            lists = (one.named_children() if _is_list(one) else [one] for one in (left, value))
            for one, other in zip(*lists, strict=False):
                name, written = one.text(), self.write(other)
                changes = rf"\b{name}\s*(?:[:*/%+-]?=(?!=)|\+\+|--)|(?:\+\+|--){name}\b"
                is_fixed = name.isidentifier() and len(re.findall(changes, self.plain)) == 1
                is_own = written == OWN and name not in self._parameters
                is_own &= f"&{name}" not in self.plain
                is_fixed &= is_own or bool(_PATTERNS["literal"].fullmatch(written))
                if is_fixed or _PATTERNS["dotted"].fullmatch(written):
                    yield name, written

    def write(self, node: SgNode) -> str:
        """The code of a node with names written out, as far as they are known."""
        kind, text, parts = node.kind(), node.text(), node.children()
        if kind == "comment":
            return text if text.startswith(("//go:", "// +")) else " "
        if kind in _NAMES:
            return self._names.get(text, text)
        if not parts or kind == "import_statement" or kind.endswith("pattern"):
            return text
        declared = None
        if _PATTERNS["declares"].match(kind):
            declared = node.field("left") or node.field("name")
        written = [part.text() if part == declared else self.write(part) for part in parts]
        if kind == "call_expression" and written[0].rpartition(".")[2] in self._makers:
            return "instance"
        if plain := _simplified(kind, written):
            return plain
        start = ends = node.range().start.index
        for at, part in enumerate(parts):
            span = part.range()
            written[at] = text[ends - start : span.start.index - start] + written[at]
            ends = span.end.index
        return "".join(written) + text[ends - start :]


def _simplified(kind: str, parts: list[str]) -> str:
    """An expression in its plainest form; empty: as it is."""
    match kind, parts:
        case "as_expression" | "satisfies_expression" | "non_null_expression", [inner, *_]:
            return inner
        case "parenthesized_expression", [_, inner, _] if _PATTERNS["dotted"].fullmatch(inner):
            return inner
        case "await_expression", [_, "imported" | "instance" as inner]:
            return inner
        case "call_expression", [name, given] if plain := _made(name, given):
            return plain
        case "new_expression", [_, name, *_] if name.startswith("imported"):
            return "instance"
        case "subscript_expression", [name, _, key, _] if re.fullmatch(r"(['\"`])[\w$]+\1", key):
            return f"{name}.{key[1:-1]}"
        case "binary_expression", [left, "+", right] if {left[-1:], right[:1]} < set("'\"`"):
            return left[:-1] + right[1:]
    return ""


def _made(name: str, given: str) -> str:
    """What stands for what a call loads or makes, if it is known; else empty."""
    is_own = f"{name}{given}" == "t.TempDir()"
    if is_own or (name == "filepath.Join" and _BELOW_OWN.fullmatch(given)):
        return OWN
    return _module(given[1:]) if name in _LOADS else ""


def _module(named: str) -> str:
    """What stands for a module of the project, or for one of assertions; else empty."""
    found = _PATTERNS["modules"].match(named)
    return str(found.lastgroup) if found else ""


def _is_list(node: SgNode) -> bool:
    return node.kind() in {"expression_list", "array_pattern", "array"}


def _walk(node: SgNode) -> Iterator[SgNode]:
    yield node
    for part in node.children():
        yield from _walk(part)


def _of_import(statement: SgNode) -> Iterator[tuple[str, str]]:
    """Local name → what it stands for in a module."""
    source = statement.field("source")
    top = _module(source.text()) if source else ""
    for one in _walk(statement):
        names = [part.text() for part in one.children() if part.kind() == "identifier"]
        if one.kind() == "import_specifier":
            yield names[-1], f"{top}.{names[0]}".lstrip(".")
        elif top and names and one.kind() in {"namespace_import", "import_clause"}:
            is_default = top == "imported" and one.kind() == "import_clause"
            yield names[0], "imported.default" if is_default else top
