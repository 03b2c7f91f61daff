"""Messages as attributes of a span, by the GenAI conventions: JSON, and not too long."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from orchestrator.engine.types import Aside, Block, Message, Text, ToolCall, ToolResult

MAX_CONTENT = 32_000
"""Characters of an attribute that holds content; the rest is cut, and the cut is said. Of messages
the longest texts are cut, so that they are JSON still."""

BODIES = {
    "text": "content",
    "reasoning": "content",
    "tool_call": "arguments",
    "tool_call_response": "response",
}
"""Type of a part → its field that can be long."""

Part = dict[str, Any]


def text_part(text: str) -> Part:
    """A text."""
    return {"type": "text", "content": text}


def describe_block(block: Block) -> Part:
    """A block of a message."""
    match block:
        case Text(text) | Aside(text):
            return text_part(text)
        case ToolCall(id_, name, arguments):
            return {"type": "tool_call", "id": id_, "name": name, "arguments": dict(arguments)}
        case ToolResult(id_, content):
            return {"type": "tool_call_response", "id": id_, "response": content}
    return {"type": "reasoning", "content": json.dumps(block.payload, ensure_ascii=False)}


def describe_messages(messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
    """What a model was sent; results of tools are messages of their own."""
    for message in messages:
        results = [block for block in message.blocks if isinstance(block, ToolResult)]
        others = [block for block in message.blocks if not isinstance(block, ToolResult)]
        for role, blocks in (("tool", results), (message.role, others)):
            if blocks:
                yield {"role": role, "parts": [*map(describe_block, blocks)]}


def cut_text(text: str, most: int = MAX_CONTENT) -> str:
    """The beginning of a text that is too long, and how much is cut."""
    cut = len(text) - most
    return f"{text[:most]} [{cut} characters cut]" if cut > 0 else text


class MessageWriter:
    """Writes messages without our own secrets."""

    def __init__(self, redact: Callable[[Any], Any]) -> None:
        self._redact = redact
        # A turn sends the texts of those before it again.
        self._redact_text = lru_cache(maxsize=1024)(redact)

    def write(self, messages: Iterable[dict[str, Any]]) -> str:
        """Messages as JSON."""
        shown = list(messages)
        parts = iter(self._fit([part for message in shown for part in message["parts"]]))
        return _dump([{**one, "parts": [next(parts) for _ in one["parts"]]} for one in shown])

    def write_parts(self, parts: Sequence[Part]) -> str:
        """Parts of a message as JSON."""
        return _dump(self._fit(parts))

    def _fit(self, parts: Sequence[Part]) -> list[Part]:
        clean = [{name: self._clean(value) for name, value in part.items()} for part in parts]
        bodies = [part[BODIES[part["type"]]] for part in clean]
        texts = [body if isinstance(body, str) else _dump(body) for body in bodies]
        most = _most_of_each(map(len, texts))
        return [
            {**part, BODIES[part["type"]]: cut_text(text, most)} if len(text) > most else part
            for part, text in zip(clean, texts, strict=True)
        ]

    def _clean(self, value: Any) -> Any:
        return (self._redact_text if isinstance(value, str) else self._redact)(value)


def _most_of_each(sizes: Iterable[int]) -> int:
    """The characters that each text may have, so that all have no more than an attribute may."""
    left, ordered = MAX_CONTENT, sorted(sizes)
    for at, size in enumerate(ordered):
        share = left // (len(ordered) - at)
        if size > share:
            return share
        left -= size
    return MAX_CONTENT


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
