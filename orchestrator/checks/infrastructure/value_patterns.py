"""Dangerous values by their place: ``config/infrastructure/<name>.yaml``.

A file holds:

    reads     kind of document that its patterns are for, one of ``KINDS``
    patterns  see ``ValuePattern``
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from msgspec import Struct, convert

from orchestrator.checks.check_io import RawFinding
from orchestrator.checks.patterns.pattern_loading import read_definitions
from orchestrator.checks.yaml_tree import TEMPLATED, Node, Place, walk

KINDS = ("kubernetes", "compose", "gitlab", "workflow", "cloudformation")
_NAMED = 60  # characters of a name or value that a message repeats
_BLANK = re.compile(r"\s+")


class Example(Struct, frozen=True, forbid_unknown_fields=True):
    """Files that show a pattern, and that differ by one thing."""

    bad: str
    good: str


class ValuePattern(Struct, frozen=True, forbid_unknown_fields=True):
    """One dangerous value.

    Attributes:
        code: its name in the rule table, ``infrastructure:<code>``.
        at: the last keys above the value, joined by dots, each a glob; one of them must match.
            Items of lists add no key.
        value: expression, in any case, that a whole scalar must match, or one item of a list.
        kinds, not_kinds: expression for the whole kind of the object: ``Deployment``,
            ``AWS::S3::Bucket``, ``service`` in Compose, ``values`` of a Helm chart.
        message: what is wrong, without the place; ``{value}`` is the value.
        example: of each shipped pattern; a repository's own need none.
    """

    code: str
    at: tuple[str, ...]
    value: str
    message: str
    example: Example | None = None
    kinds: str = ".*"
    not_kinds: str = "(?!)"


class _Compiled(Struct, frozen=True):
    code: str
    message: str
    keys: tuple[tuple[str, ...], ...]
    value: re.Pattern[str]
    kinds: re.Pattern[str]
    not_kinds: re.Pattern[str]


class InfrastructureObject(Struct, frozen=True):
    """One object that a document describes.

    Attributes:
        kind: as its language names it.
        root: its tree; ``above`` are the keys above it in its document.
        document: the whole document.
    """

    kind: str
    name: str
    root: Node
    document: Node
    above: tuple[str, ...] = ()

    def finding(self, code: str, path: str, message: str, place: Place, **more: Any) -> RawFinding:
        """A finding at a place of it; the line is the key's, so that flow style has the same."""
        last = place.value.end_line if place.value.kind == "text" else place.key.end_line
        # Where objects have keys above them, the keys name the object.
        name = self.name.replace(TEMPLATED, "…")
        named = "" if self.above else f"{self.kind} {name}".strip()
        where = ", ".join(filter(None, (shorten(named), shorten(place.shown))))
        return RawFinding(
            code,
            path,
            place.key.line,
            f"{message} ({where})",
            end_line=min(max(place.key.line, last), place.key.line + 2),
            column=place.key.column,
            key=f"{named} {place.shown}",
            **more,
        )


def shorten(text: str) -> str:
    """In one line, and not longer than a message bears."""
    line = _BLANK.sub(" ", text).strip()
    return line if len(line) <= _NAMED else line[: _NAMED // 2] + "…" + line[-_NAMED // 2 :]


def read_patterns(data: Mapping[str, Any]) -> tuple[str, tuple[ValuePattern, ...]]:
    """The kind of document and the patterns of a file's content.

    Raises:
        ValueError: the content has another shape, or an expression is invalid.
    """
    if set(data) != {"reads", "patterns"} or data["reads"] not in KINDS:
        raise ValueError(f"it needs `patterns`, and `reads` with one of {', '.join(KINDS)}")
    found = convert(data["patterns"], tuple[ValuePattern, ...])
    for pattern in found:
        try:
            _compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern.code}: {error}") from None
    return str(data["reads"]), found


def _compile(pattern: ValuePattern) -> _Compiled:
    return _Compiled(
        pattern.code,
        pattern.message,
        tuple(tuple(reversed(at.split("."))) for at in pattern.at),
        re.compile(pattern.value, re.IGNORECASE),
        re.compile(pattern.kinds),
        re.compile(pattern.not_kinds),
    )


@cache
def load_patterns(files: tuple[str, ...]) -> Mapping[str, Sequence[_Compiled]]:
    """Kind of document → its patterns, of some files."""
    found: dict[str, list[_Compiled]] = {kind: [] for kind in KINDS}
    for file in files:
        kind, patterns = read_patterns(read_definitions(file))
        found[kind] += map(_compile, patterns)
    return found


def match_values(
    patterns: Sequence[_Compiled], found: InfrastructureObject, path: str
) -> Iterator[RawFinding]:
    """What the patterns of a kind of document find in an object."""
    usable = [
        pattern
        for pattern in patterns
        if pattern.kinds.fullmatch(found.kind) and not pattern.not_kinds.fullmatch(found.kind)
    ]
    for place in walk(found.root, found.above):
        if place.keys[-1].startswith("["):
            continue
        keys = [key for key in reversed(place.keys) if not key.startswith("[")]
        for pattern in usable:
            if any(_ends(keys, wanted) for wanted in pattern.keys):
                yield from _matches(pattern, found, path, place)


def _ends(keys: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether keys, the innermost first, begin with the wanted ones."""
    return len(keys) >= len(wanted) and all(map(fnmatchcase, keys, wanted))


def _matches(
    pattern: _Compiled, found: InfrastructureObject, path: str, place: Place
) -> Iterator[RawFinding]:
    if place.value.kind == "map":
        return
    for value in place.value.texts():
        if pattern.value.fullmatch(value.text.strip()):
            item = place if value is place.value else Place(place.keys, value, value)
            message = pattern.message.replace("{value}", shorten(value.text))
            yield found.finding(pattern.code, path, message, item)
