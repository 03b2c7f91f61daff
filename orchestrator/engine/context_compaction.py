"""Context compaction: what is left out of a conversation that outgrows the model's window.

1. Observations of tools, the oldest first: each becomes one line that says how to get it again.
2. Whole exchanges (an answer and what followed it), the oldest first.

The brief and the last exchange always stay. Reasoning is dropped if anything before it changes:
a provider may have signed it over all preceding bytes, and rejects it after others.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.types import Block, Message, Opaque, Text, ToolCall, ToolResult
from orchestrator.engine.untrusted_text import frame

TARGET_SHARE = 0.75
"""Room is made down to this share of the window. Each time costs the provider's cache of all that
follows, so it is done seldom and thoroughly."""

ARGUMENTS = 200
"""Characters of a call's arguments that its line repeats."""

OMISSION_NOTICE = "[Earlier turns of this conversation are left out: there is no room for them.]"


class Omission(Struct, frozen=True):
    """What one compaction leaves out, in addition to earlier ones.

    Attributes:
        observations: journal keys of the calls whose results are replaced by one line.
        exchanges: how many of the oldest exchanges are left out entirely.
    """

    observations: tuple[str, ...] = ()
    exchanges: int = 0


def smallest_omission(
    messages: Sequence[Message], nonce: str, fits: Callable[[Sequence[Message]], bool]
) -> Omission:
    """The smallest omission after which the messages fit, or the largest if none does."""

    def enough(omission: Omission) -> bool:
        return fits(apply_omission(messages, omission, nonce))

    begins = _begins(messages)
    long = tuple(result.ref for result, _ in _long(messages[: begins[-1]] if begins else (), nonce))
    count = bisect_left(range(len(long)), True, key=lambda n: enough(Omission(long[:n])))
    if count < len(long):
        return Omission(long[:count])
    whole = range(len(begins[:-1]))
    return Omission(long, bisect_left(whole, True, key=lambda n: enough(Omission(long, n))))


def apply_omission(messages: Sequence[Message], omission: Omission, nonce: str) -> list[Message]:
    """The messages that are left; calls and their results stay in pairs, and roles alternate."""
    lines = {
        result.ref: line
        for result, line in _long(messages, nonce)
        if result.ref in omission.observations
    }
    first = len(messages)
    kept: list[Message] = []
    for at, message in enumerate(messages):
        blocks = tuple(_shortened(block, lines) for block in message.blocks)
        if blocks != message.blocks:
            first = min(first, at)
        kept.append(Message(message.role, blocks))
    if omission.exchanges:
        first = 0
        brief = tuple(block for block in messages[0].blocks if block != Text(OMISSION_NOTICE))
        start = _begins(messages)[omission.exchanges]
        kept = [Message("user", (*brief, Text(OMISSION_NOTICE))), *kept[start:]]
    return kept[: first + 1] + [_unsigned(message) for message in kept[first + 1 :]]


def _begins(messages: Sequence[Message]) -> list[int]:
    """Where each exchange begins: at an answer after a user message."""
    roles = enumerate(pairwise(message.role for message in messages), 1)
    return [at for at, pair in roles if pair == ("user", "assistant")]


def _long(messages: Sequence[Message], nonce: str) -> Iterator[tuple[ToolResult, str]]:
    """Results that are longer than the line that would replace them, and that line."""
    for request, reply in pairwise(messages):
        calls = (block for block in request.blocks if isinstance(block, ToolCall))
        results = (block for block in reply.blocks if isinstance(block, ToolResult))
        for call, result in zip(calls, results, strict=False):
            arguments = json.dumps(dict(call.arguments))[:ARGUMENTS]
            size = len(result.content)
            line = frame(
                f"[left out, no room: {call.name} {arguments} gave {size} characters as "
                f"{result.ref}; call it again to see them]",
                nonce,
            )
            if len(line) < size:
                yield result, line


def _shortened(block: Block, lines: Mapping[str, str]) -> Block:
    if isinstance(block, ToolResult) and block.ref in lines:
        return replace(block, content=lines[block.ref], data=None)
    return block


def _unsigned(message: Message) -> Message:
    """A message after a changed one: without reasoning."""
    return replace(
        message, blocks=tuple(block for block in message.blocks if not isinstance(block, Opaque))
    )
