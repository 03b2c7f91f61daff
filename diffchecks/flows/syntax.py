"""What the syntax trees of all languages have: calls, lookups, functions and their parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from diffchecks.check_io import Source
from diffchecks.flows.flow_tables import FlowTables

if TYPE_CHECKING:
    from ast_grep_py import SgNode

    from diffchecks.patterns.pattern_loading import Part, PatternFile

_SHOWN = 50  # characters of a source in a message


def line_of(node: SgNode) -> int:
    """The first line, from 1."""
    return int(node.range().start.line) + 1


def quote_source(node: SgNode) -> str:
    """The source of a node in one short line."""
    text = " ".join(node.text().split())
    return f"`{text if len(text) <= _SHOWN else text[: _SHOWN - 1] + '…'}`"


def unquote(text: str) -> str:
    """What a literal says, or its source."""
    return text[1:-1] if len(text) > 1 and text[0] in "\"'`" and text[-1] == text[0] else text


def module_name(text: str) -> str:
    """The last part of what names a module."""
    return re.split(r"[/\\:]", text.removesuffix("/promises"))[-1]


def part_of(node: SgNode, part: Part) -> SgNode | None:
    """A field of a node, a child of some kind, or a child by its number."""
    if isinstance(part, str):
        found = node.field(part)
        return found or next((each for each in node.named_children() if each.kind() == part), None)
    children = node.named_children()
    return children[part] if children else None


class Syntax:
    """The syntax of one program, by the tables of its language."""

    def __init__(self, source: Source, language: PatternFile, tables: FlowTables) -> None:
        self.program, self.language, self.tables = source, language, tables
        self.names, self.literals = language.names, language.literals
        self.lookups = language.lookups
        self.values = {**language.values, **tables.values}
        self.call_parts = {**language.calls, **dict.fromkeys(tables.calls, "arguments")}

    def split_member(self, node: SgNode) -> tuple[SgNode | None, SgNode | None]:
        """The object and the property of a lookup."""
        owner = part_of(node, self.lookups[node.kind()])
        named = node.named_children()
        return owner, named[-1] if len(named) > 1 else None

    def parameters(self, function: SgNode) -> list[SgNode]:
        """The parameters of a function, each once."""
        part = function.field("parameters") or function.field("parameter")
        if part is None:
            return []
        if part.kind() in self.names:
            return [part]
        found: list[SgNode] = []
        for each in part.named_children():
            several = each.field_children("name")
            target = each.field("pattern") or each.field("left")
            found += several if len(several) > 1 else [target if target and not several else each]
        return [each for each in found if each.kind() != "comment"]

    def names_in(self, node: SgNode) -> Iterable[SgNode]:
        """The name that a parameter has, or the names in its pattern."""
        if node.kind() in self.names:
            yield node
            return
        named = node.field("name") or node.field("pattern")
        if named is not None:
            yield from self.names_in(named)
            return
        for child in node.named_children():
            yield from self.names_in(child)

    def argument_part(self, node: SgNode) -> SgNode | None:
        """The part of a call with its arguments."""
        part = self.call_parts.get(node.kind())
        if part is None:
            return None
        found = part_of(node, part)
        if found is None and node.kind() in self.tables.calls:
            return next(
                (each for each in node.named_children() if "argument" in each.kind()),
                None if self.tables.calls[node.kind()] == "new" else node,
            )
        return found

    def is_nested(self, function: SgNode) -> bool:
        """Whether a function is written inside another one."""
        return any(each.kind() in self.tables.functions for each in function.ancestors())

    def text_around(self, node: SgNode) -> str:
        """The source of the function around a node, or of the program."""
        around = (each.text() for each in node.ancestors() if each.kind() in self.tables.functions)
        return next(around, self.program.text)
