"""Tool calls as delimited text, for servers without a tool-call API.

The delimiters carry the run's nonce, which no diff can contain, so a call that a model merely
quotes is never executed.
"""

import json
import re

from orchestrator.engine.types import Block, Json, Request, Text, ToolCall, ToolResult
from orchestrator.providers.reply_normalization import (
    InvalidReplyError,
    ToolCallParser,
    loads,
    object_or_empty,
)


def render_tools(request: Request) -> str:
    """Render the tools and how to call them, for the system prompt."""
    tools = "\n".join(
        json.dumps(
            {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)},
            ensure_ascii=False,
        )
        for tool in request.tools
    )
    opening, closing = _delimiters(request)
    example = '{"name": "...", "arguments": {...}}'
    return (
        f"# Tools\n\nYou have these tools, one JSON object a line:\n{tools}\n\n"
        f"To call one, write exactly this, and end your answer after it:\n"
        f"{opening}\n{example}\n{closing}\n"
        "The result comes with the next message. When you need no more tools, give your report."
    )


def render_block(block: Block, request: Request) -> str:
    """Render a block of an earlier message as text."""
    match block:
        case ToolCall(_, name, arguments):
            opening, closing = _delimiters(request)
            call = {"name": name, "arguments": dict(arguments)}
            return f"{opening}\n{json.dumps(call, ensure_ascii=False)}\n{closing}"
        case ToolResult():
            return f"The result of your call:\n{block.content}"
        case Text(text):
            return text
        case _:
            return ""


def parse_calls(text: str, request: Request, calls: ToolCallParser) -> list[Block]:
    """Parse an answer into text blocks and tool calls."""
    opening, closing = map(re.escape, _delimiters(request))
    blocks: list[Block] = []
    at = 0
    for match in re.finditer(rf"{opening}(.*?)(?:{closing}|\Z)", text, re.DOTALL):
        blocks.append(Text(text[at : match.start()]))
        blocks.append(_parse_call(match[1].strip(), calls))
        at = match.end()
    blocks.append(Text(text[at:]))
    return [block for block in blocks if not (isinstance(block, Text) and not block.text.strip())]


def _parse_call(text: str, calls: ToolCallParser) -> ToolCall:
    try:
        given: Json = loads(text)
    except InvalidReplyError:
        given = None
    call = object_or_empty(given)
    if not isinstance(call.get("name"), str):
        return calls.add(None, "unreadable", text)
    return calls.add(None, call["name"], call.get("arguments", {}))


def _delimiters(request: Request) -> tuple[str, str]:
    mark = f"tool_call {request.nonce}".strip()
    return f"<{mark}>", f"</{mark}>"
