"""Skills (``skills_catalog/<name>/SKILL.md``): the Agent Skills format, five fixed sections."""

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any

from msgspec import Meta, field, to_builtins

from orchestrator.catalog.agents import KnownNames
from orchestrator.catalog.data_file_layers import File
from orchestrator.catalog.playbook_steps import (
    CHECKED,
    FILES_COVERED,
    MAX_PACK,
    PACK_FOR,
    PLACES,
    REQUIRED,
    SCOPE,
    SECTIONS,
    iter_tool_names,
    read_sections,
    read_steps,
)
from orchestrator.catalog.yaml_validation import Markdown, describe_unknown_name, read_page
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.field_types import Strict
from orchestrator.engine.types import Skill, SkillRequirements, SkillScope
from orchestrator.errors import ConfigError

_NAME = r"^[a-z0-9]+(-[a-z0-9]+)*$"
_TICKED = re.compile(r"`([^`]*)`")


class SkillFrontMatter(Strict, frozen=True):
    """The six keys of the specification.

    ``allowed-tools`` grants nothing: the agent's file says which tools it may call.
    """

    name: Annotated[str, Meta(max_length=64, pattern=_NAME)]
    description: Annotated[str, Meta(min_length=1, max_length=1024)]
    license: str = ""
    compatibility: Annotated[str, Meta(max_length=500)] = ""
    metadata: dict[str, str] = field(default_factory=dict)
    allowed_tools: str = field(default="", name="allowed-tools")


def load_skill(file: File, known: KnownNames, errors: list[ConfigError]) -> Skill | None:
    """Read one skill; None when it has errors, which are added to ``errors``.

    A step may name tools, and a topic for all analyzers of it.
    """
    read = read_page(SkillFrontMatter, file.data, file.display_path, errors)
    if read is None:
        return None
    page, head = read
    found = _check_front_matter(file, page, head, known)
    names = {*known.tools, *known.analyzers}
    found += _check_pack(page, head) if PACK_FOR in head.metadata else _check_body(page, names)
    errors += found
    if found:
        return None
    content = {"head": to_builtins(head), "text": page.body}
    named = frozenset(iter_tool_names(page.body))
    lists = {key: tuple(text.split()) for key, text in head.metadata.items()}
    requires = SkillRequirements(*(lists.get(key, ()) for key in REQUIRED))
    scope = SkillScope(*(lists.get(key, ()) for key in SCOPE))
    text = page.body + _describe(requires)
    return Skill(head.name, head.description, text, digest(content), named, requires, scope)


def _describe(requires: SkillRequirements) -> str:
    """The requirements as a section that a model reads; empty if there are none."""
    opening = {"git_diff": "in the opening or "}  # its diffs count as those calls
    needs = [
        f"its {place} {opening.get(tool, '')}by {tool}" if place else f"a call of {tool}"
        for tool, _, place in (name.partition(":") for name in requires.evidence)
    ]
    needs += [f"the field {name}" for name in requires.output]
    of = f" of category {', '.join(requires.categories)}" if requires.categories else ""
    lines = [f"- Each finding{of} that no analyzer reports: {', '.join(needs)}."] if needs else []
    lines += [f"- Before you report: {', '.join(requires.stop)}."] if requires.stop else []
    return "\n".join(["", "", CHECKED, "", *lines]) if lines else ""


def _check_front_matter(
    file: File, page: Markdown, head: SkillFrontMatter, known: KnownNames
) -> list[ConfigError]:
    found, tools = [], known.tools
    if head.name != file.directory:
        message = f"the name {head.name!r} must be the directory's name, {file.directory!r}"
        found.append(page.head.error(message, "name"))
    required: list[Collection[str]] = [
        {*tools, *(f"{tool}:{place}" for tool in tools for place in PLACES)},
        {*tools, FILES_COVERED},
        _finding_fields(known.contracts),
        known.analyzers,
    ]
    lists = [
        ("tool", tools, head.allowed_tools, ["allowed-tools"]),
        ("topic", known.analyzers, head.metadata.get(PACK_FOR, ""), ["metadata", PACK_FOR]),
    ]
    for (key, kind), names in zip(REQUIRED.items(), required, strict=True):
        lists.append((kind, names, head.metadata.get(key, ""), ["metadata", key]))
    lists += [
        ("key", keys, key, ["metadata", key])
        for keys in [(*REQUIRED, *SCOPE)]
        for key in head.metadata.keys() - {*keys}
        if get_close_matches(key, keys, cutoff=0.75)
    ]
    found += [
        page.head.error(describe_unknown_name(kind, name, names), *place)
        for kind, names, text, place in lists
        for name in text.split()
        if name not in names
    ]
    return found


def _finding_fields(contracts: Mapping[str, Mapping[str, Any]]) -> Collection[str]:
    """The fields of a finding in a report, by the contracts."""
    lists = (one.get("properties", {}).get("findings", {}) for one in contracts.values())
    return {name for one in lists for name in one.get("items", {}).get("properties", ())}


def _check_pack(page: Markdown, head: SkillFrontMatter) -> Iterator[ConfigError]:
    """Errors of a knowledge pack: code chooses it, so it has no steps, and asks for no calls."""
    if len(page.body) > MAX_PACK:
        size = f"{len(page.body):,} characters; at most {MAX_PACK:,} are allowed"
        yield page.error(f"a knowledge pack must be short, and this one has {size}", 1)
    if "Steps" in (present := read_sections(page.body)):
        yield page.error("a knowledge pack has no '## Steps'; drop them", present["Steps"][0])
    if not all(head.metadata.get(key, "").split() for key in (PACK_FOR, "files")):
        message = f"a knowledge pack needs topics in {PACK_FOR!r} and patterns in 'files'"
        yield page.head.error(message, "metadata")
    for key in head.metadata.keys() & REQUIRED.keys():
        message = f"only a playbook has {key!r}, not a knowledge pack; drop it"
        yield page.head.error(message, "metadata", key)


def _check_body(page: Markdown, names: Collection[str]) -> list[ConfigError]:
    present = read_sections(page.body)
    found = [
        page.error(f"the section '## {title}' is missing; required: {', '.join(SECTIONS)}", 1)
        for title in SECTIONS
        if title not in present
    ]
    items = read_steps(page.body)
    if "Steps" in present and not items:
        message = "'## Steps' has no step; number the steps, as in '1. Call ...'"
        found.append(page.error(message, present["Steps"][0]))
    if items:
        start, text = present["Steps"]
        lines = enumerate(text.splitlines(), start + 1)
        found += [
            page.error(
                "a step may only put tools in backticks: "
                + describe_unknown_name("tool", name, names),
                number,
            )
            for number, line in lines
            if number >= items[0].line
            for name in _TICKED.findall(line)
            if name not in names
        ]
    return found
