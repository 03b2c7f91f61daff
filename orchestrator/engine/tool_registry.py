"""The registry of tools, and the selection of those that an agent is shown."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import jsonschema_rs
from msgspec import Struct, ValidationError, convert, field
from msgspec.structs import fields, replace

from orchestrator.engine.field_types import NonEmptyStr, PositiveInt, Strict
from orchestrator.engine.ports import Tool
from orchestrator.engine.types import AgentSpec, Json, Level, ToolCall, ToolSpec
from orchestrator.errors import InputError, InvalidArguments, NotRegistered

MAX_SHOWN_TOOLS = 19
"""Tools shown per request: more only confuse a model, and cost tokens every turn."""

NAVIGATION = "navigation"
"""The tag of tools that are always shown, such as those that read files."""

_INTEGER = re.compile(r"-?[0-9]{1,15}")


class ToolAccess(Strict, frozen=True):
    """Which of its tools an agent or an environment keeps; it can only remove some.

    Attributes:
        allow: the only tools that it keeps; None keeps all.
        deny: removed after ``allow``.
    """

    allow: tuple[NonEmptyStr, ...] | None = None
    deny: tuple[NonEmptyStr, ...] = ()


UNRESTRICTED = ToolAccess()


class ToolPolicy(Struct, frozen=True):
    """Who may call what, in one environment.

    >>> ToolPolicy(max_level=Level.WRITE).max_level < Level.IRREVERSIBLE
    True

    Attributes:
        environment: its name, for messages.
        max_level: nothing above it runs.
        everyone: the tools that are switched on in this environment.
        agents: agent → what it keeps of its own tools; absent: all.
        failures, pause: tool → when it is disabled if it fails, see ``ToolBreaker``.
        sensitive: tags; if not all tools can be shown, those with such a tag are left out first.
    """

    environment: str = "local"
    max_level: Level = Level.READ
    everyone: ToolAccess = UNRESTRICTED
    agents: Mapping[str, ToolAccess] = field(default_factory=dict)
    failures: Mapping[str, PositiveInt] = field(default_factory=dict)
    pause: Mapping[str, int] = field(default_factory=dict)
    sensitive: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            try:
                convert(value, one.type, from_attributes=True)
            except ValidationError as error:
                raise InputError(
                    f"ToolPolicy({one.name}={value!r:.60}): {error}; help(ToolPolicy) explains it"
                ) from None

    def refusal(self, agent: AgentSpec, tool: ToolSpec) -> str | None:
        """Why this agent may not call this tool here; None when it may."""
        name = tool.name
        if name not in agent.tools:
            return f"{agent.name} has no tool {name}"
        if tool.level > self.max_level:
            return f"{name} is {tool.level.name}; {self.environment} allows {self.max_level.name}"
        kept = self.everyone.allow
        if name in self.everyone.deny or (kept is not None and name not in kept):
            return f"{name} is off in {self.environment}"
        access = self.agents.get(agent.role or agent.name, UNRESTRICTED)
        if access.allow is not None and name not in access.allow:
            return f"{name} is not among the tools that {agent.name} is allowed here"
        if name in access.deny:
            return f"{name} is denied to {agent.name} here"
        return None


def validator(schema: Mapping[str, Json]) -> Callable[[Json], list[str]]:
    """Compile a JSON Schema (draft 2020-12) into a function that lists what is wrong, in words."""
    compiled: Any = jsonschema_rs.validator_for(dict(schema), offline=True)

    def errors(value: Json) -> list[str]:
        try:
            if compiled.is_valid(value):
                return []
            return [_describe(error, schema) for error in compiled.iter_errors(value)]
        except (ValueError, OverflowError, RecursionError) as error:
            # Python's JSON allows more than the standard: lone surrogates, infinite numbers.
            return [f"the whole: it is not the JSON that schemas speak of: {error!s:.300}"]

    return errors


def _describe(error: Any, schema: Json) -> str:
    """Where and why a value does not fit; for an unknown key, also the known keys."""
    where = "/".join(map(str, error.instance_path)) or "the whole"
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Enum):
        # The library's own message lists two of many.
        options = ", ".join(json.dumps(option) for option in error.kind.options)
        return f"{where}: {json.dumps(error.instance):.100} is not one of {options:.300}"
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.AnyOf):
        # Of an object or null, what the object lacks, or that it is none: null helps nobody.
        first, here = [some[0] for some in error.kind.context], error.instance_path
        likely = [e for e in first if e.schema_path[-1] != "type" or e.instance_path != here]
        if len(likely) < 2:
            return _describe([*likely, *first][0], schema)
    if not isinstance(error.kind, jsonschema_rs.ValidationErrorKind.AdditionalProperties):
        return f"{where}: {error.message:.300}"
    try:
        for step in error.schema_path[:-1]:
            schema = schema[step]
    except (KeyError, IndexError, TypeError):  # reached through a reference
        return f"{where}: {error.message:.300}"
    known = ", ".join(schema.get("properties", {})) or "none"
    unknown = ", ".join(map(repr, error.kind.unexpected))
    return f"{where}: unknown {unknown:.300}; it has {known}"


def fit_types(arguments: Mapping[str, Json], schema: Mapping[str, Json]) -> dict[str, Json]:
    """Arguments as the schema types them, where a model wrote "3" for 3, or an item for its list.

    Everything else stays as it is, for the schema to refuse.
    """
    declared = schema.get("properties", {})
    return {name: _fit_type(value, declared.get(name)) for name, value in arguments.items()}


def _fit_type(value: Json, declared: Json) -> Json:
    wanted = declared.get("type") if isinstance(declared, Mapping) else None
    digits = isinstance(value, str) and _INTEGER.fullmatch(value)
    if wanted == "integer" and (digits or (isinstance(value, float) and value.is_integer())):
        return int(value)
    if wanted == "boolean" and isinstance(value, str) and value in {"true", "false"}:
        return value == "true"
    if wanted == "array" and isinstance(value, str) and value[:1] != "[":
        return [value]
    return value


class Registry:
    """Tools by name. Unknown names are refused; nothing is loaded on demand."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        self._specs: dict[str, ToolSpec] = {}
        self._validators: dict[str, Callable[[Json], list[str]]] = {}
        self._output_validators: dict[str, Callable[[Json], list[str]]] = {}
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> None:
        """Register a tool.

        Raises:
            ValueError: its name is taken, or one of its schemas is invalid.
        """
        name = tool.spec.name
        if name in self._tools:
            raise ValueError(f"two tools are named {name}")
        self._validators[name] = validator(tool.spec.schema)
        if tool.spec.output_schema is not None:
            self._output_validators[name] = validator(tool.spec.output_schema)
        self._tools[name], self._specs[name] = tool, tool.spec

    def specs(self) -> Mapping[str, ToolSpec]:
        """All tools, by name."""
        return self._specs

    def get(self, name: str) -> Tool:
        """Look a tool up."""
        if name not in self._tools:
            raise NotRegistered(f"there is no tool {name!r}")
        return self._tools[name]

    def fit(self, call: ToolCall) -> ToolCall:
        """A call of a tool that only reads, with its arguments as the tool's schema types them.

        Others are left alone: people approve them as they were written.
        """
        spec = self._specs[call.name]
        if spec.level is not Level.READ:
            return call
        return replace(call, arguments=fit_types(call.arguments, spec.schema))

    def check(self, name: str, arguments: Json) -> None:
        """Validate arguments against the tool's schema.

        Raises:
            InvalidArguments: lists what is wrong, at most five errors.
        """
        errors = self._validators[name](arguments)
        if errors:
            raise InvalidArguments(f"{name}: " + "; ".join(errors[:5]))

    def output_errors(self, name: str, data: Json) -> list[str]:
        """Errors of a tool's data under its output schema, if it has one."""
        check = self._output_validators.get(name)
        return check(data)[:5] if check else []

    def filter_by_tag(self, *tags: str) -> tuple[ToolSpec, ...]:
        """The tools that carry all of the tags, in order."""
        return tuple(spec for spec in self._specs.values() if spec.tags.issuperset(tags))

    def tools_for_task(
        self, agent: AgentSpec, policy: ToolPolicy, called: Collection[str] = ()
    ) -> tuple[ToolSpec, ...]:
        """The tools that an agent's model is shown: its own tools, in order, that it may call here.

        Of more than ``MAX_SHOWN_TOOLS``, navigation is kept first. Then a tool precedes another
        when the agent has not called it, no person must approve it, and it shares a tag with the
        agent's task. Tools without tags precede those of other topics.

        Args:
            called: tools that come after those not called yet.
        """
        known = (self._specs[name] for name in agent.tools if name in self._specs)
        able = tuple(tool for tool in known if policy.refusal(agent, tool) is None)
        if len(able) <= MAX_SHOWN_TOOLS:
            return able

        def rank(tool: ToolSpec) -> tuple[bool, ...]:
            return (
                NAVIGATION not in tool.tags,
                tool.name in called,
                not tool.tags.isdisjoint(policy.sensitive),
                tool.tags.isdisjoint(agent.tags),
                bool(tool.tags),
            )

        kept = {tool.name for tool in sorted(able, key=rank)[:MAX_SHOWN_TOOLS]}
        return tuple(tool for tool in able if tool.name in kept)
