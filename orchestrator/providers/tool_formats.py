"""Tools as models' APIs and MCP describe them: name, description, schema of the arguments."""

from collections.abc import Iterable, Mapping
from typing import Literal

from orchestrator.engine.types import Json, ToolSpec
from orchestrator.errors import InputError

ToolFormat = Literal["anthropic", "openai", "openai-chat", "mcp"]

# The key of the schema, the key under which the description stands, and what is the same for all.
_FORMATS: Mapping[str, tuple[str, str, Mapping[str, Json]]] = {
    "anthropic": ("input_schema", "", {}),
    "openai": ("parameters", "", {"type": "function", "strict": False}),
    "openai-chat": ("parameters", "function", {"type": "function"}),
    "mcp": ("inputSchema", "", {}),
}


def describe_tools(tools: Iterable[ToolSpec], form: ToolFormat) -> list[dict[str, Json]]:
    """Tools in the format of an API: Messages, Responses, Chat Completions or MCP.

    Raises:
        InputError: there is no such format.
    """
    if form not in _FORMATS:
        raise InputError(f"there is no format of tools {form!r}; there is {', '.join(_FORMATS)}")
    schema, inside, same = _FORMATS[form]
    described: list[dict[str, Json]] = [
        {"name": tool.name, "description": tool.description, schema: dict(tool.schema)}
        for tool in tools
    ]
    return [{**same, **({inside: tool} if inside else tool)} for tool in described]
