"""From a reply's bytes to blocks that are always well-formed.

Whatever a server sends, what leaves here is finite JSON with whole Unicode, calls with unique ids
and plain names, and counts that can be true; or ``Unusable`` says why not.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from orchestrator.engine.types import (
    Block,
    Json,
    Opaque,
    Request,
    StopKind,
    Text,
    ToolCall,
)

MAX_BYTES = 8_000_000
MAX_DEPTH = 64
MAX_BLOCKS = 1_000
MAX_CALLS = 64
MAX_COUNT = 10_000_000
"""More tokens than any model takes: a claim above it is no count."""

UNREADABLE = "unreadable_arguments"
"""The one argument of a call whose arguments were no JSON object. A tool's schema is closed, so the
executor refuses the call, and the refusal is what the model gets to see."""

REASONING = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Kinds of blocks that mean nothing without what they led to."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_INT_DIGITS = 18


class Unusable(Exception):
    """A reply that is none; the text says what is wrong with it."""


class Counts(Struct, frozen=True):
    """Tokens of one call; None where the reply did not say, or not believably.

    Attributes:
        input: all of it, cached and written to the cache included.
        reasoning: the part of ``output`` that was thinking.
    """

    input: int | None = None
    output: int | None = None
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0


class Reply(Struct, frozen=True):
    """A reply, read."""

    blocks: tuple[Block, ...]
    stop: StopKind
    counts: Counts
    model: str = ""


def loads(data: bytes | str) -> Json:
    """Read JSON strictly: finite numbers, integers of 64 bits, whole Unicode, bounded depth.

    Raises:
        Unusable: it is not that.
    """
    try:
        value = json.loads(data, parse_constant=_refuse, parse_float=_finite, parse_int=_bounded)
    except (ValueError, RecursionError) as fault:
        raise Unusable(f"not usable JSON ({type(fault).__name__}: {fault})"[:200]) from None
    _check_depth(value)
    return _whole(value)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large")
    return value


def _bounded(text: str) -> int:
    if len(text) > _INT_DIGITS:
        raise ValueError(f"{text[:20]}... has more than {_INT_DIGITS} digits")
    return int(text)


def _check_depth(value: Json) -> None:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
        if not below:
            return
        level = below
    raise Unusable(f"nested deeper than {MAX_DEPTH} levels")


def whole(text: str) -> str:
    """Text that UTF-8 can hold: a lone surrogate (a byte of a file's name) as its escape."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def _whole(value: Json) -> Json:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {whole(key): _whole(item) for key, item in value.items()}
    return value


# --- parts of a reply -----------------------------------------------------------------------------


def an_object(value: Json, what: str) -> dict[str, Json]:
    """The value, if it is an object.

    Raises:
        Unusable: it is not.
    """
    if not isinstance(value, dict):
        raise Unusable(f"{what} is not an object")
    return value


def a_list(value: Json, what: str) -> list[Json]:
    """The value, if it is a list of a sane length.

    Raises:
        Unusable: it is not.
    """
    if not isinstance(value, list):
        raise Unusable(f"{what} is not a list")
    if len(value) > MAX_BLOCKS:
        raise Unusable(f"{what} has {len(value)} entries; at most {MAX_BLOCKS} make sense")
    return value


def a_text(value: Json, what: str) -> str:
    """The value, if it is text.

    Raises:
        Unusable: it is not.
    """
    if not isinstance(value, str):
        raise Unusable(f"{what} is not text")
    return value


def a_name(value: Json) -> str:
    """A model's name as it may stand in a record, empty when it is none."""
    return value[:200] if isinstance(value, str) and value.isprintable() else ""


def count(value: Json) -> int | None:
    """The value, if it can be a count of tokens."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= MAX_COUNT else None


def some(value: Json) -> int:
    """A count that may be missing."""
    return count(value) or 0


def members(value: Json) -> Mapping[str, Json]:
    """The value's members, none when it is no object."""
    return value if isinstance(value, dict) else {}


# --- calls ----------------------------------------------------------------------------------------


@dataclass
class Calls:
    """Makes the calls of one reply well-formed.

    An id that is missing, strange or used before in the conversation is replaced by one of ours:
    both sides of a call are written by us from then on, so any unique id will do.
    """

    request: Request
    made: list[ToolCall] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._taken = {
            block.id
            for message in self.request.messages
            for block in message.blocks
            if isinstance(block, ToolCall)
        }

    def add(self, given_id: Json, name: Json, arguments: Json) -> ToolCall:
        """One call; ``arguments`` as an object, or as JSON text of one.

        Raises:
            Unusable: too many calls, or unreadable arguments for a tool whose schema is open.
        """
        if len(self.made) >= MAX_CALLS:
            raise Unusable(f"it asks for more than {MAX_CALLS} calls at once")
        call = ToolCall(self._id(given_id), _tool_name(name), self._arguments(name, arguments))
        self.made.append(call)
        return call

    def _id(self, given: Json) -> str:
        usable = isinstance(given, str) and _NAME.fullmatch(given) and given not in self._taken
        number = len(self._taken) + 1
        chosen = given if usable else f"call_{number}"
        while chosen in self._taken:
            number += 1
            chosen = f"call_{number}"
        self._taken.add(chosen)
        return str(chosen)

    def _arguments(self, name: Json, given: Json) -> dict[str, Json]:
        read = given
        if isinstance(given, str):
            try:
                read = loads(given) if given.strip() else {}
            except Unusable:
                read = None
        if isinstance(read, dict):
            return read
        for tool in self.request.tools:
            if tool.name == name and tool.schema.get("additionalProperties") is not False:
                raise Unusable(f"its arguments for {tool.name} are no JSON object")
        shown = given if isinstance(given, str) else json.dumps(given)
        return {UNREADABLE: shown[:2000]}


def _tool_name(given: Json) -> str:
    if isinstance(given, str) and _NAME.fullmatch(given):
        return given
    # Never quietly turned into the name of a tool that exists.
    letters = re.sub(r"[^A-Za-z0-9_-]", "_", given)[:40] if isinstance(given, str) else ""
    return f"no_such_tool_{letters}"


def settle(blocks: Iterable[Block], stop: StopKind) -> tuple[tuple[Block, ...], StopKind]:
    """What may be acted on: no call of a turn that was cut off, refused or filtered.

    A cut call may lack arguments that change what it means.
    """
    kept: Sequence[Block] = [b for b in blocks if not (isinstance(b, Text) and not b.text.strip())]
    if stop in {"max_tokens", "refused", "filtered"}:
        return tuple(block for block in kept if not isinstance(block, ToolCall)), stop
    if any(isinstance(block, ToolCall) for block in kept):
        return tuple(kept), "tool_use"
    return tuple(kept), "end" if stop == "tool_use" else stop


def means_nothing_alone(block: Block) -> bool:
    """Whether a block is reasoning, which no API takes back without what it led to."""
    return isinstance(block, Opaque) and members(block.payload).get("type") in REASONING
