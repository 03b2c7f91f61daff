"""Reading a playbook's steps: one text that a model reads as prose and code reads as a list."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

SECTIONS = ("When to use", "Steps", "Evidence required", "Stop when", "Output")

PLACES = ("sink", "source")
"""Where a finding is, and where what leads to it begins: its ``because_of``, if it has one."""
FILES_COVERED = "files-covered"
"""The condition in ``stop-when`` that each file of the agent's task was read."""
REQUIRED = {
    "evidence-required": "tool",
    "stop-when": "stop condition",
    "output-fields": "field",
    "finding-category": "category",
}
"""Key of the metadata that code checks → what its words name, as in ``SkillRequirements``."""

_HEADING = re.compile(r"^##[ \t]+(.+?)[ \t]*$")
_ITEM = re.compile(r"^\d+[.)][ \t]+(.*)$")
_TICKED = re.compile(r"`([a-z][a-z0-9_.-]*)`")


class PlaybookStep(Struct, frozen=True):
    """One step: the names in backticks in order, and its 1-based line in the body."""

    names: tuple[str, ...]
    line: int


def read_sections(body: str) -> dict[str, tuple[int, str]]:
    """Split a body at its ``##`` headings: title → (1-based line of the heading, text below it)."""
    found: dict[str, tuple[int, list[str]]] = {}
    current: list[str] = []
    for number, line in enumerate(body.splitlines(), 1):
        heading = _HEADING.match(line)
        if heading:
            current = []
            found[heading.group(1)] = (number, current)
        else:
            current.append(line)
    return {title: (number, "\n".join(lines)) for title, (number, lines) in found.items()}


def iter_tool_names(body: str) -> Iterator[str]:
    """The names of tools in the steps of a playbook, in order."""
    return (name for step in read_steps(body) for name in step.names)


def name_analyzers(body: str, topics: Mapping[str, Sequence[str]]) -> str:
    """The playbook with the names of analyzers in place of each topic that a step names."""

    def names(topic: re.Match[str]) -> str:
        found = topics.get(topic.group(1))
        if found is None:
            return topic.group()
        return ", ".join(f"`{name}`" for name in found) or "none"

    _, steps = read_sections(body).get("Steps", (0, ""))
    return body.replace(steps, _TICKED.sub(names, steps), 1) if steps else body


@lru_cache(maxsize=64)
def read_steps(body: str) -> tuple[PlaybookStep, ...]:
    """The steps of a playbook, in order; empty when it has no ``## Steps``."""
    start, text = read_sections(body).get("Steps", (0, ""))
    items: list[tuple[int, list[str]]] = []
    for offset, line in enumerate(text.splitlines(), 1):
        item = _ITEM.match(line)
        if item:
            items.append((start + offset, [item.group(1)]))
        elif items and line.strip():
            items[-1][1].append(line.strip())
    return tuple(
        PlaybookStep(tuple(dict.fromkeys(_TICKED.findall(" ".join(lines)))), line)
        for line, lines in items
    )
