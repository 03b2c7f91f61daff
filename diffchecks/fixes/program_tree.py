"""A program's syntax tree, of which only the parts near given lines are searched; its imports."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from diffchecks.check_io import parse_program
from diffchecks.fixes.template_loading import FixTemplates

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_MAX_LINES, _MAX_CHARACTERS = 60, 20_000
"""The maximum size of a part that is searched as a whole."""
_MAX_NODES = 3000
"""The maximum number of nodes visited to find the parts near given lines."""


class _Part(Struct, frozen=True):
    """A node and its place: 0-based inclusive lines, and character offsets in the program."""

    node: SgNode
    first: int
    last: int
    start: int
    end: int


class ProgramTree:
    """The tree of a program by the first grammar that parses all of it, else by the first.

    Children of nodes are cached, since a hostile file has many nodes and many findings.
    """

    def __init__(self, text: str, grammars: Sequence[str]) -> None:
        # Go's grammar needs a line end after the last line.
        whole = text if text.endswith("\n") else text + "\n"
        roots = (parse_program(whole, grammar) for grammar in grammars)
        valid = next((root for root in roots if root.find(kind="ERROR") is None), None)
        self.root = valid or parse_program(whole, grammars[0])
        self.parts = cache(lambda first, last: list(self._search(first, last)))
        self._children: dict[tuple[int, int, str], tuple[list[_Part], list[int]]] = {}

    @cached_property
    def top(self) -> Sequence[SgNode]:
        """The top-level nodes of the program."""
        return self.root.children()

    def _search(self, first: int, last: int) -> Iterator[SgNode]:
        """The largest parts that touch given lines and do not exceed the searchable size.

        Args:
            first, last: 0-based and inclusive.
        """
        parts, looked = [_part(self.root)], 0
        while parts and looked < _MAX_NODES:
            looked += 1
            part = parts.pop()
            small = part.end - part.start <= _MAX_CHARACTERS
            if small and part.last - part.first <= _MAX_LINES:
                yield part.node
                continue
            children, ends = self._children_of(part)
            at = bisect_left(ends, first)
            while at < len(children) and children[at].first <= last:
                parts.append(children[at])
                at += 1

    def _children_of(self, part: _Part) -> tuple[list[_Part], list[int]]:
        """The children of a node, with the last line of each."""
        key = (part.start, part.end, part.node.kind())
        if key not in self._children:
            children = [_part(node) for node in part.node.children()]
            self._children[key] = children, [child.last for child in children]
        return self._children[key]


def _part(node: SgNode) -> _Part:
    span = node.range()
    return _Part(node, span.start.line, span.end.line, span.start.index, span.end.index)


_COMMENT = "comment"
_TEXT = re.compile(r"[rRuUbB]*[\"']")
_IMPORT, _FROM = re.compile(r"\bimport\s"), re.compile(r"\bfrom\s")
_IMPORT_OF = re.compile(r"\simport\s")


class ImportPlace(Struct, frozen=True):
    """The 0-based line before which to insert missing imports, and these."""

    line: int
    missing: tuple[str, ...]


def find_import_place(
    top: Sequence[SgNode], file: FixTemplates, lines: Iterable[str]
) -> ImportPlace | None:
    """Find where to insert missing imports; None if there is no suitable line.

    Args:
        top: the top-level nodes of the file.
        file: defines which nodes are imports.
        lines: import statements in the language.
    """
    imports = [node for node in top if node.kind() in file.imports]
    present = [node.text() for node in imports]
    missing = tuple(line for line in lines if not any(_brings(text, line) for text in present))
    before = imports[-1] if imports else _last_of_header(top, file)
    if before is None:
        return ImportPlace(0, missing)
    after = before.next()
    place = before.range().end
    # Some grammars include the line end in the node.
    line = place.line if place.column == 0 else place.line + 1
    if missing and after is not None and after.range().start.line < line and after.text().strip():
        return None
    return ImportPlace(line, missing)


def drop_import(module: str, text: str, rest: str) -> tuple[int, int, str] | None:
    """Remove an unused module from a Python import.

    Args:
        rest: the text of the file without the code that used the module.

    Returns:
        The place of the import and its new text; None: it has to stay.
    """
    name = re.escape(module)
    if len(re.findall(rf"\b{name}\b", rest)) != 1:
        return None
    for found in re.finditer(r"^import (.*)\n", text, re.MULTILINE):
        modules = [one.strip() for one in found[1].split(",")]
        if module in modules:
            modules.remove(module)
            return (*found.span(), f"import {', '.join(modules)}\n" if modules else "")
    return None


def is_taken(text: str, line: str) -> bool:
    """Whether a file uses the name that an import would bind for something else.

    Args:
        line: of the import, such as ``import html`` or ``from a import b``.
    """
    if line.startswith("#"):
        return False
    whole = line.rpartition(" ")[2].strip(';"')
    name = re.split(r"[./]", whole)[-1]
    escaped = re.escape(name)
    binds = (
        rf"\b(?:as|def|class|for)\s+{escaped}\b|\b{escaped}\s*:?=(?!=)"
        rf"|[(,]\s*{escaped}\s*[,):]|(?m:^[ \t]*{escaped}\s*:)"
    )
    if re.search(binds, text):
        return True
    listed, word = re.compile(rf",\s*{escaped}\b"), re.compile(rf"\b{escaped}\b")
    rows = (row for row in text.replace("\\\n", " ").split("\n") if name in row)
    return any(_imports(row, listed, word) for row in rows)


def _imports(row: str, listed: re.Pattern[str], word: re.Pattern[str]) -> bool:
    """Whether a line imports a name, alone, in a list, or from a module.

    Only the first of each keyword is looked for: one pattern for the whole would be tried at each,
    to the end of the line, and a line can hold thousands.
    """
    imported = _IMPORT.search(row)
    if imported and listed.search(row, imported.end()):
        return True
    source = _FROM.search(row)
    imported = _IMPORT_OF.search(row, source.end()) if source else None
    return imported is not None and word.search(row, imported.end()) is not None


def _brings(text: str, line: str) -> bool:
    """Whether an import of the file already binds what a line would."""
    keyword, _, name = line.rstrip(";").partition(" ")
    if not text.startswith(keyword):
        return False
    return re.search(rf"(?<![\w.])(?<!\bas ){re.escape(name)}(?!\w| as )", text) is not None


def _last_of_header(top: Sequence[SgNode], file: FixTemplates) -> SgNode | None:
    """The last node of the file header: comments, docstring and the like."""
    last = None
    for node in top:
        is_text = node.kind() == "expression_statement" and _TEXT.match(node.text())
        if node.kind() not in {_COMMENT, *file.header} and not is_text:
            break
        last = node
    return last
