"""Tool calls as marked text, for servers that know no other.

The marks carry the run's nonce. A diff that quotes a call cannot know it, so nothing that a model
merely repeats is ever taken for a call.
"""

from __future__ import annotations

import json
import re

from orchestrator.engine.types import Block, Json, Request, Text, ToolCall, ToolResult
from orchestrator.providers.reply_parsing import Calls, Unusable, loads, members


def offer(request: Request) -> str:
    """What the system prompt says of the tools and how to call them."""
    tools = "\n".join(
        json.dumps(
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.schema),
            },
            ensure_ascii=False,
        )
        for tool in request.tools
    )
    opening, closing = _marks(request)
    example = '{"name": "...", "arguments": {...}}'
    return (
        f"# Tools\n\nYou have these tools, one JSON object a line:\n{tools}\n\n"
        f"To call one, write exactly this, and end your answer after it:\n"
        f"{opening}\n{example}\n{closing}\n"
        "The result comes with the next message. When you need no more tools, give your report."
    )


def written(block: Block, request: Request) -> str:
    """A block of an earlier turn, as the server gets to see it."""
    match block:
        case ToolCall(_, name, arguments):
            opening, closing = _marks(request)
            call = {"name": name, "arguments": dict(arguments)}
            return f"{opening}\n{json.dumps(call, ensure_ascii=False)}\n{closing}"
        case ToolResult():
            return f"The result of your call:\n{block.content}"
        case Text(text):
            return text
        case _:
            return ""


def parse(text: str, request: Request, calls: Calls) -> list[Block]:
    """The words and the calls of an answer.

    Raises:
        Unusable: as ``Calls.add``.
    """
    opening, closing = map(re.escape, _marks(request))
    blocks: list[Block] = []
    at = 0
    for found in re.finditer(rf"{opening}(.*?)(?:{closing}|\Z)", text, re.DOTALL):
        blocks.append(Text(text[at : found.start()]))
        blocks.append(_call(found[1].strip(), calls))
        at = found.end()
    blocks.append(Text(text[at:]))
    return [block for block in blocks if not (isinstance(block, Text) and not block.text.strip())]


def _call(text: str, calls: Calls) -> ToolCall:
    try:
        given: Json = loads(text)
    except Unusable:
        given = None
    call = members(given)
    if not isinstance(call.get("name"), str):
        return calls.add(None, "unreadable", text)
    return calls.add(None, call["name"], call.get("arguments", {}))


def _marks(request: Request) -> tuple[str, str]:
    mark = f"tool_call {request.nonce}".strip()
    return f"<{mark}>", f"</{mark}>"
