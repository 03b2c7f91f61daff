"""Patterns of dangerous values by their place: ``data/infrastructure/<name>.yaml``.

A file holds:

    reads     kind of document that its patterns are for, a ``DocumentKind``
    agents    expressions for a part of a name or image: what works on the host itself
    patterns  see ``ValuePattern``
"""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache, cached_property
from typing import Any, Literal, get_args

from msgspec import Struct, convert

from diffchecks.check_io import RawFinding
from diffchecks.patterns.pattern_loading import read_definitions
from diffchecks.rules import RuleExample
from diffchecks.yaml_tree import TEMPLATED, TreeNode, TreePlace, walk

DocumentKind = Literal["kubernetes", "compose", "gitlab", "workflow", "cloudformation"]
_NAMED = 60  # maximum characters of a name or value in a message
_COMMANDS = ("command", "args", "run", "uses")
_DOT = re.compile(r"(?<!\\)\.")
_GLOB = re.compile(r"[*?\[]")


@cache
def _expression(text: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(text, flags)


class ValuePattern(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A pattern of one dangerous value.

    Attributes:
        code: its name in the rule table, ``infrastructure:<code>``.
        at: the last keys above the value, joined by dots (``\\.`` in a key), each a glob, of which
            the last is plain or ``*``; one of them must match. List items add no key.
        value: expression, in any case, that a whole scalar must match, or one item of a list.
        kinds, not_kinds: expression for the whole kind of the object: ``Deployment``,
            ``AWS::S3::Bucket``, ``service`` in Compose, ``values`` of a Helm chart.
        agents: true: only objects that work on the host itself; false: only other objects.
        command, not_command: expression for the whole command of the container or step, words
            joined by spaces; the command is empty if not specified.
        message: the defect, without the place; ``{value}`` is the value. Empty: what is found is no
            finding, and shows that one with the same rule and place in the document is not new.
        example: required for shipped patterns only.
    """

    code: str
    at: tuple[str, ...]
    value: str
    message: str
    agents: bool | None = None
    command: str = ".*"
    not_command: str = "(?!)"
    example: RuleExample | None = None
    kinds: str = ".*"
    not_kinds: str = "(?!)"

    @cached_property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The keys of ``at``, the innermost first."""
        parts = (reversed(_DOT.split(at)) for at in self.at)
        return tuple(tuple(key.replace("\\.", ".") for key in keys) for keys in parts)

    def is_for(self, found: "InfrastructureObject", *, agent: bool) -> bool:
        """Whether it applies to an object."""
        return (
            self.agents in {None, agent}
            and _expression(self.kinds).fullmatch(found.kind) is not None
            and _expression(self.not_kinds).fullmatch(found.kind) is None
        )

    def matches_command(self, command: str) -> bool:
        """Whether it applies in a container with a command."""
        return (
            _expression(self.command, re.DOTALL).fullmatch(command) is not None
            and _expression(self.not_command).fullmatch(command) is None
        )


class ValuePatternFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One file; the module's docstring describes the fields."""

    reads: DocumentKind
    patterns: tuple[ValuePattern, ...]
    agents: tuple[str, ...] = ()


class KindPatterns(Struct, frozen=True):
    """The patterns for one kind of document.

    Attributes:
        agents: matches names and images of objects that work on the host itself.
    """

    agents: tuple[re.Pattern[str], ...] = ()
    patterns: tuple[ValuePattern, ...] = ()


class InfrastructureObject(Struct, frozen=True):
    """One object that a document describes.

    Attributes:
        kind: as named in its language.
        root: its tree; ``above`` are the parent keys in its document.
        parts: names and images of its containers.
    """

    path: str
    kind: str
    name: str
    root: TreeNode
    above: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Its own name and those of its parts, without registry and version."""
        last = (part.rpartition("/")[2].partition(":")[0] for part in self.parts)
        return (self.name, *last)

    def finding(self, code: str, message: str, place: TreePlace, **more: Any) -> RawFinding:
        """A finding in it; the line is the key's, so that flow style gives the same line."""
        last = place.value.end_line if place.value.kind == "text" else place.key.end_line
        # The keys above an object name it, and a file with one object needs no name.
        name = self.name[:_NAMED].replace(TEMPLATED, "…")
        named = "" if self.above or self.kind.islower() else f"{self.kind} {name}".strip()
        where = ", ".join(filter(None, (cut_middle(named), cut_middle(place.shown))))
        return RawFinding(
            code,
            self.path,
            place.key.line,
            message and f"{message} ({where})",
            end_line=min(max(place.key.line, last), place.key.line + 2),
            column=place.key.column,
            key=f"{named} {place.shown}",
            **more,
        )


def cut_middle(text: str) -> str:
    """The text in one line, shortened for a message."""
    line = " ".join(text.split())
    return line if len(line) <= _NAMED else line[: _NAMED // 2] + "…" + line[-_NAMED // 2 :]


def read_patterns(data: Mapping[str, Any]) -> ValuePatternFile:
    """A file's content.

    Raises:
        ValueError: the structure or an expression is invalid.
    """
    found = convert(data, ValuePatternFile)
    try:
        for agent in found.agents:
            _compile_agent(agent)
    except re.error as error:
        raise ValueError(f"agents: {error}") from None
    for pattern in found.patterns:
        last = {at.rpartition(".")[2] for at in pattern.at}
        if any(map(_GLOB.search, last - {"*"})):
            raise ValueError(f"{pattern.code}: the last key in `at` must be plain, or `*`")
        try:
            for text in (pattern.kinds, pattern.not_kinds, pattern.command, pattern.not_command):
                _expression(text)
            _expression(pattern.value, re.IGNORECASE)
        except re.error as error:
            raise ValueError(f"{pattern.code}: {error}") from None
    return found


def _compile_agent(agent: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|[_.-])(?:{agent})(?:$|[_.\d-])", re.IGNORECASE)


@cache
def load_patterns(files: tuple[str, ...]) -> Mapping[str, KindPatterns]:
    """Load pattern files: kind of document → its patterns."""
    found = dict.fromkeys(get_args(DocumentKind), KindPatterns())
    for file in files:
        read = read_patterns(read_definitions(file))
        known = found[read.reads]
        found[read.reads] = KindPatterns(
            (*known.agents, *map(_compile_agent, read.agents)), (*known.patterns, *read.patterns)
        )
    return found


def match_values(known: KindPatterns, found: InfrastructureObject) -> Iterator[RawFinding]:
    """Find matches of the patterns of a kind of document in an object."""
    # Every DaemonSet may work on the host itself.
    agent = found.kind == "DaemonSet" or any(
        one.search(name) for name in found.names for one in known.agents
    )
    by_key: dict[str, list[ValuePattern]] = {}
    for pattern in known.patterns:
        if pattern.is_for(found, agent=agent):
            for last in dict.fromkeys(wanted[0] for wanted in pattern.keys):
                by_key.setdefault(last, []).append(pattern)
    anywhere = by_key.get("*", [])
    items: dict[int, TreeNode] = {}  # depth → the map in a list that was entered last
    for place in walk(found.root, found.above):
        if place.keys[-1].startswith("["):
            items[len(place.keys)] = place.value
            continue
        candidates = by_key.get(place.keys[-1], anywhere)
        if not candidates:
            continue
        keys = [key for key in reversed(place.keys) if not key.startswith("[")]
        command = _command(place, items)
        for pattern in dict.fromkeys((*candidates, *anywhere)):
            if pattern.matches_command(command) and any(
                len(keys) >= len(wanted) and all(map(fnmatchcase, keys, wanted))
                for wanted in pattern.keys
            ):
                yield from _matches(pattern, found, place)


def _command(place: TreePlace, items: Mapping[int, TreeNode]) -> str:
    """The command of the container or step that a value belongs to."""
    depths = (n for n in range(len(place.keys), 0, -1) if place.keys[n - 1].startswith("["))
    container = items.get(next(depths, 0))
    parts = [container.find(key) for key in _COMMANDS] if container is not None else []
    return " ".join(text.text for part in parts if part is not None for text in part.texts())


def _matches(
    pattern: ValuePattern, found: InfrastructureObject, place: TreePlace
) -> Iterator[RawFinding]:
    if place.value.kind == "map":
        return
    for value in place.value.texts():
        if _expression(pattern.value, re.IGNORECASE).fullmatch(value.text.strip()):
            item = place if value is place.value else TreePlace(place.keys, value, value)
            message = pattern.message.replace("{value}", cut_middle(value.text))
            yield found.finding(pattern.code, message, item)
