"""YAML as a tree that remembers where each value stands.

A strict subset, so that what a person reads is what is loaded: one document, no tags, no duplicate
keys, no merge keys, and the scalars of YAML 1.2's core schema (``no`` and ``on`` are words, a date
is text). The tree is built from parser events with a stack of our own: the C composer overflows
its stack on deep nesting, and aliases must be counted before they are expanded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.errors import ConfigError

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_VALUES = 50_000
_MAX_DIGITS = 18

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

Scalar = str | int | float | bool | None


class Node(Struct, frozen=True):
    """A value and its place.

    Attributes:
        data: a scalar, or the nodes below.
        file, line: where it stands; for a value in a map the line of its key. 1-based.
        size: values in it, itself included; an alias counts as often as it is used.
        depth: levels in it, 1 for a scalar.
    """

    data: Scalar | list[Node] | dict[str, Node]
    file: str
    line: int
    size: int = 1
    depth: int = 1

    def plain(self) -> Any:
        """The value without places, in the JSON data model."""
        if isinstance(self.data, dict):
            return {key: node.plain() for key, node in self.data.items()}
        if isinstance(self.data, list):
            return [node.plain() for node in self.data]
        return self.data

    def at(self, *path: str | int) -> Node:
        """The node at a path of keys and indices, or the nearest one above it that exists."""
        node = self
        for part in path:
            below: Node | None = None
            if isinstance(node.data, dict):
                below = node.data.get(str(part))
            elif isinstance(node.data, list) and isinstance(part, int):
                below = node.data[part] if part < len(node.data) else None
            if below is None:
                return node
            node = below
        return node

    def fault(self, message: str, *path: str | int) -> ConfigError:
        """A fault at this node, or at the one that a path leads to."""
        node = self.at(*path)
        return ConfigError(message, node.file, node.line)


def decode(data: bytes, name: str) -> str:
    """The file's text, with line ends as ``\\n``.

    Raises:
        ConfigError: empty, over 1 MB, not UTF-8, or with control characters.
    """
    if len(data) > MAX_BYTES:
        raise ConfigError(f"is {len(data):,} bytes; allowed: up to {MAX_BYTES:,}", name)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"is not UTF-8 (byte 0x{data[error.start]:02x}); save it as UTF-8", name, line
        ) from None
    text = text.replace("\r\n", "\n")
    if not text.strip():
        raise ConfigError("is empty; fill it or delete it", name)
    bad = _UNPRINTABLE.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        raise ConfigError(f"has the control character U+{ord(bad[0]):04X}; remove it", name, line)
    return text


def parse(text: str, name: str, before: int = 0) -> Node:
    """Read one document.

    Args:
        text: YAML.
        name: the file's name in messages.
        before: lines that stand above ``text`` in the file.

    Raises:
        ConfigError: with the line at fault.
    """
    builder = _Builder(name, before)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.feed(event)
    except yaml.MarkedYAMLError as error:
        raise builder.syntax(error) from None
    if builder.root is None:
        raise ConfigError("is empty; fill it or delete it", name, before)
    return builder.root


def merge(lower: Node, upper: Node) -> Node:
    """Lay one tree over another: maps merge key by key, anything else is replaced."""
    if not (isinstance(lower.data, dict) and isinstance(upper.data, dict)):
        return upper
    both = {
        key: merge(lower.data[key], node) if key in lower.data else node
        for key, node in upper.data.items()
    }
    return replace(upper, data={**lower.data, **both})


class _Open(Struct):
    """A list or map whose end has not been read yet."""

    items: list[Node] | dict[str, Node]
    line: int
    anchor: str | None
    key: str | None = None
    key_line: int = 0
    size: int = 1
    depth: int = 1


class _Builder:
    """Turns parser events into a tree."""

    def __init__(self, name: str, before: int) -> None:
        self.root: Node | None = None
        self._name, self._before = name, before
        self._stack: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._documents = 0
        self._handlers: Mapping[type[Any], Callable[[Any, int], None]] = {
            yaml.DocumentStartEvent: self._document,
            yaml.ScalarEvent: self._scalar,
            yaml.AliasEvent: self._alias,
            yaml.MappingStartEvent: self._open,
            yaml.SequenceStartEvent: self._open,
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
        }

    def feed(self, event: Any) -> None:
        line = event.start_mark.line + 1 + self._before
        tag = getattr(event, "tag", None)
        if tag not in {None, "!"}:
            raise self._fault(f"the tag {tag!r} is not supported; write the plain value", line)
        handle = self._handlers.get(type(event))
        if handle:
            handle(event, line)

    def _document(self, event: Any, line: int) -> None:
        self._documents += 1
        if self._documents > 1:
            raise self._fault("a second document begins; allowed: one per file", line)

    def _alias(self, event: Any, line: int) -> None:
        if event.anchor not in self._anchors:
            raise self._fault(f"the alias *{event.anchor} names nothing above it", line)
        self._add(replace(self._anchors[event.anchor], line=self._place(line)), None)

    def syntax(self, error: yaml.MarkedYAMLError) -> ConfigError:
        """The parser's complaint in one line."""
        mark = error.problem_mark or error.context_mark
        message = f"is not valid YAML: {error.problem or error.context}"
        if error.problem and error.context:
            message += f" {error.context}"
            if error.context_mark and mark and error.context_mark.line != mark.line:
                message += f" that begins on line {error.context_mark.line + 1 + self._before}"
        return self._fault(message, mark.line + 1 + self._before if mark else 0)

    def _fault(self, message: str, line: int) -> ConfigError:
        return ConfigError(message, self._name, line)

    def _wants_key(self) -> bool:
        return bool(self._stack) and (
            isinstance(self._stack[-1].items, dict) and self._stack[-1].key is None
        )

    def _place(self, line: int) -> int:
        """Where a value counts as standing: in a map at its key."""
        top = self._stack[-1] if self._stack else None
        return top.key_line if top and top.key is not None else line

    def _scalar(self, event: Any, line: int) -> None:
        # Only an escape, which needs double quotes, gets such a character past ``decode``.
        bad = _UNPRINTABLE.search(event.value) if event.style == '"' else None
        if bad:
            raise self._fault(f"has the character U+{ord(bad[0]):04X}; remove it", line)
        if not self._wants_key():
            value = self._value(event.value, line) if event.implicit[0] else event.value
            self._add(Node(value, self._name, self._place(line)), event.anchor)
            return
        top = self._stack[-1]
        if event.value in top.items:
            first = top.items[event.value].line
            raise self._fault(f"the key {event.value!r} stands twice, first on line {first}", line)
        top.key, top.key_line = event.value, line

    def _value(self, text: str, line: int) -> Scalar:
        """A plain scalar's value by YAML 1.2's core schema, without octal, hex, inf and nan."""
        if text in _WORDS:
            return _WORDS[text]
        if _INT.fullmatch(text):
            if len(text) > _MAX_DIGITS:
                raise self._fault(f"a number of more than {_MAX_DIGITS} digits; quote text", line)
            return int(text)
        if _FLOAT.fullmatch(text):
            number = float(text)
            if not math.isfinite(number):
                raise self._fault("a number that is too large; quote it if it is text", line)
            return number
        return text

    def _open(self, event: Any, line: int) -> None:
        if self._wants_key():
            raise self._fault("a key must be text; lists and maps cannot be keys", line)
        if len(self._stack) >= MAX_DEPTH:
            raise self._fault(f"is nested too deeply; allowed: {MAX_DEPTH} levels", line)
        items: list[Node] | dict[str, Node] = (
            {} if isinstance(event, yaml.MappingStartEvent) else []
        )
        self._stack.append(_Open(items, line, event.anchor))

    def _close(self, event: Any, line: int) -> None:
        top = self._stack.pop()
        node = Node(top.items, self._name, self._place(top.line), top.size, top.depth)
        self._add(node, top.anchor)

    def _add(self, node: Node, anchor: str | None) -> None:
        if node.size > MAX_VALUES:
            raise self._fault(f"holds too many values; allowed: {MAX_VALUES:,}", node.line)
        if node.depth + len(self._stack) > MAX_DEPTH:
            raise self._fault(f"is nested too deeply; allowed: {MAX_DEPTH} levels", node.line)
        if anchor:
            self._anchors[anchor] = node
        if not self._stack:
            self.root = node
            return
        top = self._stack[-1]
        if isinstance(top.items, list):
            top.items.append(node)
        elif top.key is None:
            raise self._fault("a key must be text; an alias cannot be a key", node.line)
        else:
            top.items[top.key] = node
            top.key = None
        top.size += node.size
        top.depth = max(top.depth, 1 + node.depth)
