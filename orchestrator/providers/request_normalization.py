"""Conversations, tools, and schemas of answers, in the form that APIs accept.

Roles alternate, no message is empty, and tool results come first in a user message. In a strict
schema objects are closed and all of their properties required. Keywords outside that subset go into
the description, so that a model still reads them; the engine validates the answer against the
original schema in any case.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from orchestrator.catalog.model_config import Capabilities
from orchestrator.data_directories import read_table
from orchestrator.engine.types import (
    Block,
    Json,
    Message,
    Opaque,
    Request,
    Role,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from orchestrator.errors import InputError
from orchestrator.foreign_json import escape_surrogates
from orchestrator.providers.reply_normalization import is_reasoning

EMPTY_PLACEHOLDER = "(nothing)"


class MergedMessage(Struct, frozen=True):
    """Consecutive messages of one role, merged into one."""

    role: Role
    blocks: tuple[Block, ...]

    @property
    def results(self) -> Iterator[ToolResult]:
        """The results of the previous message's tool calls."""
        return (block for block in self.blocks if isinstance(block, ToolResult))

    @property
    def calls(self) -> Iterator[ToolCall]:
        """The tool calls."""
        return (block for block in self.blocks if isinstance(block, ToolCall))

    @property
    def text(self) -> str:
        """All text blocks, one a line."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text))


def merge_messages(request: Request, provider: str) -> list[MergedMessage]:
    """Merge and normalize the messages of a conversation.

    The form of a message never depends on a later one, so a longer conversation begins with the
    same bytes as the shorter one, and the provider's prefix cache is hit.

    Args:
        provider: opaque blocks of this provider are sent; those of others are left out.
    """
    merged: list[MergedMessage] = []
    for message in request.messages:
        blocks = _sendable_blocks(message, provider)
        if not blocks:
            continue
        if merged and merged[-1].role == message.role:
            blocks = (*merged.pop().blocks, *blocks)
        if message.role == "user":
            blocks = tuple(sorted(blocks, key=lambda block: not isinstance(block, ToolResult)))
        merged.append(MergedMessage(message.role, blocks))
    if not merged or merged[0].role != "user":
        merged.insert(0, MergedMessage("user", (Text(EMPTY_PLACEHOLDER),)))
    return merged


def shared_opening(merged: Sequence[MergedMessage]) -> str:
    """The text that all agents of a run begin with, or empty: the first of a message's texts."""
    first = merged[0].blocks
    return first[0].text if len(first) > 1 and isinstance(first[0], Text) else ""


def _sendable_blocks(message: Message, provider: str) -> tuple[Block, ...]:
    normalized = (_normalize_block(block, provider) for block in message.blocks)
    blocks = tuple(block for block in normalized if block is not None)
    return () if all(is_reasoning(block) for block in blocks) else blocks


def _normalize_block(block: Block, provider: str) -> Block | None:
    match block:
        case Text(text):
            return Text(escape_surrogates(text)) if text.strip() else None
        case ToolResult():
            return ToolResult(
                block.call_id, escape_surrogates(block.content) or EMPTY_PLACEHOLDER, block.ok
            )
        case Opaque():
            return block if block.provider == provider else None
        case ToolCall():
            return block


def render_system_parts(request: Request, can: Capabilities) -> list[str]:
    """Render the system prompt in parts, the stable ones first; the first line names the agent."""
    texts = [section.shown for section in request.system]
    first, *others = texts or [""]
    # Without a role here, it stands in the first message, behind what the team's agents share.
    if not request.system or request.system[0].kind == "role":
        first = f"Agent: {request.agent}\n\n{first}".strip()
    parts = [first, *others]
    if request.output_schema is not None and strict_output_schema(request, can) is None:
        parts.append(
            "Your final report is one JSON object with nothing around it. It is valid under this "
            f"JSON Schema:\n{json.dumps(request.output_schema, ensure_ascii=False)}"
        )
    return [escape_surrogates(part) for part in parts]


def accepts_schema(request: Request, can: Capabilities) -> bool:
    """Whether the server accepts the request's output schema as a parameter."""
    return can.schemas != "none" and (can.schemas_with_tools or not request.tools)


def strict_output_schema(request: Request, can: Capabilities) -> dict[str, Json] | None:
    """The output schema that the server enforces in strict mode, None when it enforces none."""
    if request.output_schema is None or can.schemas != "strict" or not accepts_schema(request, can):
        return None
    return to_strict_schema(request.output_schema)


_KEPT_KEYWORDS = frozenset({"type", "enum", "const"})
_DROPPED_KEYWORDS = frozenset(
    {"title", "default", "$schema", "examples", "required", "properties", "items"}
)
_UNION_KEYWORDS = ("anyOf", "oneOf")
_SCALAR_AND_CONTAINER_TYPES = frozenset(
    {"object", "array", "string", "number", "integer", "boolean", "null"}
)


class _Unsupported(Exception):
    """The schema cannot be expressed in the strict subset."""


def to_strict_schema(schema: Mapping[str, Json]) -> dict[str, Json] | None:
    """Convert a schema to the strict subset; None when it cannot be expressed there.

    The root must be an object, and nothing may be open, recursive or of any type at all.
    """
    if schema.get("type") != "object":
        return None
    try:
        return _convert(schema)
    except _Unsupported:
        return None


def _convert(node: Json) -> dict[str, Json]:
    if not isinstance(node, Mapping) or "$ref" in node or "allOf" in node or "not" in node:
        raise _Unsupported
    if isinstance(node.get("type"), list):
        rest = {key: value for key, value in node.items() if key != "type"}
        return {"anyOf": [_convert({**rest, "type": kind}) for kind in node["type"]]}
    converted: dict[str, Any] = {key: node[key] for key in node if key in _KEPT_KEYWORDS}
    union = next((key for key in _UNION_KEYWORDS if key in node), None)
    if union:
        converted["anyOf"] = [_convert(option) for option in node[union]]
    elif (
        not ({"enum", "const"} & converted.keys())
        and converted.get("type") not in _SCALAR_AND_CONTAINER_TYPES
    ):
        raise _Unsupported
    if converted.get("type") == "object":
        _convert_object(node, converted)
    if converted.get("type") == "array":
        converted["items"] = _convert(node.get("items"))
    _describe_dropped_keywords(node, converted)
    return converted


def _convert_object(node: Mapping[str, Json], converted: dict[str, Any]) -> None:
    if node.get("additionalProperties", True) is not False:
        raise _Unsupported
    properties = node.get("properties", {})
    converted["properties"] = {name: _convert(below) for name, below in properties.items()}
    converted["required"] = list(properties)
    converted["additionalProperties"] = False


def _describe_dropped_keywords(node: Mapping[str, Json], converted: dict[str, Any]) -> None:
    known = converted.keys() | _DROPPED_KEYWORDS | {*_UNION_KEYWORDS, "description"}
    rest = {key: value for key, value in node.items() if key not in known}
    parts = [str(node["description"])] if node.get("description") else []
    parts += [f"{key}: {json.dumps(value)}" for key, value in rest.items()]
    if parts:
        converted["description"] = "; ".join(parts)


ToolFormat = Literal["anthropic", "openai", "openai-chat", "mcp"]

_FORMATS: Mapping[str, tuple[str, str, dict[str, Json]]] = read_table(__file__, "tool_formats.yaml")


def describe_tools(tools: Iterable[ToolSpec], form: ToolFormat) -> list[dict[str, Json]]:
    """Tools in the format of an API: Messages, Responses, Chat Completions or MCP."""
    if form not in _FORMATS:
        raise InputError(f"there is no format of tools {form!r}; there is {', '.join(_FORMATS)}")
    schema, inside, same = _FORMATS[form]
    described: list[dict[str, Json]] = [
        {"name": tool.name, "description": tool.description, schema: dict(tool.schema)}
        for tool in tools
    ]
    return [{**same, **({inside: tool} if inside else tool)} for tool in described]
