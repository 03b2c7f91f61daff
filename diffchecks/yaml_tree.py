"""YAML and JSON as trees of nodes with line numbers, the same for block and flow style.

The trees are built from the parser's events instead of by its composer: the C composer overflows
its stack on deep nesting, and aliases must be counted before their targets are walked.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import yaml
from msgspec import Struct, field

from diffchecks.check_io import Gap

MAX_DEPTH = 64
MAX_VALUES = 300_000
MAX_ALIASED = 20_000
"""The maximum number of values that all aliases may expand to."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TEMPLATED = "$TEMPLATED"
"""The marker for values that a template fills in."""

_MERGE = "<<"
_SHOWN = 80  # characters of a key
_CHOICES = frozenset(["Fn::If"])
_USUAL = frozenset(["spec", "template", "jobTemplate"])  # enclosing every Kubernetes pod


class TreeNode(Struct, eq=False):
    """A scalar, a list or a map.

    Attributes:
        kind: ``text`` is any scalar.
        tag: as written, such as ``!Ref``; empty where there is none.
        text: of a scalar, as the parser decodes it.
        block: ``|`` for a literal block scalar, whose lines follow ``line``; ``>`` for a folded
            one.
        line, end_line, column: 1-based; for a list or map, its start.
        items: of a list.
        pairs: of a map, in order, including duplicate keys.
        size, height: number of values and levels in it, with aliases expanded.
    """

    kind: Literal["text", "list", "map"]
    line: int
    end_line: int
    column: int
    tag: str = ""
    text: str = ""
    block: str = ""
    items: "list[TreeNode]" = field(default_factory=list)
    pairs: "list[tuple[TreeNode, TreeNode]]" = field(default_factory=list)
    size: int = 1
    height: int = 1

    def entries(self) -> "Iterator[tuple[TreeNode, TreeNode]]":
        """The pairs of a map, then those of merged maps with other keys."""
        yield from (pair for pair in self.pairs if pair[0].text != _MERGE)
        own = {key.text for key, _ in self.pairs}
        for key, value in self.pairs:
            if key.text == _MERGE:
                for merged in value.items or [value]:
                    yield from (pair for pair in merged.entries() if pair[0].text not in own)

    def find(self, *keys: str) -> "TreeNode | None":
        """Find the value under nested keys; None if a key is missing.

        The last of duplicate keys counts.
        """
        node: TreeNode | None = self
        for key in keys:
            found = [value for name, value in node.entries() if name.text == key] if node else []
            node = found[-1] if found else None
        return node

    def get_text(self, *keys: str) -> str:
        """The text of the scalar under nested keys; empty: none."""
        node = self.find(*keys)
        return node.text if node is not None and node.kind == "text" else ""

    @property
    def is_computed(self) -> bool:
        """Whether a tag such as ``!Ref`` or ``!If`` computes its value."""
        return self.tag.startswith("!")

    def texts(self) -> "list[TreeNode]":
        """The scalars in it: itself, or those of its list and nested lists."""
        if self.is_computed:
            return []
        if self.kind == "text":
            return [self]
        return [text for item in self.items for text in item.texts()]


def parse_documents(text: str) -> list[TreeNode]:
    """Parse the documents of a file.

    Raises:
        yaml.YAMLError: it is not YAML.
        Gap: it is nested too deeply, or too large with its aliases expanded.
    """
    builder = _Builder()
    decodable = text.removeprefix("\ufeff").encode("utf-8", "replace").decode()
    for event in yaml.parse(decodable, Loader=_LOADER):
        builder.take(event)
    return builder.documents


class _Builder:
    """Builds trees from events, without recursion."""

    def __init__(self) -> None:
        self.documents: list[TreeNode] = []
        self._open: list[tuple[TreeNode, str | None]] = []
        self._key: list[TreeNode | None] = []  # for each open map: the key without a value so far
        self._anchors: dict[str, TreeNode] = {}
        self._read = self._aliased = 0

    def take(self, event: Any) -> None:
        """Take the next event."""
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self._add(_scalar(event), event.anchor)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            self._begin(event)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            node, anchor = self._open.pop()
            self._key.pop()
            self._add(node, anchor)
        elif kind is yaml.AliasEvent:
            self._add_alias(event)
        elif kind is yaml.DocumentStartEvent:
            self._anchors = {}

    def _begin(self, event: Any) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise Gap(f"nested deeper than {MAX_DEPTH} levels")
        kind: Literal["map", "list"] = "map" if type(event) is yaml.MappingStartEvent else "list"
        start = event.start_mark
        node = TreeNode(kind, start.line + 1, start.line + 1, start.column + 1, event.tag or "")
        self._open.append((node, event.anchor))
        self._key.append(None)

    def _add_alias(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if any(anchor == event.anchor for _, anchor in self._open):
            raise Gap(f"line {line}: an alias refers to its own container")
        known = self._anchors.get(event.anchor)
        if known is None:
            raise Gap(f"line {line}: an alias refers to nothing")
        self._aliased += known.size
        if self._aliased > MAX_ALIASED:
            raise Gap(f"its aliases expand to more than {MAX_ALIASED} values")
        if len(self._open) + known.height > MAX_DEPTH:
            raise Gap(f"nested deeper than {MAX_DEPTH} levels")
        self._place(known)

    def _add(self, node: TreeNode, anchor: str | None) -> None:
        self._read += 1
        if self._read > MAX_VALUES:
            raise Gap(f"more than {MAX_VALUES} values")
        if anchor:
            self._anchors[anchor] = node
        self._place(node)

    def _place(self, node: TreeNode) -> None:
        if not self._open:
            self.documents.append(node)
            return
        parent = self._open[-1][0]
        parent.size += node.size
        parent.height = max(parent.height, node.height + 1)
        if parent.kind == "list":
            parent.items.append(node)
            return
        key = self._key[-1]
        if key is None:
            self._key[-1] = node
        else:
            parent.pairs.append((key, node))
            self._key[-1] = None


def _scalar(event: Any) -> TreeNode:
    start, end = event.start_mark, event.end_mark
    # A block scalar ends at the start of the next line.
    end_line = end.line if end.column == 0 and end.line > start.line else end.line + 1
    return TreeNode(
        "text",
        start.line + 1,
        end_line,
        start.column + 1,
        event.tag or "",
        event.value,
        block=event.style if event.style in {"|", ">"} else "",
    )


class TreePlace(Struct, frozen=True):
    """A value in a tree, and its place.

    Attributes:
        keys: the enclosing keys, outermost first; ``[]`` or ``[name]`` for a list item.
        key: the node of the last key; for a list item, the item itself.
    """

    keys: tuple[str, ...]
    key: TreeNode
    value: TreeNode

    @property
    def shown(self) -> str:
        """The keys in readable form: ``containers[app].image``, without those of templates."""
        first = next((n for n, key in enumerate(self.keys) if key not in _USUAL), 0)
        return ".".join(key[:_SHOWN] for key in self.keys[first:]).replace(".[", "[")


def walk(root: TreeNode, above: Sequence[str] = ()) -> Iterator[TreePlace]:
    """All values below a node, in the order of the file."""
    stack: list[Iterator[TreePlace]] = [_children(root, tuple(above))]
    while stack:
        place = next(stack[-1], None)
        if place is None:
            stack.pop()
            continue
        yield place
        if place.value.kind != "text":
            stack.append(_children(place.value, place.keys))


def _children(node: TreeNode, above: tuple[str, ...]) -> Iterator[TreePlace]:
    """The children of a node, without the alternatives of a template's condition."""
    if node.is_computed or (above and above[-1] in _CHOICES):
        return
    if node.kind == "list":
        for item in node.items:
            name = item.get_text("name") if item.kind == "map" else ""
            yield TreePlace((*above, f"[{name[:_SHOWN]}]"), item, item)
    elif node.kind == "map":
        for key, value in node.entries():
            yield TreePlace((*above, key.text), key, value)
