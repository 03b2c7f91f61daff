"""How many tokens a request can have at most, without asking anybody.

Tokenizers differ, change, and are not public for every model, so this is a bound made of bytes:

- two letters or spaces of ASCII are at least one token's worth: words run to four or five letters a
  token, and even unpronounceable ones rarely fall below two;
- digits, punctuation, control characters and all bytes of other scripts count one each, which is
  the most that a byte-level tokenizer can make of them.

English prose and code come out between one and a half and two and a half times what is billed.
"""

from __future__ import annotations

import json
from string import ascii_letters

from orchestrator.engine.types import (
    Aside,
    Block,
    Json,
    Opaque,
    Request,
    Text,
    ToolCall,
    ToolResult,
)
from orchestrator.providers.conversation import present

PER_REQUEST = 1_000
"""What a provider adds of its own around tools and schemas."""

PER_PART = 16
"""What it adds around each message, block and tool."""

LIKELY = 2
"""The bound is about this many times what is billed."""

_LIGHT = (ascii_letters + " \t\r\n").encode()


def tokens(text: str) -> int:
    """The most tokens that a text can have."""
    data = text.encode("utf-8", "surrogatepass")
    heavy = len(data.translate(None, _LIGHT))
    return heavy + (len(data) - heavy + 1) // 2


def input_tokens(request: Request) -> int:
    """The most tokens that a request's input can have."""
    total = PER_REQUEST
    for section in request.system:
        total += tokens(section.text) + tokens(section.name) + PER_PART
    for tool in request.tools:
        total += tokens(tool.name + tool.description) + _json_tokens(tool.schema) + PER_PART
    if request.output_schema is not None:
        total += _json_tokens(request.output_schema)
    for message in present(request.messages):
        total += sum(_block_tokens(block) + PER_PART for block in message.blocks) + PER_PART
    return total


def likely_tokens(request: Request) -> int:
    """About as many tokens as a request's input will have."""
    return input_tokens(request) // LIKELY


def _block_tokens(block: Block) -> int:
    match block:
        case Text(text) | Aside(text):
            return tokens(text)
        case ToolCall(_, name, arguments):
            return tokens(name) + _json_tokens(dict(arguments))
        case ToolResult():
            return tokens(block.content)
        case Opaque(_, payload):
            return _json_tokens(payload)


def _json_tokens(value: Json) -> int:
    return tokens(json.dumps(value, ensure_ascii=False))
