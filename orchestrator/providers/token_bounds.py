"""Upper bounds of a request's tokens, computed without a tokenizer.

Tokenizers differ, change, and are not public for every model, so the bound is computed from bytes:

- two ASCII letters or spaces count as one token: words have four or five letters a token, and
  random letters rarely fewer than two;
- digits, punctuation, control characters and all bytes of other scripts count as one token each,
  which is the most that a byte-level tokenizer produces.

For English prose and code the bound is 1.5 to 2.5 times what is billed.
"""

import json
import re
from collections.abc import Iterable
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
from orchestrator.providers.request_normalization import drop_expired_asides

REQUEST_OVERHEAD = 1_000
"""Tokens that a provider adds to a request with tools and schemas."""

PART_OVERHEAD = 16
"""Tokens that a provider adds to each message, block and tool."""

BOUND_TO_TYPICAL_RATIO = 2
"""The bound divided by what is typically billed."""

MAX_TOKEN_BYTES = 32
"""More bytes than any tokenizer puts into one token on average, repeated characters left out."""

_REPEATED = re.compile(rb"(.)\1{3,}", re.DOTALL)
_LETTERS_AND_SPACES = (ascii_letters + " \t\r\n").encode()


def max_text_tokens(text: str) -> int:
    """Upper bound of a text's tokens."""
    data = text.encode("utf-8", "surrogatepass")
    dense = len(data.translate(None, _LETTERS_AND_SPACES))
    return dense + (len(data) - dense + 1) // 2


def max_input_tokens(request: Request) -> int:
    """Upper bound of a request's input tokens."""
    total = REQUEST_OVERHEAD
    for section in request.system:
        total += max_text_tokens(section.text) + max_text_tokens(section.name) + PART_OVERHEAD
    for tool in request.tools:
        total += (
            max_text_tokens(tool.name + tool.description)
            + _json_tokens(tool.schema)
            + PART_OVERHEAD
        )
    if request.output_schema is not None:
        total += _json_tokens(request.output_schema)
    for message in drop_expired_asides(request.messages):
        total += (
            sum(_block_tokens(block) + PART_OVERHEAD for block in message.blocks) + PART_OVERHEAD
        )
    return total


def min_input_tokens(request: Request) -> int:
    """Lower bound of a request's input tokens: what no tokenizer can do with less."""
    blocks = (
        block for message in drop_expired_asides(request.messages) for block in message.blocks
    )
    system = (section.text for section in request.system)
    return _min_tokens(system) + min_block_tokens(blocks)


def min_block_tokens(blocks: Iterable[Block]) -> int:
    """Lower bound of the tokens of blocks; a provider's own (``Opaque``) count as none."""
    return _min_tokens(map(_shown_text, blocks))


def _shown_text(block: Block) -> str:
    match block:
        case Text(text) | Aside(text):
            return text
        case ToolCall():
            return json.dumps(dict(block.arguments), ensure_ascii=False)
        case ToolResult():
            return block.content
    return ""


def _min_tokens(texts: Iterable[str]) -> int:
    data = "".join(texts).encode("utf-8", "surrogatepass")
    return len(_REPEATED.sub(rb"\1", data)) // MAX_TOKEN_BYTES


def estimate_input_tokens(request: Request) -> int:
    """Estimate a request's input tokens."""
    return max_input_tokens(request) // BOUND_TO_TYPICAL_RATIO


def _block_tokens(block: Block) -> int:
    match block:
        case Text(text) | Aside(text):
            return max_text_tokens(text)
        case ToolCall(_, name, arguments):
            return max_text_tokens(name) + _json_tokens(dict(arguments))
        case ToolResult():
            return max_text_tokens(block.content)
        case Opaque(_, payload):
            return _json_tokens(payload)


def _json_tokens(value: Json) -> int:
    return max_text_tokens(json.dumps(value, ensure_ascii=False))
