"""YAML as a tree that remembers where each value stands.

A strict subset, so that what a person reads is what is loaded: one document, no tags, no duplicate
keys, no merge keys, and the scalars of YAML 1.2's core schema (``no`` and ``on`` are words, a date
is text).
"""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct

from orchestrator.catalog.yaml_events import UNPRINTABLE, Place, Reader, Scalar, line_of
from orchestrator.errors import ConfigError

MAX_BYTES = 1_000_000


class Node(Struct, frozen=True):
    """A value and its place. The nodes below it are made when somebody asks for them.

    Attributes:
        value: without places, in the JSON data model. Not to be altered: an alias is the very value
            that it names.
        file, place: where it stands.
    """

    value: Any
    file: str
    place: Place

    @property
    def line(self) -> int:
        """Where it stands; for a value in a map the line of its key. 1-based."""
        return line_of(self.place)

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
    # All that Python calls printable may stand in YAML; few texts need the closer look.
    bad = None if text.replace("\n", "").isprintable() else UNPRINTABLE.search(text)
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
    value, place = Reader(text, name, before).read()
    return Node(value, name, place)


def merge(lower: Node, upper: Node) -> Node:
    """Lay one tree over another: maps merge key by key, anything else is replaced."""
    below, above = lower.data, upper.data
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return upper
    both = {key: merge(below[key], node) if key in below else node for key, node in above.items()}
    nodes = {**below, **both}
    value = {key: node.value for key, node in nodes.items()}
    return Node(value, upper.file, (upper.line, nodes))
