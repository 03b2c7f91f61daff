"""The harness's words as JSON and back: what a journal holds of a conversation."""

from __future__ import annotations

from orchestrator.engine.types import (
    Aside,
    Block,
    Json,
    Message,
    Opaque,
    Response,
    Section,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)


def block_to_json(block: Block) -> dict[str, Json]:
    """A block as JSON; a tool result without its ``data``, which no model sees."""
    match block:
        case Text(text):
            return {"type": "text", "text": text}
        case ToolCall(id, name, arguments):
            return {"type": "tool_call", "id": id, "name": name, "arguments": dict(arguments)}
        case ToolResult():
            return {
                "type": "tool_result",
                "call_id": block.call_id,
                "content": block.content,
                "ok": block.ok,
            }
        case Opaque(provider, payload):
            return {"type": "opaque", "provider": provider, "payload": payload}
        case Aside(text):
            return {"type": "aside", "text": text}


def block_from_json(value: dict[str, Json]) -> Block:
    """The inverse of ``block_to_json`` for what a model can say."""
    match value["type"]:
        case "text":
            return Text(value["text"])
        case "tool_call":
            return ToolCall(value["id"], value["name"], value["arguments"])
        case _:
            return Opaque(value["provider"], value["payload"])


def message_to_json(message: Message) -> dict[str, Json]:
    """A message as JSON."""
    return {"role": message.role, "blocks": [block_to_json(block) for block in message.blocks]}


def usage_to_json(usage: Usage) -> dict[str, Json]:
    """What a model call used, as JSON."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "usd": usage.usd,
        "saved_usd": usage.saved_usd,
        "estimated": usage.estimated,
        "lost": usage.lost,
    }


def response_to_json(response: Response) -> dict[str, Json]:
    """A model's answer as JSON."""
    return {
        "blocks": [block_to_json(block) for block in response.blocks],
        "stop": response.stop,
        "usage": usage_to_json(response.usage),
        "model": response.model,
    }


def response_from_json(value: dict[str, Json]) -> Response:
    """The inverse of ``response_to_json``."""
    return Response(
        tuple(block_from_json(block) for block in value["blocks"]),
        value["stop"],
        Usage(**value["usage"]),
        value["model"],
    )


def sections_to_json(sections: tuple[Section, ...]) -> Json:
    """A system prompt as JSON."""
    return [[section.kind, section.name, section.text] for section in sections]


def tools_to_json(tools: tuple[ToolSpec, ...]) -> Json:
    """The shown tools as JSON, as a model is told of them."""
    return [[tool.name, tool.description, dict(tool.schema)] for tool in tools]
