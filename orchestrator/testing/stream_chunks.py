"""Answers in pieces, as streams have them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from orchestrator.engine.types import Json


def halves(text: str) -> tuple[str, str]:
    """A text in two pieces."""
    at = len(text) // 2
    return text[:at], text[at:]


def of_block(block: Mapping[str, Json]) -> tuple[Json, list[Json]]:
    """A block of the Messages API: its empty start, and what is added to it."""
    match block["type"]:
        case "text":
            added = [{"type": "text_delta", "text": piece} for piece in halves(block["text"])]
            return {**block, "text": ""}, added
        case "tool_use":
            written = ("", *halves(json.dumps(block["input"])))
            added = [{"type": "input_json_delta", "partial_json": piece} for piece in written]
            return {**block, "input": {}}, added
        case "thinking":
            said = halves(block["thinking"])
            added = [{"type": "thinking_delta", "thinking": piece} for piece in said]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*added, signed]
    return block, []


def of_message(message: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    """A message of Chat Completions."""
    yield {"role": "assistant"}
    for key in ("reasoning_content", "content", "refusal"):
        for piece in halves(message.get(key) or ""):
            yield {key: piece}
    for at, call in enumerate(message.get("tool_calls") or ()):
        first, second = halves(call["function"]["arguments"])
        begun = {**call["function"], "arguments": first}
        yield {"tool_calls": [{"index": at, **call, "function": begun}]}
        yield {"tool_calls": [{"index": at, "function": {"arguments": second}}]}
