"""The engine's data types: messages, tools, calls, results, agents, budgets, rubrics."""

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cached_property
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from orchestrator.engine.field_types import (
    NonEmptyStr,
    PositiveInt,
    Strict,
    UnitFloat,
    check_amounts,
)

Json = Any
"""A value of the JSON data model: None, bool, int, float, str, list, or dict with str keys."""

Role = Literal["user", "assistant"]
StopKind = Literal["end", "tool_use", "max_tokens", "refused", "filtered", "paused"]

RubricId = Annotated[
    str, Meta(min_length=1, max_length=64, pattern=r"^[a-z0-9]+([-_.][a-z0-9]+)*$")
]
"""Of a rubric, a criterion or a group."""


class Level(IntEnum):
    """What a tool can do to the world; a higher level can do more harm."""

    READ = 0
    WRITE = 1
    ADMIN = 2
    IRREVERSIBLE = 3


class Text(Struct, frozen=True, tag="text"):
    """Text of a message."""

    text: str


class ToolCall(Struct, frozen=True, tag="tool_call"):
    """A model's request to call a tool; it implies no permission."""

    id: str
    name: str
    arguments: Mapping[str, Json]


class Refusal(Struct, frozen=True):
    """Why the executor did not perform a call.

    Attributes:
        code: the error's, such as ``guard_refused``; stable.
        guard: which guard refused; empty for any other reason.
    """

    code: str
    reason: str
    guard: str = ""

    def __str__(self) -> str:
        return f"{self.guard}: {self.reason}" if self.guard else self.reason


class ToolResult(Struct, frozen=True, tag="tool_result"):
    """The result of a tool call.

    Attributes:
        call_id: the call's id as the model gave it.
        content: what the model sees, already bounded, redacted and marked as untrusted.
        ref: the journal's key of the call; stable, and what a report cites.
        data: the same result for the application's code; a model never sees it.
        code: why it is not ok (``guard_refused``, ``timeout``, ...); empty if it is.
        refusal: why the tool was not run; None if it was.
    """

    call_id: str
    content: str
    ok: bool = True
    ref: str = ""
    data: Json = None
    code: str = ""
    refusal: Refusal | None = None


class Opaque(Struct, frozen=True, tag="opaque"):
    """A provider's block that is sent back unchanged and never interpreted."""

    provider: str
    payload: Json


Block = Text | ToolCall | ToolResult | Opaque


class Message(Struct, frozen=True):
    """One turn of a conversation."""

    role: Role
    blocks: tuple[Block, ...]


class PromptSection(Struct, frozen=True):
    """A named part of the system prompt; stable parts come first so that a prefix can be cached."""

    kind: Literal["role", "skill", "strategy", "rules"]
    name: str
    text: str

    @property
    def shown(self) -> str:
        """The text as a model is sent it, that of a skill below its name."""
        return f"# Skill: {self.name}\n\n{self.text}" if self.kind == "skill" else self.text


class LoggedCall(Struct, frozen=True):
    """A tool call as the hooks of its tool see it, without our secrets.

    Attributes:
        ref: the journal's key of the call.
        code: ``ok``, or why it failed; empty before it has ended.
        seconds: how long it took; 0 before it has ended.
    """

    ref: str
    agent: str
    tool: str
    arguments: Mapping[str, Json]
    code: str = ""
    seconds: float = 0.0


LogHook = Callable[[LoggedCall], None]


class ToolSpec(Struct, frozen=True):
    """The description of a tool.

    Attributes:
        schema: JSON Schema of the arguments, an object schema with ``additionalProperties: false``.
        output_schema: JSON Schema of the data that it returns; data that does not fit is a failure.
        before, after: called when the tool begins and when it has ended, to log the call; not for
            refused or replayed calls.
        timeout: seconds.
        max_output: characters of content that reach a model; the rest is replaced by a note.
        usd: the most that one call can cost.
    """

    name: str
    description: str
    schema: Mapping[str, Json]
    level: Level = Level.READ
    tags: frozenset[str] = frozenset()
    timeout: float = 60.0
    max_output: int = 20_000
    usd: float = 0.0
    output_schema: Mapping[str, Json] | None = None
    before: LogHook | None = None
    after: LogHook | None = None

    def __post_init__(self) -> None:
        check_amounts(self, "timeout", "max_output", "usd")


class Observation(Struct, frozen=True):
    """What a tool returns: ``content`` for a model, ``data`` for the application's code."""

    content: str
    data: Json = None
    ok: bool = True


class Usage(Struct, frozen=True, omit_defaults=True):
    """What one model call used. Tokens are counts, money is US dollars.

    Attributes:
        saved_usd: what the provider's cache saved, less what writing to it cost.
        estimated: the server reported no usage, so this is the worst case.
        undercounted: the server reported less than was certainly sent or received, so this is
            that minimum.
        above_limit: the server reported more output than the request allowed; it is booked.
        lost: earlier attempts without a reply, which may have been billed as well.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    usd: float = 0.0
    saved_usd: float = 0.0
    estimated: bool = False
    undercounted: bool = False
    above_limit: bool = False
    lost: int = 0

    @property
    def tokens(self) -> int:
        """All tokens that count against a budget."""
        return self.input_tokens + self.output_tokens


class Request(Struct, frozen=True):
    """One call of a model, vendor-neutral.

    Attributes:
        agent: which agent asks; for traces.
        output_schema: JSON Schema of the final report, None for free text.
        max_tokens: limit of the answer; the reservation is this and the counted input.
        nonce: marks untrusted text in this run; its authors cannot know it.
    """

    agent: str
    model: str
    system: tuple[PromptSection, ...]
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    output_schema: Mapping[str, Json] | None = None
    max_tokens: int = 4096
    effort: str | None = None
    nonce: str = ""


class Response(Struct, frozen=True, omit_defaults=True):
    """A model's answer, parsed into blocks.

    Attributes:
        id: the provider's name of the answer, for its support.
        server: the host that answered, with the port.
        max_tokens: the limit of the answer as it was sent; 0: unknown.
    """

    blocks: tuple[Block, ...]
    stop: StopKind
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    id: str = ""
    server: str = ""
    max_tokens: int = 0


class SkillRequirements(Struct, frozen=True):
    """What code checks of the work by a skill, beside what a model reads in it.

    Attributes:
        evidence: ``TOOL`` or ``TOOL:PLACE``: a call that each finding needs, of a place of it.
        stop: tools that must have been called before the work ends, and other conditions.
        output: fields that each finding needs.
        categories: of the findings that evidence and output are about; empty: all.
    """

    evidence: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class SkillScope(Struct, frozen=True):
    """The changed files that a skill is about.

    Attributes:
        files: patterns of their names; empty: any file.
        words: of which the file's text has one, or for a playbook the path, the status or a changed
            line, with ``*`` for any ending; empty: the name tells.
        topics: of a knowledge pack, those whose agents get it; empty: a playbook, which agents
            list.
    """

    files: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


class Skill(Struct, frozen=True):
    """A playbook or a knowledge pack (Agent Skills format).

    Attributes:
        text: the body of SKILL.md.
        tools: the tools that its steps name.
    """

    name: str
    description: str
    text: str
    digest: str = ""
    tools: frozenset[str] = frozenset()
    requires: SkillRequirements = SkillRequirements()
    scope: SkillScope = SkillScope()


class Bounds(Struct, frozen=True):
    """Limits of a run or of one agent; ``inf`` without a limit.

    >>> Bounds(usd=0.5, turns=20).tokens
    inf

    Attributes:
        iterations, turns: rounds of the whole flow, model calls of one agent.
        tool_calls, tokens: counts; ``usd`` in US dollars, ``seconds`` of wall time.
    """

    iterations: float = float("inf")
    turns: float = float("inf")
    tool_calls: float = float("inf")
    tokens: float = float("inf")
    usd: float = float("inf")
    seconds: float = float("inf")

    def __post_init__(self) -> None:
        check_amounts(self, *self.__struct_fields__, unbounded=True)


class AgentSpec(Struct, frozen=True):
    """One agent: what it may see, do and spend.

    Attributes:
        model: an escalation stage (``fast``, ``strong``) or a model's name, also ``vendor:stage``.
        contract: JSON Schema of its final report, None for free text.
        shown_contract: what is sent of it, if it is less: one that breaks only that is a report.
        escalation: stages to try on failure, cheapest first; ``human`` may be the last.
        tags: topics of its task; if not all tools can be shown, those with such a tag come first.
        concerns: kinds of subjects that its work is about; empty: all.
        role: the agent whose permissions it has, if several agents share its work; empty: its own.
    """

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...]
    skills: tuple[Skill, ...] = ()
    model: str = "fast"
    bounds: Bounds = field(default_factory=Bounds)
    contract: Mapping[str, Json] | None = None
    shown_contract: Mapping[str, Json] | None = None
    escalation: tuple[str, ...] = ()
    digest: str = ""
    tags: frozenset[str] = frozenset()
    concerns: tuple[str, ...] = ()
    role: str = ""


class ScoreLevel(Strict, frozen=True):
    """One level of a criterion: a score and its description."""

    score: UnitFloat
    description: NonEmptyStr


class ScoredExample(Strict, frozen=True):
    """An example text with its score, which shows a judge how a criterion is meant."""

    text: NonEmptyStr
    score: UnitFloat
    why: str = ""


class Criterion(Strict, frozen=True):
    """One line of a rubric.

    Attributes:
        kind: ``measured`` by code, or ``judged`` by a model or a person.
        weight: relative to its siblings; negative is a penalty.
        parent: id of the group it belongs to (``group`` in a file), None at the root.
        na: how "does not apply" counts: left out, as 0, or as 1.
        abstain: how "not scored" counts: left out, or as 0.
        blocker: a score of 0 rejects the candidate, whatever the total.
        examples: shown to the judge.
    """

    id: RubricId
    kind: Literal["measured", "judged"]
    description: NonEmptyStr
    weight: float = 1.0
    levels: tuple[ScoreLevel, ...] = ()
    parent: str | None = field(default=None, name="group")
    na: Literal["exclude", "zero", "full"] = "exclude"
    abstain: Literal["exclude", "zero"] = "exclude"
    blocker: bool = False
    tags: tuple[NonEmptyStr, ...] = ()
    examples: tuple[ScoredExample, ...] = ()


class Group(Strict, frozen=True):
    """An inner node of a rubric's tree.

    Attributes:
        combine: its score is its children's weighted ``mean``, or the lowest (``all_of``) or
            highest (``any_of``) score of its criteria; one that was not scored counts as the worst.
    """

    id: RubricId
    description: str = ""
    weight: float = 1.0
    parent: str | None = None
    combine: Literal["mean", "all_of", "any_of"] = "mean"


class Rubric(Strict, frozen=True, dict=True):
    """A tree of weighted criteria by which a judge scores.

    A node's score is the weighted mean of its children: sum of weight times score over the sum of
    the positive weights, and 0 at least. Only children that count enter (``na``, ``abstain``).

    Attributes:
        threshold: a total at or above it is accepted.
        judge: what judged the criteria (``model``, ``prompt_digest``); empty if all are measured.
        provenance: the labels and settings it was tuned with, empty for one written by hand.
    """

    name: RubricId
    version: PositiveInt
    description: NonEmptyStr
    threshold: UnitFloat
    criteria: Annotated[tuple[Criterion, ...], Meta(min_length=1)]
    groups: tuple[Group, ...] = ()
    judge: dict[str, Json] = field(default_factory=dict)
    provenance: dict[str, Json] = field(default_factory=dict)

    @cached_property
    def below(self) -> dict[str | None, list[Criterion | Group]]:
        """The nodes directly below each group, inner groups first, and below the whole (None)."""
        found = dict[str | None, list[Criterion | Group]]()
        nodes: tuple[Criterion | Group, ...] = (*self.criteria, *self.groups)
        for node in nodes:
            found.setdefault(node.parent, []).append(node)
        order: list[str | None] = [None]
        for group in order:
            order += [node.id for node in found.get(group, []) if isinstance(node, Group)]
        return {group: found.get(group, []) for group in reversed(order)}

    @cached_property
    def worst_scores(self) -> dict[str, float]:
        """By criterion: 0, or 1 where a higher score lowers the total, as a penalty's does."""
        chosen = {group.id for group in self.groups if group.combine != "mean"}
        raises: dict[str | None, bool] = {None: True}
        for group, children in reversed(self.below.items()):
            for node in children:  # the lowest and the highest have no weight
                raises[node.id] = raises[group] == (group in chosen or node.weight > 0)
        return {c.id: 0.0 if raises[c.id] else 1.0 for c in self.criteria}
