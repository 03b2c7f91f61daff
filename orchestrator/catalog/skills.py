"""Skills (``skills_catalog/<name>/SKILL.md``): the Agent Skills format, five fixed sections."""

import re
from collections.abc import Collection
from typing import Annotated

from msgspec import Meta, field, to_builtins

from orchestrator.catalog.data_file_layers import File
from orchestrator.catalog.playbook_steps import SECTIONS, iter_tool_names, read_sections, read_steps
from orchestrator.catalog.yaml_validation import (
    Markdown,
    convert_node,
    describe_unknown_name,
    split_front_matter,
)
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.field_types import Strict
from orchestrator.engine.types import Skill
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


def load_skill(
    file: File, tools: Collection[str], topics: Collection[str], errors: list[ConfigError]
) -> Skill | None:
    """Read one skill; None when it has errors, which are added to ``errors``.

    Args:
        topics: what a step may name besides tools, for all analyzers of it.
    """
    try:
        page = split_front_matter(file.data, file.display_path)
    except ConfigError as error:
        errors.append(error)
        return None
    found: list[ConfigError] = []
    head = convert_node(SkillFrontMatter, page.head, found)
    if head is not None:
        found += _check_front_matter(file, page, head, tools)
    found += _check_body(page, {*tools, *topics})
    errors += found
    if head is None or found:
        return None
    content = {"head": to_builtins(head), "text": page.body}
    named = frozenset(iter_tool_names(page.body))
    return Skill(head.name, head.description, page.body, digest(content), named)


def _check_front_matter(
    file: File, page: Markdown, head: SkillFrontMatter, tools: Collection[str]
) -> list[ConfigError]:
    found = []
    if head.name != file.directory:
        message = f"the name {head.name!r} must be the directory's name, {file.directory!r}"
        found.append(page.head.error(message, "name"))
    found += [
        page.head.error(describe_unknown_name("tool", name, tools), "allowed-tools")
        for name in head.allowed_tools.split()
        if name not in tools
    ]
    return found


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
