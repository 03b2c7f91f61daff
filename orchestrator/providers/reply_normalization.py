"""Turns what a server sent into blocks that are always well-formed.

The SDKs construct their reply objects without validation, so any field may hold any value. Whatever
a server sends, what leaves here is finite JSON with valid Unicode, calls with unique ids and plain
names, and plausible token counts; otherwise ``InvalidReplyError`` says what is wrong.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from orchestrator.engine.types import Block, Json, Opaque, Request, StopKind, Text, ToolCall
from orchestrator.foreign_json import escape_surrogates

MAX_DEPTH = 64
MAX_BLOCKS = 1_000
MAX_CALLS = 64
MAX_COUNT = 10_000_000
"""More tokens than any model accepts; a larger count is implausible."""

UNREADABLE = "unreadable_arguments"
"""The one argument of a call whose arguments were no JSON object. A tool's schema is closed, so the
executor refuses the call, and the model sees the refusal."""

REASONING = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Types of blocks that hold reasoning."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_INT = 10**18


class InvalidReplyError(Exception):
    """A reply that cannot be used; the message says what is wrong with it."""


class TokenCounts(Struct, frozen=True):
    """Tokens of one call; None where the reply has no plausible count.

    Attributes:
        input: all input tokens, including those read from and written to the cache.
        reasoning: the part of ``output`` that was reasoning.
    """

    input: int | None = None
    output: int | None = None
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0


class Reply(Struct, frozen=True):
    """A reply in the engine's terms."""

    blocks: tuple[Block, ...]
    stop: StopKind
    counts: TokenCounts
    model: str = ""
    id: str = ""


def loads(data: bytes | str) -> Json:
    """Parse JSON strictly: finite numbers, 64-bit integers, valid Unicode, bounded depth."""
    try:
        return check_json(json.loads(data))
    except (ValueError, RecursionError) as error:
        message = f"it is not valid JSON ({type(error).__name__}: {error})"
        raise InvalidReplyError(message[:200]) from None


def check_json(value: Json, depth: int = 1) -> Json:
    """Return the value with lone surrogates escaped."""
    if depth > MAX_DEPTH:
        raise InvalidReplyError(f"it is nested deeper than {MAX_DEPTH} levels")
    match value:
        case str():
            return escape_surrogates(value)
        case None | bool():
            return value
        case int() if -_MAX_INT < value < _MAX_INT:
            return value
        case float() if math.isfinite(value):
            return value
        case list():
            return [check_json(item, depth + 1) for item in value]
        case dict():
            return {escape_surrogates(k): check_json(v, depth + 1) for k, v in value.items()}
    raise InvalidReplyError(f"it is not valid JSON ({value!r:.40} is not a finite 64-bit value)")


def dump(model: Any) -> dict[str, Json]:
    """Dump a pydantic model of either SDK to the JSON that the server sent."""
    return expect_object(check_json(model.to_dict(mode="json", warnings=False)), "a block")


def expect_object(value: Json, name: str) -> dict[str, Json]:
    """Return the value if it is an object."""
    if not isinstance(value, dict):
        raise InvalidReplyError(f"{name} is not an object")
    return value


def expect_list(value: Json, name: str) -> list[Json]:
    """Return the value if it is a list of at most ``MAX_BLOCKS`` entries."""
    if not isinstance(value, list):
        raise InvalidReplyError(f"{name} is not a list")
    if len(value) > MAX_BLOCKS:
        raise InvalidReplyError(f"{name} has {len(value)} entries; the limit is {MAX_BLOCKS}")
    return value


def expect_text(value: Json, name: str) -> str:
    """Return the value, with lone surrogates escaped, if it is text."""
    if not isinstance(value, str):
        raise InvalidReplyError(f"{name} is not text")
    return escape_surrogates(value)


def object_or_empty(value: Json) -> Mapping[str, Json]:
    """Return the value if it is an object, an empty one otherwise."""
    return value if isinstance(value, dict) else {}


def printable_name(value: Json) -> str:
    """Return a model's name as it may stand in a record, empty when it is not printable text."""
    return value[:200] if isinstance(value, str) and value.isprintable() else ""


def read_count(usage: object, *path: str) -> int | None:
    """Read a token count at an attribute path; None when it is missing or implausible."""
    value = usage
    for name in path:
        value = getattr(value, name, None)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= MAX_COUNT else None


def read_openai_counts(usage: object, sent: str, received: str) -> TokenCounts:
    """Read the counts of one of OpenAI's APIs, which name the two sides differently."""
    return TokenCounts(
        input=read_count(usage, f"{sent}_tokens"),
        output=read_count(usage, f"{received}_tokens"),
        cached=read_count(usage, f"{sent}_tokens_details", "cached_tokens") or 0,
        cache_write=read_count(usage, f"{sent}_tokens_details", "cache_write_tokens") or 0,
        reasoning=read_count(usage, f"{received}_tokens_details", "reasoning_tokens") or 0,
    )


@dataclass
class ToolCallParser:
    """Makes the tool calls of one reply well-formed.

    An id that is missing, malformed or used before in the conversation is replaced by a generated
    one: the harness writes both sides of a call from then on, so any unique id works.
    """

    request: Request
    calls: list[ToolCall] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._used_ids = {
            block.id
            for message in self.request.messages
            for block in message.blocks
            if isinstance(block, ToolCall)
        }

    def add(self, call_id: Json, name: Json, arguments: Json) -> ToolCall:
        """Add one call; ``arguments`` as an object, or as JSON text of one.

        Raises:
            InvalidReplyError: too many calls, or arguments that are no JSON object for a tool
                whose schema is open.
        """
        if len(self.calls) >= MAX_CALLS:
            raise InvalidReplyError(f"it has more than {MAX_CALLS} tool calls")
        call = ToolCall(
            self._unique_id(call_id), _plain_name(name), self._parse_arguments(name, arguments)
        )
        self.calls.append(call)
        return call

    def _unique_id(self, call_id: Json) -> str:
        usable = isinstance(call_id, str) and _NAME.fullmatch(call_id)
        number = len(self._used_ids) + 1
        chosen = call_id if usable and call_id not in self._used_ids else f"call_{number}"
        while chosen in self._used_ids:
            number += 1
            chosen = f"call_{number}"
        self._used_ids.add(chosen)
        return str(chosen)

    def _parse_arguments(self, name: Json, arguments: Json) -> dict[str, Json]:
        parsed = arguments
        try:
            if isinstance(arguments, str):
                parsed = loads(arguments) if arguments.strip() else {}
            else:
                parsed = check_json(arguments)
        except InvalidReplyError:
            parsed = None
        if isinstance(parsed, dict):
            return parsed
        for tool in self.request.tools:
            if tool.name == name and tool.schema.get("additionalProperties") is not False:
                raise InvalidReplyError(f"its arguments for {tool.name} are not a JSON object")
        shown = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return {UNREADABLE: escape_surrogates(shown[:2000])}


def _plain_name(name: Json) -> str:
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    # A malformed name never becomes the name of a tool that exists.
    letters = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:40] if isinstance(name, str) else ""
    return f"no_such_tool_{letters}"


def drop_unsafe_calls(
    blocks: Iterable[Block], stop: StopKind
) -> tuple[tuple[Block, ...], StopKind]:
    """Return the blocks that may be acted on, and the stop kind that fits them.

    A turn that was cut off, refused or filtered keeps no tool call: a cut call may lack arguments
    that change what it does. Blank text is dropped.
    """
    kept: Sequence[Block] = [b for b in blocks if not (isinstance(b, Text) and not b.text.strip())]
    if stop in {"max_tokens", "refused", "filtered"}:
        return tuple(block for block in kept if not isinstance(block, ToolCall)), stop
    if any(isinstance(block, ToolCall) for block in kept):
        return tuple(kept), "tool_use"
    return tuple(kept), "end" if stop == "tool_use" else stop


def is_reasoning(block: Block) -> bool:
    """Whether a block is reasoning, which no API accepts without the output that follows it."""
    return isinstance(block, Opaque) and object_or_empty(block.payload).get("type") in REASONING
