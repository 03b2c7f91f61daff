"""YAML documents as trees that know the line of each value.

A strict subset, so that what a person reads is what is loaded: one document, no tags, no duplicate
keys, no merge keys, and the scalars of YAML 1.2's core schema (``no`` and ``on`` are text, and so
is a date).

The tree is built from the parser's events and not by its composer: the C composer overflows its
stack on deep nesting, and aliases must be counted before they are expanded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import yaml
from msgspec import Struct

from orchestrator.errors import ConfigError

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_VALUES = 50_000
_MAX_DIGITS = 18

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NO_TEXT_BEGINS = frozenset(["", *"~nNtTfF+-.0123456789"])
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_TOO_DEEP = f"is nested too deeply; allowed: {MAX_DEPTH} levels"

Scalar = str | int | float | bool | None

# A line; of a list or map also the places of what it holds, under the same keys. Those in a merged
# map are nodes, for they come from several files.
Position = int | tuple[int, Any]


def line_number(place: Position) -> int:
    """The line of a place, 1-based."""
    return place if isinstance(place, int) else place[0]


class _Anchored(Struct, frozen=True):
    """What an alias can name.

    Attributes:
        size: values in it, itself included; an alias counts as often as it is used.
        depth: levels in it, 1 for a scalar.
    """

    value: Any
    place: Position
    size: int
    depth: int


class DocumentReader:
    """Reads one document, each list and map in it by a call of its own.

    Args:
        text: YAML.
        name: the file's name in messages.
        before: lines that stand above ``text`` in the file.
    """

    def __init__(self, text: str, name: str, before: int) -> None:
        self._next: Callable[[], Any] = _LOADER(text).get_event
        self._name, self._before = name, before
        self._anchors: dict[str, _Anchored] = {}
        self._size = 0  # values read so far
        self._deepest = 0  # levels that were reached in what is open

    def read(self) -> tuple[Any, Position]:
        """The document's value and its place.

        Raises:
            ConfigError: it is not YAML, no single document, or breaks a rule of ours; with the line
                at fault.
        """
        try:
            return self._document()
        except yaml.MarkedYAMLError as error:
            raise self._syntax(error) from None

    def _document(self) -> tuple[Any, Position]:
        self._next()  # the stream begins
        if type(self._next()) is yaml.StreamEndEvent:
            raise self._fault("is empty; fill it or delete it", self._before)
        event = self._next()
        value, place = self._value(event, 0, self._line(event))
        self._next()  # the document ends
        event = self._next()
        if type(event) is yaml.DocumentStartEvent:
            raise self._fault("a second document begins; allowed: one per file", event)
        return value, place

    def _syntax(self, error: yaml.MarkedYAMLError) -> ConfigError:
        """The parser's complaint in one line."""
        mark = error.problem_mark or error.context_mark
        message = f"is not valid YAML: {error.problem or error.context}"
        if error.problem and error.context:
            message += f" {error.context}"
            if error.context_mark and mark and error.context_mark.line != mark.line:
                message += f" that begins on line {error.context_mark.line + 1 + self._before}"
        return self._fault(message, mark.line + 1 + self._before if mark else 0)

    def _fault(self, message: str, where: Any) -> ConfigError:
        """A fault on a line, or on that of an event."""
        line = where if isinstance(where, int) else self._line(where)
        return ConfigError(message, self._name, line)

    def _line(self, event: Any) -> int:
        line: int = event.start_mark.line
        return line + 1 + self._before

    def _value(self, event: Any, level: int, line: int) -> tuple[Any, Position]:
        """A value and its place.

        Args:
            event: the one that it begins with.
            level: how many lists and maps it lies in.
            line: where it counts as standing.
        """
        if level >= MAX_DEPTH:
            raise self._fault(_TOO_DEEP, line)
        if type(event) is yaml.AliasEvent:
            return self._alias(event, level, line)
        if type(event) is not yaml.ScalarEvent:
            return self._collection(event, level, line)
        self._size += 1
        text = self._text(event)
        plain = event.implicit[0] and text[:1] in _NO_TEXT_BEGINS
        value = self._resolved(text, event) if plain else text
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, line, 1, 1)
        return value, line

    def _collection(self, event: Any, level: int, line: int) -> tuple[Any, Position]:
        """A list or map, and its place; as ``_value``."""
        self._refuse_tag(event)
        before, outside = self._size, self._deepest
        self._size, self._deepest = before + 1, level + 1
        read = self._map if type(event) is yaml.MappingStartEvent else self._list
        value, places = read(level + 1)
        size, deepest = self._size - before, max(self._deepest, level + 1 + bool(value))
        self._deepest = max(outside, deepest)
        if size > MAX_VALUES:
            raise self._fault(f"holds too many values; allowed: {MAX_VALUES:,}", line)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, (line, places), size, deepest - level)
        return value, (line, places)

    def _list(self, level: int) -> tuple[list[Any], list[Position]]:
        values: list[Any] = []
        places: list[Position] = []
        while type(event := self._next()) is not yaml.SequenceEndEvent:
            value, place = self._value(event, level, self._line(event))
            values.append(value)
            places.append(place)
        return values, places

    def _map(self, level: int) -> tuple[dict[str, Any], dict[str, Position]]:
        values: dict[str, Any] = {}
        places: dict[str, Position] = {}
        while type(event := self._next()) is not yaml.MappingEndEvent:
            key, line = self._key(event), self._line(event)
            if key in values:
                first = line_number(places[key])
                raise self._fault(f"the key {key!r} stands twice, first on line {first}", line)
            values[key], places[key] = self._value(self._next(), level, line)
        return values, places

    def _key(self, event: Any) -> str:
        if type(event) is yaml.ScalarEvent:
            return self._text(event)
        if type(event) is yaml.AliasEvent:
            self._anchored(event)
            raise self._fault("a key must be text; an alias cannot be a key", event)
        self._refuse_tag(event)
        raise self._fault("a key must be text; lists and maps cannot be keys", event)

    def _alias(self, event: Any, level: int, line: int) -> tuple[Any, Position]:
        named = self._anchored(event)
        if level + named.depth > MAX_DEPTH:
            raise self._fault(_TOO_DEEP, line)
        self._size += named.size
        self._deepest = max(self._deepest, level + named.depth)
        return named.value, line if isinstance(named.place, int) else (line, named.place[1])

    def _anchored(self, event: Any) -> _Anchored:
        if event.anchor not in self._anchors:
            raise self._fault(f"the alias *{event.anchor} names nothing above it", event)
        return self._anchors[event.anchor]

    def _refuse_tag(self, event: Any) -> None:
        if event.tag not in {None, "!"}:
            message = f"the tag {event.tag!r} is not supported; write the plain value"
            raise self._fault(message, event)

    def _text(self, event: Any) -> str:
        if event.tag:
            self._refuse_tag(event)
        text: str = event.value
        # Only an escape, which needs double quotes, gets such a character past ``decode``.
        bad = UNPRINTABLE.search(text) if event.style == '"' else None
        if bad:
            raise self._fault(f"has the character U+{ord(bad[0]):04X}; remove it", event)
        return text

    def _resolved(self, text: str, event: Any) -> Scalar:
        """A plain scalar by YAML 1.2's core schema, without octal, hex, inf and nan."""
        if text in _WORDS:
            return _WORDS[text]
        if _INT.fullmatch(text):
            if len(text) > _MAX_DIGITS:
                raise self._fault(f"a number of more than {_MAX_DIGITS} digits; quote text", event)
            return int(text)
        if _FLOAT.fullmatch(text):
            number = float(text)
            if not math.isfinite(number):
                raise self._fault("a number that is too large; quote it if it is text", event)
            return number
        return text


class Node(Struct, frozen=True):
    """A value and its place. The nodes below it are made when somebody asks for them.

    Attributes:
        value: without places, in the JSON data model. Not to be altered: an alias is the very value
            that it names.
        file, place: where it stands.
    """

    value: Any
    file: str
    place: Position

    @property
    def line(self) -> int:
        """Where it stands; for a value in a map the line of its key. 1-based."""
        return line_number(self.place)

    @property
    def data(self) -> Scalar | list[Node] | dict[str, Node]:
        """A scalar, or the nodes below."""
        if isinstance(self.value, dict):
            return {key: self._below(key) for key in self.value}
        if isinstance(self.value, list):
            return [self._below(index) for index in range(len(self.value))]
        return cast("Scalar", self.value)

    def at(self, *path: str | int) -> Node:
        """The node at a path of keys and indices, or the nearest one above it that exists."""
        node = self
        for part in path:
            if isinstance(node.value, dict) and str(part) in node.value:
                node = node._below(str(part))
            elif isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
                node = node._below(part)
            else:
                return node
        return node

    def _below(self, part: str | int) -> Node:
        assert isinstance(self.place, tuple)
        place = self.place[1][part]
        return place if isinstance(place, Node) else Node(self.value[part], self.file, place)

    def error(self, message: str, *path: str | int) -> ConfigError:
        """A fault at this node, or at the one that a path leads to."""
        node = self.at(*path)
        return ConfigError(message, node.file, node.line)


def decode_text(data: bytes, name: str) -> str:
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
    # All that Python calls printable may stand in YAML; few texts need the closer look.
    bad = None if text.replace("\n", "").isprintable() else UNPRINTABLE.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        raise ConfigError(f"has the control character U+{ord(bad[0]):04X}; remove it", name, line)
    return text


def parse_text(text: str, name: str, before: int = 0) -> Node:
    """Read one document.

    Args:
        text: YAML.
        name: the file's name in messages.
        before: lines that stand above ``text`` in the file.

    Raises:
        ConfigError: with the line at fault.
    """
    value, place = DocumentReader(text, name, before).read()
    return Node(value, name, place)


def merge_nodes(lower: Node, upper: Node) -> Node:
    """Lay one tree over another: maps merge key by key, anything else is replaced."""
    below, above = lower.data, upper.data
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return upper
    both = {
        key: merge_nodes(below[key], node) if key in below else node for key, node in above.items()
    }
    nodes = {**below, **both}
    value = {key: node.value for key, node in nodes.items()}
    return Node(value, upper.file, (upper.line, nodes))
