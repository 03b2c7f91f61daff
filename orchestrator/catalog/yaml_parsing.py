"""YAML documents as trees that know the line of each value.

A strict subset, so that what a person reads is what is loaded: one document, no tags, no duplicate
keys, no merge keys, and the scalars of YAML 1.2's core schema (``no`` and ``on`` are text, and so
is a date).

The tree is built from the parser's events and not by its composer: the C composer overflows its
stack on deep nesting, and aliases must be counted before they are expanded.
"""

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, cast

import yaml
from msgspec import Struct

from orchestrator.errors import ConfigError

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_VALUES = 50_000
LARGE = 10
"""Times as much is allowed in a file that a person named, such as an imported rubric."""
_MAX_DIGITS = 18

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONSTANTS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NON_TEXT_STARTS = frozenset(["", *"~nNtTfF+-.0123456789"])
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_TOO_DEEP = f"is nested too deeply; allowed: {MAX_DEPTH} levels"

Scalar = str | int | float | bool | None

# A line; for a list or map also the positions of its items, under the same keys. In a merged map
# these are nodes, since they come from several files.
Position = int | tuple[int, Any]


def line_number(position: Position) -> int:
    """The 1-based line of a position."""
    return position if isinstance(position, int) else position[0]


class _Anchor(Struct, frozen=True):
    """A value with an anchor, which aliases refer to.

    Attributes:
        size: number of values in it, itself included; it counts again for each alias.
        depth: levels of nesting, 1 for a scalar.
    """

    value: Any
    position: Position
    size: int
    depth: int


class DocumentReader:
    """Reads one document by recursive descent over the parser's events.

    Args:
        text: YAML.
        name: the file's name in messages.
        before: number of lines above ``text`` in the file.
        values: the largest number of values in a collection.
    """

    def __init__(self, text: str, name: str, before: int, values: int = MAX_VALUES) -> None:
        self._next: Callable[[], Any] = _LOADER(text).get_event
        self._name, self._before, self._values = name, before, values
        self._anchors: dict[str, _Anchor] = {}
        self._size = 0  # values read so far
        self._deepest = 0  # the deepest level reached in the collection that is open

    def read(self) -> tuple[Any, Position]:
        """Read the document: its value and position.

        Raises:
            ConfigError: it is not YAML, not a single document, or outside our subset; with the line
                of the error.
        """
        try:
            return self._read_document()
        except yaml.MarkedYAMLError as error:
            raise self._syntax_error(error) from None

    def _read_document(self) -> tuple[Any, Position]:
        self._next()  # the stream begins
        if type(self._next()) is yaml.StreamEndEvent:
            raise self._error("is empty; fill it or delete it", self._before)
        event = self._next()
        value, position = self._read_value(event, 0, self._line(event))
        self._next()  # the document ends
        event = self._next()
        if type(event) is yaml.DocumentStartEvent:
            raise self._error("contains a second document; allowed: one per file", event)
        return value, position

    def _syntax_error(self, error: yaml.MarkedYAMLError) -> ConfigError:
        """The parser's error in one line."""
        mark = error.problem_mark or error.context_mark
        message = f"is not valid YAML: {error.problem or error.context}"
        if error.problem and error.context:
            message += f" {error.context}"
            if error.context_mark and mark and error.context_mark.line != mark.line:
                message += f" that begins on line {error.context_mark.line + 1 + self._before}"
        return self._error(message, mark.line + 1 + self._before if mark else 0)

    def _error(self, message: str, where: Any) -> ConfigError:
        """An error on a line, or on the line of an event."""
        line = where if isinstance(where, int) else self._line(where)
        return ConfigError(message, self._name, line)

    def _line(self, event: Any) -> int:
        line: int = event.start_mark.line
        return line + 1 + self._before

    def _read_value(self, event: Any, level: int, line: int) -> tuple[Any, Position]:
        """Read a value and its position.

        Args:
            line: the line that errors name; for a value in a map that of its key.
        """
        if level >= MAX_DEPTH:
            raise self._error(_TOO_DEEP, line)
        if type(event) is yaml.AliasEvent:
            return self._read_alias(event, level, line)
        if type(event) is not yaml.ScalarEvent:
            return self._read_collection(event, level, line)
        self._size += 1
        text = self._scalar_text(event)
        plain = event.implicit[0] and text[:1] in _NON_TEXT_STARTS
        value = self._parse_scalar(text, event) if plain else text
        if event.anchor:
            self._anchors[event.anchor] = _Anchor(value, line, 1, 1)
        return value, line

    def _read_collection(self, event: Any, level: int, line: int) -> tuple[Any, Position]:
        """Read a list or map and its position; arguments as of ``_read_value``."""
        self._refuse_tag(event)
        before, outside = self._size, self._deepest
        self._size, self._deepest = before + 1, level + 1
        read = self._read_map if type(event) is yaml.MappingStartEvent else self._read_list
        value, positions = read(level + 1)
        size, deepest = self._size - before, max(self._deepest, level + 1 + bool(value))
        self._deepest = max(outside, deepest)
        if size > self._values:
            raise self._error(f"contains too many values; allowed: {self._values:,}", line)
        if event.anchor:
            self._anchors[event.anchor] = _Anchor(value, (line, positions), size, deepest - level)
        return value, (line, positions)

    def _read_list(self, level: int) -> tuple[list[Any], list[Position]]:
        values: list[Any] = []
        positions: list[Position] = []
        while type(event := self._next()) is not yaml.SequenceEndEvent:
            value, position = self._read_value(event, level, self._line(event))
            values.append(value)
            positions.append(position)
        return values, positions

    def _read_map(self, level: int) -> tuple[dict[str, Any], dict[str, Position]]:
        values: dict[str, Any] = {}
        positions: dict[str, Position] = {}
        while type(event := self._next()) is not yaml.MappingEndEvent:
            key, line = self._read_key(event), self._line(event)
            if key in values:
                first = line_number(positions[key])
                raise self._error(f"the key {key!r} appears twice, first on line {first}", line)
            values[key], positions[key] = self._read_value(self._next(), level, line)
        return values, positions

    def _read_key(self, event: Any) -> str:
        if type(event) is yaml.ScalarEvent:
            return self._scalar_text(event)
        if type(event) is yaml.AliasEvent:
            self._find_anchor(event)
            raise self._error("a key must be text; an alias cannot be a key", event)
        self._refuse_tag(event)
        raise self._error("a key must be text; lists and maps cannot be keys", event)

    def _read_alias(self, event: Any, level: int, line: int) -> tuple[Any, Position]:
        anchor = self._find_anchor(event)
        if level + anchor.depth > MAX_DEPTH:
            raise self._error(_TOO_DEEP, line)
        self._size += anchor.size
        self._deepest = max(self._deepest, level + anchor.depth)
        return anchor.value, line if isinstance(anchor.position, int) else (
            line,
            anchor.position[1],
        )

    def _find_anchor(self, event: Any) -> _Anchor:
        if event.anchor not in self._anchors:
            raise self._error(f"the alias *{event.anchor} has no anchor above it", event)
        return self._anchors[event.anchor]

    def _refuse_tag(self, event: Any) -> None:
        if event.tag not in {None, "!"}:
            message = f"the tag {event.tag!r} is not supported; write the plain value"
            raise self._error(message, event)

    def _scalar_text(self, event: Any) -> str:
        if event.tag:
            self._refuse_tag(event)
        text: str = event.value
        # Only an escape, which needs double quotes, gets such a character past ``decode_text``.
        bad = UNPRINTABLE.search(text) if event.style == '"' else None
        if bad:
            raise self._error(f"has the character U+{ord(bad[0]):04X}; remove it", event)
        return text

    def _parse_scalar(self, text: str, event: Any) -> Scalar:
        """A plain scalar by YAML 1.2's core schema, without octal, hex, inf and nan."""
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _INT.fullmatch(text):
            if len(text) > _MAX_DIGITS:
                raise self._error(f"a number of more than {_MAX_DIGITS} digits; quote text", event)
            return int(text)
        if _FLOAT.fullmatch(text):
            number = float(text)
            if not math.isfinite(number):
                raise self._error("a number that is too large; quote it if it is text", event)
            return number
        return text


class YamlNode(Struct, frozen=True):
    """A value and its position. The nodes below it are created on access.

    Attributes:
        value: in the JSON data model. Do not modify it: an alias shares the value of its anchor.
        file, position: where it is.
    """

    value: Any
    file: str
    position: Position

    @property
    def line(self) -> int:
        """The 1-based line; for a value in a map that of its key."""
        return line_number(self.position)

    @property
    def data(self) -> "Scalar | list[YamlNode] | dict[str, YamlNode]":
        """A scalar, or the nodes below."""
        if isinstance(self.value, dict):
            return {key: self._child(key) for key in self.value}
        if isinstance(self.value, list):
            return [self._child(index) for index in range(len(self.value))]
        return cast("Scalar", self.value)

    def at(self, *path: str | int) -> "YamlNode":
        """The node at a path of keys and indices, or the nearest one above it that exists."""
        node = self
        for part in path:
            if isinstance(node.value, dict) and str(part) in node.value:
                node = node._child(str(part))
            elif isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
                node = node._child(part)
            else:
                return node
        return node

    def _child(self, part: str | int) -> "YamlNode":
        assert isinstance(self.position, tuple)
        position = self.position[1][part]
        return (
            position
            if isinstance(position, YamlNode)
            else YamlNode(self.value[part], self.file, position)
        )

    def error(self, message: str, *path: str | int) -> ConfigError:
        """An error at this node, or at the one that a path leads to."""
        node = self.at(*path)
        return ConfigError(message, node.file, node.line)


def decode_text(data: bytes, name: str, large: bool = False) -> str:
    """Decode a file's text; line ends become ``\\n``.

    Raises:
        ConfigError: empty, over 1 MB (10 MB if ``large``), not UTF-8, or with control characters.
    """
    most = MAX_BYTES * (LARGE if large else 1)
    if len(data) > most:
        raise ConfigError(f"is {len(data):,} bytes; allowed: up to {most:,}", name)
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
    # YAML allows everything that Python calls printable, so few texts need the regex.
    bad = None if text.replace("\n", "").isprintable() else UNPRINTABLE.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        raise ConfigError(f"has the control character U+{ord(bad[0]):04X}; remove it", name, line)
    return text


@lru_cache(maxsize=64)
def parse_text(text: str, name: str, before: int = 0, large: bool = False) -> YamlNode:
    """Read one document. Who asks for the same again shares it: nobody changes a tree.

    Args:
        before: number of lines above ``text`` in the file.
        large: ten times as many values are allowed.

    Raises:
        ConfigError: with the line of the error.
    """
    values = MAX_VALUES * (LARGE if large else 1)
    value, position = DocumentReader(text, name, before, values).read()
    return YamlNode(value, name, position)


def merge_nodes(lower: YamlNode, upper: YamlNode) -> YamlNode:
    """Merge two trees: maps merge key by key, anything else is replaced by the upper one."""
    below, above = lower.data, upper.data
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return upper
    both = {
        key: merge_nodes(below[key], node) if key in below else node for key, node in above.items()
    }
    nodes = {**below, **both}
    value = {key: node.value for key, node in nodes.items()}
    return YamlNode(value, upper.file, (upper.line, nodes))
