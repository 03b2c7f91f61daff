"""OpenAI's Responses API without storage: strict request validation, replies and streams."""

import json
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from orchestrator.engine.types import Block, Json, Opaque, Response, Text, ToolCall, Usage
from tests.model_server import api_validation
from tests.model_server.api_validation import (
    Rejected,
    check_schema,
    check_typed_object,
    load_schemas,
)
from tests.model_server.server_script import Signer

PATH = "/v1/responses"

_SCHEMAS = load_schemas("responses")
_INCOMPLETE = {"max_tokens": "max_output_tokens", "filtered": "content_filter"}


class ResponsesApi:
    """Validates requests and builds replies of the API."""

    def __init__(self, key: str, seals: Signer) -> None:
        self._key, self._seals = key, seals

    def check(self, headers: Mapping[str, str], body: dict[str, Json]) -> None:
        """Validate a request as the service does.

        Raises:
            Rejected: with the service's status and message.
        """
        api_validation.check_key(headers, self._key)
        check_schema(body, _SCHEMAS["body"], "request")
        tools = body.get("tools", [])
        api_validation.check_tools((t["name"] for t in tools), (t["parameters"] for t in tools))
        if "tool_choice" in body and not tools:
            raise Rejected("Tool choice 'auto' must be specified with 'tools' parameter.")
        form = body.get("text", {}).get("format")
        if form and form["strict"]:
            api_validation.check_strict_schema(
                form["schema"], "text.format.schema", all_required=True
            )
        self._check_input(body["input"])

    def _check_input(self, items: list[Json]) -> None:
        called: dict[str, bool] = {}
        for at, item in enumerate(items):
            where = f"input[{at}]"
            kind = check_typed_object(item, _SCHEMAS["items"], where)
            if kind == "message":
                _check_message(item, where)
            elif kind == "function_call":
                if item["call_id"] in called:
                    raise Rejected(f"{where}: Duplicate function call id {item['call_id']}.")
                called[item["call_id"]] = False
            elif kind == "function_call_output":
                if called.get(item["call_id"]) is not False:
                    raise Rejected(
                        f"No tool call found for function call output with call_id "
                        f"{item['call_id']}."
                    )
                called[item["call_id"]] = True
            else:
                self._check_reasoning(items, at)
        unanswered = [name for name, done in called.items() if not done]
        if unanswered:
            raise Rejected(f"No tool output found for function call {unanswered[0]}.")

    def _check_reasoning(self, items: list[Json], at: int) -> None:
        item = items[at]
        if item["encrypted_content"] != self._seals.sign(item["id"]):
            raise Rejected(f"The encrypted content for item {item['id']} could not be verified.")
        after = items[at + 1] if at + 1 < len(items) else {"type": "nothing"}
        own = after["type"] in {"function_call", "reasoning"} or after.get("role") == "assistant"
        if not own:
            raise Rejected(
                f"Item '{item['id']}' of type 'reasoning' was provided without its required "
                "following item."
            )

    def agent(self, body: dict[str, Json]) -> str:
        """Parse the agent's name."""
        return api_validation.parse_agent_name(
            body.get("instructions", ""), _first_texts(body["input"])
        )

    def schema(self, body: dict[str, Json]) -> Mapping[str, Json] | None:
        """Return the output schema of a request, None without one."""
        form = body.get("text", {}).get("format")
        return form["schema"] if form else None

    def document(
        self, line: Response, usage: Usage, number: int, body: dict[str, Json], written: int = 0
    ) -> dict[str, Json]:
        """Build the reply that is not streamed."""
        reason = _INCOMPLETE.get(line.stop)
        content = "refusal" if line.stop == "refused" else "output_text"
        return {
            "id": f"resp_{number:08}",
            "object": "response",
            "created_at": 0,
            "status": "incomplete" if reason else "completed",
            "incomplete_details": {"reason": reason} if reason else None,
            "error": None,
            "model": body["model"],
            "output": [
                self._item(block, f"{number:06}_{at}", content)
                for at, block in enumerate(line.blocks)
            ],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": usage.input_tokens,
                "input_tokens_details": {
                    "cached_tokens": usage.cached_tokens,
                    "cache_write_tokens": written,
                },
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
                "total_tokens": usage.tokens,
            },
        }

    def _item(self, block: Block, name: str, content: str) -> Json:
        match block:
            case Text(text):
                key = "refusal" if content == "refusal" else "text"
                extra: dict[str, Json] = {} if key == "refusal" else {"annotations": []}
                return {
                    "id": f"msg_{name}",
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": content, key: text, **extra}],
                }
            case ToolCall(id, called, arguments):
                return {
                    "id": f"fc_{name}",
                    "type": "function_call",
                    "call_id": id,
                    "name": called,
                    "arguments": json.dumps(dict(arguments)),
                    "status": "completed",
                }
            case Opaque(_, payload) if payload.get("type") == "thinking":
                return {
                    "id": f"rs_{name}",
                    "type": "reasoning",
                    "summary": [],
                    "encrypted_content": self._seals.sign(f"rs_{name}"),
                }
            case Opaque(_, payload):
                return payload
        raise TypeError(f"an answer cannot hold {block!r:.80}")

    def events(
        self, document: dict[str, Json], body: dict[str, Json]
    ) -> Iterator[tuple[str, Json]]:
        """Build the same reply as stream events: (event name, data)."""
        number = 0

        def event(kind: str, **members: Any) -> tuple[str, Json]:
            nonlocal number
            number += 1
            return kind, {"type": kind, "sequence_number": number, **members}

        start = {**document, "output": [], "status": "in_progress"}
        yield event("response.created", response=start)
        for at, item in enumerate(document["output"]):
            yield event("response.output_item.added", output_index=at, item=_without_content(item))
            if item["type"] == "message":
                for place, part in enumerate(item["content"]):
                    where = {"output_index": at, "content_index": place, "item_id": item["id"]}
                    yield event("response.content_part.added", part={**part, "text": ""}, **where)
                    for piece in api_validation.split_in_half(part.get("text", "")):
                        delta = {"delta": piece, "logprobs": [], **where}
                        yield event("response.output_text.delta", **delta)
                    yield event("response.content_part.done", part=part, **where)
            yield event("response.output_item.done", output_index=at, item=item)
        yield event(f"response.{document['status']}", response=document)

    def error(self, status: int, message: str) -> dict[str, Json]:
        """Build the body of an error."""
        kind = "invalid_request_error" if status < 500 else "server_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _check_message(item: dict[str, Json], where: str) -> None:
    content = item["content"]
    if isinstance(content, str) and item["role"] == "assistant" and content.strip():
        return
    if not isinstance(content, list) or not content:
        raise Rejected(f"{where}.content: expected an array of content parts")
    kinds = {"output_text", "refusal"} if item["role"] == "assistant" else {"input_text"}
    for part in content:
        if not isinstance(part, dict) or part.get("type") not in kinds:
            raise Rejected(f"{where}.content: Supported values are: {', '.join(sorted(kinds))}")
        if "input_text" in kinds:
            check_schema(part, _SCHEMAS["part"], where)


def _without_content(item: dict[str, Json]) -> dict[str, Json]:
    if item["type"] == "message":
        return {**item, "content": [], "status": "in_progress"}
    return {**item, "arguments": ""} if item["type"] == "function_call" else item


def _first_texts(items: list[Any]) -> str:
    """The text of the user's messages before anything else."""
    first = takewhile(lambda item: item.get("role") == "user", items)
    return "\n".join(api_validation.join_texts(item.get("content")) for item in first)
