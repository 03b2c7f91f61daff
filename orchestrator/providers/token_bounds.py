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
from functools import lru_cache
from string import ascii_letters
from typing import Any

from orchestrator.engine.types import Block, Json, Opaque, Request, Text, ToolCall, ToolResult

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


@lru_cache(maxsize=512)  # a conversation's texts are counted in each of its turns
def max_text_tokens(text: str) -> int:
    """Upper bound of a text's tokens."""
    data = text.encode("utf-8", "surrogatepass")
    dense = len(data.translate(None, _LETTERS_AND_SPACES))
    return dense + (len(data) - dense + 1) // 2


def max_input_tokens(request: Request) -> int:
    """Upper bound of a request's input tokens."""
    total = REQUEST_OVERHEAD + _max_standing_tokens(
        _Identity(request.system), _Identity(request.tools), _Identity(request.output_schema)
    )
    for message in request.messages:
        total += (
            sum(_block_tokens(block) + PART_OVERHEAD for block in message.blocks) + PART_OVERHEAD
        )
    return total


class _Identity:
    """A value as a key of a cache; equal to nothing but itself."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.value is other.value


@lru_cache(maxsize=64)  # the requests of a conversation have the very same objects
def _max_standing_tokens(system: _Identity, tools: _Identity, schema: _Identity) -> int:
    total = 0
    for section in system.value:
        total += max_text_tokens(section.text) + max_text_tokens(section.name) + PART_OVERHEAD
    for tool in tools.value:
        total += (
            max_text_tokens(tool.name + tool.description)
            + _json_tokens(tool.schema)
            + PART_OVERHEAD
        )
    return total if schema.value is None else total + _json_tokens(schema.value)


def min_input_tokens(request: Request, reported: int = 0) -> int:
    """Lower bound of a request's input tokens: what no tokenizer can do with less.

    Args:
        reported: a count; the bound is not worked out where it cannot exceed this, and what is
            returned does not either.
    """
    blocks = (block for message in request.messages for block in message.blocks)
    system = (section.text for section in request.system)
    return _min_tokens((*system, *map(_shown_text, blocks)), reported)


def min_block_tokens(blocks: Iterable[Block], reported: int = 0) -> int:
    """Lower bound of the tokens of blocks; a provider's own (``Opaque``) count as none."""
    return _min_tokens(map(_shown_text, blocks), reported)


def _shown_text(block: Block) -> str:
    match block:
        case Text(text):
            return text
        case ToolCall():
            return json.dumps(dict(block.arguments), ensure_ascii=False)
        case ToolResult():
            return block.content
    return ""


def _min_tokens(texts: Iterable[str], reported: int) -> int:
    data = "".join(texts).encode("utf-8", "surrogatepass")
    most = len(data) // MAX_TOKEN_BYTES
    # To leave out what repeats takes milliseconds, and cannot raise the bound.
    return most if most <= reported else len(_REPEATED.sub(rb"\1", data)) // MAX_TOKEN_BYTES


def estimate_input_tokens(request: Request) -> int:
    """Estimate a request's input tokens."""
    return max_input_tokens(request) // BOUND_TO_TYPICAL_RATIO


def _block_tokens(block: Block) -> int:
    match block:
        case Text(text):
            return max_text_tokens(text)
        case ToolCall(_, name, arguments):
            return max_text_tokens(name) + _json_tokens(dict(arguments))
        case ToolResult():
            return max_text_tokens(block.content)
        case Opaque(_, payload):
            return _json_tokens(payload)


def _json_tokens(value: Json) -> int:
    return max_text_tokens(json.dumps(value, ensure_ascii=False))
