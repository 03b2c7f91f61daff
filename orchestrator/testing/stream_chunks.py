"""Splits replies into the deltas of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from orchestrator.engine.types import Json


def split_in_half(text: str) -> tuple[str, str]:
    """Split a text in two."""
    at = len(text) // 2
    return text[:at], text[at:]


def split_block(block: Mapping[str, Json]) -> tuple[Json, list[Json]]:
    """Split a block of the Messages API into its empty start and its deltas."""
    match block["type"]:
        case "text":
            added = [
                {"type": "text_delta", "text": piece} for piece in split_in_half(block["text"])
            ]
            return {**block, "text": ""}, added
        case "tool_use":
            written = ("", *split_in_half(json.dumps(block["input"])))
            added = [{"type": "input_json_delta", "partial_json": piece} for piece in written]
            return {**block, "input": {}}, added
        case "thinking":
            said = split_in_half(block["thinking"])
            added = [{"type": "thinking_delta", "thinking": piece} for piece in said]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*added, signed]
    return block, []


def split_message(message: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    """Split a message of Chat Completions into deltas."""
    yield {"role": "assistant"}
    for key in ("reasoning_content", "content", "refusal"):
        for piece in split_in_half(message.get(key) or ""):
            yield {key: piece}
    for at, call in enumerate(message.get("tool_calls") or ()):
        first, second = split_in_half(call["function"]["arguments"])
        begun = {**call["function"], "arguments": first}
        yield {"tool_calls": [{"index": at, **call, "function": begun}]}
        yield {"tool_calls": [{"index": at, "function": {"arguments": second}}]}
