"""Anthropic's Messages API: strict request validation, replies and streams."""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise

from orchestrator.engine.types import Block, Json, Opaque, Response, Text, ToolCall, Usage
from tests.model_server import api_validation
from tests.model_server.api_validation import (
    Rejected,
    check_schema,
    check_typed_object,
    load_schemas,
    split_in_half,
    without_marks,
)
from tests.model_server.server_script import Signer

PATH = "/v1/messages"
VERSIONS = frozenset({"2023-06-01", "2026-10-21"})
MAX_BREAKPOINTS = 4

_SCHEMAS = load_schemas("messages")
_STOPS = {"end": "end_turn", "paused": "pause_turn", "refused": "refusal", "filtered": "refusal"}


class MessagesApi:
    """Validates requests and builds replies of the API."""

    def __init__(self, key: str, seals: Signer) -> None:
        self._key, self._seals = key, seals

    def check(self, headers: Mapping[str, str], body: dict[str, Json]) -> None:
        """Validate a request as the service does.

        Raises:
            Rejected: with the service's status and message.
        """
        api_validation.check_key(headers, self._key, also="x-api-key")
        if headers.get("anthropic-version") not in VERSIONS:
            raise Rejected("anthropic-version: header is required")
        check_schema(body, _SCHEMAS["body"], "request")
        if body.get("tool_choice", {}).get("type") == "any":
            raise Rejected("tool_choice: forced tool use is not supported for this model")
        if "tool_choice" in body and "tools" not in body:
            raise Rejected("tool_choice: may only be specified while providing tools")
        tools = body.get("tools", [])
        api_validation.check_tools((t["name"] for t in tools), (t["input_schema"] for t in tools))
        form = body.get("output_config", {}).get("format")
        if form:
            api_validation.check_strict_schema(
                form["schema"], "output_config.format.schema", all_required=False
            )
        if json.dumps(body).count('"cache_control"') > MAX_BREAKPOINTS:
            raise Rejected(
                f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided"
            )
        self._check_talk(body["messages"])
        for at, message in enumerate(body["messages"]):
            self._check_seals(body, at, message["content"])

    def _check_talk(self, messages: list[Json]) -> None:
        for at, message in enumerate(messages):
            where = f"messages.{at}"
            check_schema(message, _SCHEMAS["message"], where)
            if message["role"] != ("assistant" if at % 2 else "user"):
                raise Rejected(f'{where}: roles must alternate between "user" and "assistant"')
            kinds = [
                check_typed_object(
                    block, _SCHEMAS["blocks"][message["role"]], f"{where}.content.{place}"
                )
                for place, block in enumerate(message["content"])
            ]
            if kinds[-1] == "thinking":
                raise Rejected(
                    f"{where}: The final block in an assistant message cannot be thinking"
                )
            if sorted(kinds, key=lambda kind: kind != "tool_result") != kinds and at % 2 == 0:
                raise Rejected(f"{where}: tool_result blocks must come first")
        if messages[-1]["role"] == "assistant":
            raise Rejected("This model does not support assistant message prefill")
        _check_tool_results(messages)

    def _check_seals(self, body: dict[str, Json], at: int, content: Json) -> None:
        thoughts = [b for b in content if isinstance(b, dict) and b["type"] == "thinking"]
        for block in thoughts:
            if block["signature"] != self._sign(block["thinking"], body, body["messages"][:at]):
                raise Rejected(
                    f"messages.{at}: Invalid `signature` in `thinking` block. "
                    "The block is bound to a different conversation."
                )

    def _sign(self, thinking: str, body: dict[str, Json], before: list[Json]) -> str:
        """Sign reasoning together with everything before it: any change there invalidates it."""
        prefix = without_marks([body.get("tools"), body.get("system"), before], "cache_control")
        return self._seals.sign([thinking, prefix])

    def agent(self, body: dict[str, Json]) -> str:
        """Parse the agent's name."""
        system = body.get("system") or [{"text": ""}]
        return api_validation.parse_agent_name(
            system[0]["text"], api_validation.join_texts(body["messages"][0]["content"])
        )

    def schema(self, body: dict[str, Json]) -> Mapping[str, Json] | None:
        """Return the output schema of a request, None without one."""
        form = body.get("output_config", {}).get("format")
        return form["schema"] if form else None

    def document(
        self, line: Response, usage: Usage, number: int, body: dict[str, Json], written: int = 0
    ) -> dict[str, Json]:
        """Build the reply that is not streamed."""
        calls = any(isinstance(block, ToolCall) for block in line.blocks)
        stop = "tool_use" if calls and line.stop == "end" else line.stop
        return {
            "id": f"msg_{number:08}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [self._block(block, body) for block in line.blocks],
            "stop_reason": _STOPS.get(stop, stop),
            "stop_sequence": None,
            "usage": {
                "input_tokens": usage.input_tokens - usage.cached_tokens - written,
                "cache_read_input_tokens": usage.cached_tokens,
                "cache_creation_input_tokens": written,
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
            },
        }

    def _block(self, block: Block, body: dict[str, Json]) -> Json:
        match block:
            case Text(text):
                return {"type": "text", "text": text}
            case ToolCall(id, name, arguments):
                return {"type": "tool_use", "id": id, "name": name, "input": dict(arguments)}
            case Opaque(_, payload) if payload.get("type") == "thinking":
                signed = self._sign(payload["thinking"], body, body["messages"])
                return {**payload, "signature": signed}
            case Opaque(_, payload):
                return payload
        raise TypeError(f"an answer cannot hold {block!r:.80}")

    def events(
        self, document: dict[str, Json], body: dict[str, Json]
    ) -> Iterator[tuple[str, Json]]:
        """Build the same reply as stream events: (event name, data)."""
        used = {**document["usage"], "output_tokens": 1}
        start = {**document, "content": [], "stop_reason": None, "usage": used}
        yield "message_start", {"type": "message_start", "message": start}
        yield "ping", {"type": "ping"}
        for at, block in enumerate(document["content"]):
            empty, deltas = _split_block(block)
            place = {"index": at}
            yield (
                "content_block_start",
                {"type": "content_block_start", **place, "content_block": empty},
            )
            for delta in deltas:
                yield (
                    "content_block_delta",
                    {"type": "content_block_delta", **place, "delta": delta},
                )
            yield "content_block_stop", {"type": "content_block_stop", **place}
        end = {"stop_reason": document["stop_reason"], "stop_sequence": None}
        yield "message_delta", {"type": "message_delta", "delta": end, "usage": document["usage"]}
        yield "message_stop", {"type": "message_stop"}

    def error(self, status: int, message: str) -> dict[str, Json]:
        """Build the body of an error."""
        kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
        kind = "invalid_request_error" if status < 500 else "api_error"
        return {"type": "error", "error": {"type": kinds.get(status, kind), "message": message}}


def _check_tool_results(messages: list[Json]) -> None:
    """Check that each tool call has exactly one result, in the next message."""
    seen: set[str] = set()
    before: list[Json] = [{"content": []}]
    for at, (left, right) in enumerate(pairwise(before + messages)):
        called = [block["id"] for block in left["content"] if block["type"] == "tool_use"]
        answered = [b["tool_use_id"] for b in right["content"] if b["type"] == "tool_result"]
        twice = {name for name in called if called.count(name) > 1 or name in seen}
        if twice:
            raise Rejected(f"messages.{at - 1}: `tool_use` ids must be unique ({min(twice)})")
        seen.update(called)
        stray = [name for name in answered if name not in called or answered.count(name) > 1]
        if stray:
            raise Rejected(
                f"messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {stray[0]}"
            )
        open_calls = set(called) - set(answered)
        if open_calls:
            raise Rejected(
                f"messages.{at - 1}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {min(open_calls)}"
            )


def _split_block(block: Mapping[str, Json]) -> tuple[Json, list[Json]]:
    """Split a block into its empty start and its deltas."""
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
            pieces = split_in_half(block["thinking"])
            added = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*added, signed]
    return block, []
