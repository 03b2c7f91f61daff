"""Reading a playbook's steps: one text that a model reads as prose and code reads as a list."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

SECTIONS = ("When to use", "Steps", "Evidence required", "Stop when", "Output")

PLACES = ("sink", "source")
"""Where a finding is, and where what leads to it begins: its ``because_of``, if it has one."""
FILES_COVERED = "files-covered"
"""The condition in ``stop-when`` that each file of the agent's task was read."""
REQUIRED = {
    "evidence-required": "tool", "stop-when": "stop condition",
    "output-fields": "field", "finding-category": "category",
}  # fmt: skip
"""Key of the metadata that code checks → what its words name, as in ``SkillRequirements``."""
PACK_FOR = "pack-for"
SCOPE = ("files", "words", PACK_FOR)
"""Keys of the metadata that say for which changed files a skill is, as in ``SkillScope``."""
MAX_PACK = 6_000
"""Characters of a knowledge pack, about 1,500 tokens."""

CHECKED = "## Checked by code"
"""The heading below which a model reads what code checks."""

_HEADING = re.compile(r"^##[ \t]+(.+?)[ \t]*$")
_ITEM = re.compile(r"^\d+[.)][ \t]+(.*)$")
_TICKED = re.compile(r"`([a-z][a-z0-9_.-]*)`")
_TITLE = re.compile(r"#[ \t].*\n+")
_BLOCKS = re.compile(r"\n(?=[ \t]*\n|#|- |\d+[.)] )")
_COMPOUND = re.compile(r"[a-z][a-z0-9]*(?:_+[a-z0-9]+)+")
_ASIDE = re.compile(r"\s*\(([^()]*)\)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\W*[A-Z])")


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


def keep_judgment(body: str, offered: Collection[str], known: Collection[str]) -> str:
    """A playbook as a model reads it: what to judge, and nothing of tools that it is not offered.

    Args:
        offered: the tools that the model may call. A step that names another one is for code.
        known: the names of all tools.
    """
    kept: list[str] = []
    heading, number = "", 0
    for block in _BLOCKS.split(_TITLE.sub("", body, count=1)):
        if title := _HEADING.match(block):
            heading = title.group(1)
        step = _ITEM.match(block.partition("\n")[0]) if heading == "Steps" else None
        if step is None:
            kept.append(block)
        elif set(_TICKED.findall(block)).issubset(offered):
            number += 1
            kept.append(f"{number}. {block[step.start(1) :]}")
    title_of_steps = "## What to judge\n" if number else ""
    text = re.sub(r"(?m)^## Steps[ \t]*\n" + r"\n*" * (not number), title_of_steps, "\n".join(kept))
    return drop_mentions(text, set(known).difference(offered)).strip()


def drop_mentions(text: str, tools: Collection[str]) -> str:
    """A text without the asides and sentences that name one of these tools.

    Of a tool whose name is an English word (``search``) only a name in backticks is one.
    """
    blocks = [(block, _without_mentions(block, set(tools))) for block in _BLOCKS.split(text)]
    return "\n".join(kept for block, kept in blocks if kept or not block)


def _without_mentions(block: str, tools: set[str]) -> str:
    """A paragraph or list item; empty if nothing is left of it."""

    def names_one(part: str) -> bool:
        return not tools.isdisjoint((*_TICKED.findall(part), *_COMPOUND.findall(part)))

    def kept_aside(aside: re.Match[str]) -> str:
        if not _COMPOUND.search(aside[1]):
            return aside[0]
        parts = aside[1].split(", ")
        kept = [part for part in parts if not (part in tools or names_one(part))]
        return aside[0] if kept == parts else f" ({', '.join(kept)})" if kept else ""

    text = _ASIDE.sub(kept_aside, block)
    if not names_one(text):
        return text
    *marker, rest = re.split(r"^(- |\d+[.)] )", text, maxsplit=1)
    kept = " ".join(part for part in _SENTENCE_END.split(rest) if not names_one(part))
    return "".join([*marker, kept]) if kept else ""
