"""Agents and their skills, each a page with front matter.

``agents/<name>.md`` has tools, bounds and the system prompt; ``skills_catalog/<name>/SKILL.md`` is
in the Agent Skills format, with five fixed sections.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Literal

from msgspec import Meta, Struct, field, to_builtins
from msgspec.structs import asdict, replace

from orchestrator.catalog.data_file_layers import File
from orchestrator.catalog.model_config import DEFAULT_STAGE, ModelsConfig
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
    name_analyzers,
    read_sections,
    read_steps,
)
from orchestrator.catalog.yaml_validation import Markdown, describe_unknown_name, read_page
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.field_types import NonEmptyStr, PositiveFloat, PositiveInt, Strict
from orchestrator.engine.model_routing import HUMAN
from orchestrator.engine.types import AgentSpec, Bounds, Json, Skill, SkillRequirements, SkillScope
from orchestrator.errors import ConfigError


class Budget(Strict, frozen=True):
    """The most one agent may use in one task; None: only the run's bounds hold."""

    tool_calls: PositiveInt | None = None
    tokens: PositiveInt | None = None
    usd: PositiveFloat | None = None
    seconds: PositiveFloat | None = None


Topics = Mapping[str, Collection[str]]
"""Topic → the names of its analyzers."""

FileKind = Literal["code", "interface", "test", "docs", "ci", "other"]


class AgentMetadata(Strict, frozen=True):
    """The keys that only we have; other agent formats ignore them.

    Attributes:
        concerns: kinds of changed files that are its work; empty: all. ``interface`` is code of
            which a public name changes.
        contract: the name of the report's format.
        escalation: stages to try on failure, cheapest first.
    """

    budget: Budget = Budget()
    contract: str | None = None
    escalation: tuple[NonEmptyStr, ...] = ()
    concerns: tuple[FileKind, ...] = ()


class AgentFrontMatter(Strict, frozen=True):
    """An agent's front matter.

    Attributes:
        analyzers: topics, one or a list; it may call every analyzer of these.
        tools: what it may call besides, by name.
    """

    name: NonEmptyStr
    description: NonEmptyStr
    tools: tuple[str, ...]
    analyzers: str | tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = field(default=(), name="disallowedTools")
    model: NonEmptyStr = DEFAULT_STAGE
    max_turns: PositiveInt | None = field(default=None, name="maxTurns")
    skills: tuple[str, ...] = ()
    metadata: AgentMetadata = AgentMetadata()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of its analyzers."""
        return (self.analyzers,) if isinstance(self.analyzers, str) else self.analyzers

    def granted_tools(self, analyzers: Topics) -> tuple[str, ...]:
        """The tools it may call: those of its topics, then the others in the file's order."""
        own = (name for topic in self.topics for name in analyzers.get(topic, ()))
        names = dict.fromkeys((*own, *self.tools))
        return tuple(name for name in names if name not in self.disallowed_tools)

    @property
    def bounds(self) -> Bounds:
        """The limits; what the file leaves out is unbounded."""
        limits = {"turns": self.max_turns, **asdict(self.metadata.budget)}
        return Bounds(**{name: limit for name, limit in limits.items() if limit is not None})


class KnownNames(Struct, frozen=True):
    """The names that an agent's file may use.

    Attributes:
        skills: None for a skill whose own file has errors.
        contracts: name → JSON Schema.
        models: the escalation stages and providers; None when that file has errors.
    """

    tools: Collection[str]
    analyzers: Topics
    skills: Mapping[str, Skill | None]
    contracts: Mapping[str, Mapping[str, Json]]
    models: ModelsConfig | None


def load_agent(file: File, known: KnownNames, errors: list[ConfigError]) -> AgentSpec | None:
    """Read one agent; None when it has errors, which are added to ``errors``."""
    read = read_page(AgentFrontMatter, file.data, file.display_path, errors)
    if read is None:
        return None
    page, head = read
    found = [*_find_errors(file, page, head, known), *_check_skills(page, head, known)]
    # A repository's own list of stages may lack some that the shipped agents name.
    if known.models is not None and file.display_path != file.path:
        found += _check_stages(page, head, known.models)
    errors += found
    if found:
        return None
    tools = head.granted_tools(known.analyzers)
    own = _with_analyzers(
        [skill for name in head.skills if (skill := known.skills[name])], known, tools
    )
    contract = known.contracts[head.metadata.contract] if head.metadata.contract else None
    stages = known.models.stage_names if known.models else ()
    content = {
        "head": to_builtins(head),
        "prompt": page.body,
        "tools": tools,
        "skills": [skill.digest for skill in own],
        "contract": contract,
    }
    return AgentSpec(
        name=head.name,
        description=head.description,
        prompt=page.body,
        tools=tools,
        skills=own,
        model=head.model,
        bounds=head.bounds,
        contract=contract,
        escalation=tuple(stage for stage in head.metadata.escalation if stage in stages),
        digest=digest(content),
        concerns=head.metadata.concerns,
    )


def _with_analyzers(
    skills: Sequence[Skill], known: KnownNames, tools: Sequence[str]
) -> tuple[Skill, ...]:
    """The playbooks, with the names of analyzers where a step names their topic.

    These are the analyzers that the agent has and that no step of its playbooks names.
    """
    named = {name for skill in skills for name in iter_tool_names(skill.text)}
    rest = {
        topic: [name for name in tools if name in names and name not in named]
        for topic, names in known.analyzers.items()
    }
    texts = [name_analyzers(skill.text, rest) for skill in skills]
    return tuple(
        replace(skill, text=text, tools=frozenset(iter_tool_names(text)))
        for skill, text in zip(skills, texts, strict=True)
    )


def _find_errors(
    file: File, page: Markdown, head: AgentFrontMatter, known: KnownNames
) -> list[ConfigError]:
    found = []
    tools, contracts = known.tools, known.contracts
    if head.name != file.stem:
        message = f"the name {head.name!r} must be the file's name, {file.stem!r}"
        found.append(page.head.error(message, "name"))
    for key, names in (("tools", head.tools), ("disallowedTools", head.disallowed_tools)):
        found += [
            page.head.error(describe_unknown_name("tool", name, tools), key, at)
            for at, name in enumerate(names)
            if name not in tools
        ]
    found += [
        page.head.error(describe_unknown_name("topic", topic, known.analyzers), "analyzers")
        for topic in head.topics
        if topic not in known.analyzers
    ]
    for key, names in (("tools", head.tools), ("skills", head.skills), ("analyzers", head.topics)):
        found += [
            page.head.error(f"{name!r} appears twice in {key}; name it once", key, at)
            for at, name in enumerate(names)
            if name in names[:at]
        ]
    contract = head.metadata.contract
    if contract is not None and contract not in contracts:
        found.append(
            page.head.error(
                describe_unknown_name("contract", contract, contracts), "metadata", "contract"
            )
        )
    if not page.body:
        found.append(page.head.error("has no prompt; write it below the front matter"))
    return found


def _check_skills(page: Markdown, head: AgentFrontMatter, known: KnownNames) -> list[ConfigError]:
    """Errors for skills that do not exist, or that need tools the agent does not have."""
    found = []
    skills, granted = known.skills, {*head.granted_tools(known.analyzers)}
    for at, name in enumerate(head.skills):
        if name not in skills:
            found.append(
                page.head.error(describe_unknown_name("skill", name, skills), "skills", at)
            )
            continue
        called = set[str]()
        if skill := skills[name]:
            needs = (*skill.requires.evidence, *skill.requires.stop)
            called = {*iter_tool_names(skill.text), *(need.partition(":")[0] for need in needs)}
            called.discard(FILES_COVERED)
        topics = {name for name in called if granted.intersection(known.analyzers.get(name, ()))}
        missing = sorted(called - granted - topics)
        if missing:
            message = (
                f"the skill {name!r} calls {', '.join(missing)}, which this agent may not; "
                "add to tools, or drop the skill (a skill never widens its agent's tools)"
            )
            found.append(page.head.error(message, "skills", at))
    return found


def _check_stages(
    page: Markdown, head: AgentFrontMatter, models: ModelsConfig
) -> Iterator[ConfigError]:
    """Names that are no escalation stages, and stages out of order."""
    if problem := models.name_error(head.model):
        hint = "; name it last in metadata.escalation" if head.model == HUMAN else ""
        yield page.head.error(problem + hint, "model")
    stages = models.stage_names
    names = head.metadata.escalation
    for at, name in enumerate(names):
        place = ("metadata", "escalation", at)
        if name not in stages:
            yield page.head.error(describe_unknown_name("stage", name, stages), *place)
        elif any(b in stages and stages.index(b) >= stages.index(name) for b in names[:at]):
            allowed = ", ".join(stages)
            message = f"the stage {name!r} is out of order; allowed: each once, as in {allowed}"
            yield page.head.error(message, *place)


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
    reports = (each.get("properties", {}).get("findings", {}) for each in known.contracts.values())
    required: list[Collection[str]] = [
        {*tools, *(f"{tool}:{place}" for tool in tools for place in PLACES)},
        {*tools, FILES_COVERED},
        {field for each in reports for field in each.get("items", {}).get("properties", ())},
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
