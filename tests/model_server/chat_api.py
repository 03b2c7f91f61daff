"""The Chat Completions API: strict request validation, replies and streams."""

import json
from collections.abc import Iterator, Mapping

from orchestrator.engine.types import Json, Opaque, Response, Text, ToolCall, Usage
from tests.model_server import api_validation
from tests.model_server.api_validation import Rejected, check_schema, load_schemas, split_in_half

PATH = "/v1/chat/completions"

_SCHEMAS = load_schemas("chat")
_STOPS = {"end": "stop", "max_tokens": "length", "filtered": "content_filter", "refused": "stop"}


class ChatApi:
    """Validates requests and builds replies of the API."""

    def __init__(self, key: str) -> None:
        self._key = key

    def check(self, headers: Mapping[str, str], body: dict[str, Json]) -> None:
        """Validate a request as such servers do.

        Raises:
            Rejected: with the server's status and message.
        """
        api_validation.check_key(headers, self._key)
        check_schema(body, _SCHEMAS["body"], "request")
        tools = [tool["function"] for tool in body.get("tools", [])]
        api_validation.check_tools((t["name"] for t in tools), (t["parameters"] for t in tools))
        if "stream_options" in body and not body.get("stream"):
            raise Rejected("The 'stream_options' parameter is only allowed when 'stream' is set.")
        if "tool_choice" in body and not tools:
            raise Rejected("When using `tool_choice`, `tools` must be set.")
        if form := body.get("response_format"):
            where = "response_format"
            api_validation.check_typed_object(form, _SCHEMAS["formats"], where)
            given = form.get("json_schema", {})
            if given.get("strict"):
                api_validation.check_strict_schema(given["schema"], where, all_required=True)
        self._check_talk(body["messages"])

    def _check_talk(self, messages: list[Json]) -> None:
        waiting: list[str] = []
        seen: set[str] = set()
        for at, message in enumerate(messages):
            role = message.get("role") if isinstance(message, dict) else None
            if role not in _SCHEMAS["roles"] or (role == "system") != (at == 0):
                raise Rejected(f"messages[{at}]: role {role!r} cannot stand here")
            check_schema(message, _SCHEMAS["roles"][role], f"messages[{at}]")
            if role == "tool":
                if message["tool_call_id"] not in waiting:
                    raise Rejected(
                        "messages with role 'tool' must be a response to a preceding message "
                        "with 'tool_calls'"
                    )
                waiting.remove(message["tool_call_id"])
                continue
            if waiting:
                raise Rejected(f"tool_call_ids did not have response messages: {waiting[0]}")
            waiting = [call["id"] for call in message.get("tool_calls", [])]
            if seen & set(waiting) or len(set(waiting)) < len(waiting):
                raise Rejected("tool call ids must be unique")
            seen.update(waiting)
            if role == "assistant" and not waiting and not message["content"]:
                raise Rejected(
                    f"messages[{at}]: an assistant message must have content or tool_calls"
                )
        if waiting:
            raise Rejected(f"tool_call_ids did not have response messages: {waiting[0]}")

    def agent(self, body: dict[str, Json]) -> str:
        """Parse the agent's name."""
        system, first = (message.get("content") for message in body["messages"][:2])
        return api_validation.parse_agent_name(str(system), api_validation.join_texts(first))

    def schema(self, body: dict[str, Json]) -> Mapping[str, Json] | None:
        """Return the output schema, from the parameter or the system prompt; None without one."""
        form = body.get("response_format", {}).get("json_schema")
        if form:
            schema: Mapping[str, Json] = form["schema"]
            return schema
        _, _, schema_text = str(body["messages"][0]["content"]).partition(
            "under this JSON Schema:\n"
        )
        return json.JSONDecoder().raw_decode(schema_text)[0] if schema_text else None

    def document(
        self, line: Response, usage: Usage, number: int, body: dict[str, Json], written: int = 0
    ) -> dict[str, Json]:
        """Build the reply that is not streamed."""
        calls = [block for block in line.blocks if isinstance(block, ToolCall)]
        text = "".join(block.text for block in line.blocks if isinstance(block, Text))
        message: dict[str, Json] = {"role": "assistant", "content": text or None}
        if line.stop == "refused":
            message |= {"content": None, "refusal": text}
        for block in line.blocks:
            if isinstance(block, Opaque):
                message["reasoning_content"] = block.payload.get("thinking", "")
        stop = _STOPS.get(line.stop, "stop")
        if calls:
            message["tool_calls"] = [_render_call(call) for call in calls]
            stop = "tool_calls" if line.stop in {"end", "tool_use"} else stop
        return {
            "id": f"chatcmpl-{number:08}",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": stop, "logprobs": None}],
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.tokens,
                "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
                "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            },
        }

    def events(
        self, document: dict[str, Json], body: dict[str, Json]
    ) -> Iterator[tuple[str, Json]]:
        """Build the same reply as stream events: (event name, data)."""
        choice = document["choices"][0]
        head = {key: document[key] for key in ("id", "created", "model")}
        head["object"] = "chat.completion.chunk"
        parts = [(delta, None) for delta in _split_message(choice["message"])]
        for part, stop in (*parts, ({}, choice["finish_reason"])):
            yield "", {**head, "choices": [{"index": 0, "delta": part, "finish_reason": stop}]}
        if body.get("stream_options", {}).get("include_usage"):
            yield "", {**head, "choices": [], "usage": document["usage"]}
        yield "", "[DONE]"

    def error(self, status: int, message: str) -> dict[str, Json]:
        """An error as such a server gives it."""
        return {"error": {"message": message, "type": "error", "param": None, "code": status}}


def _render_call(call: ToolCall) -> Json:
    written = json.dumps(dict(call.arguments))
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": written},
    }


def _split_message(message: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    """Split a message into deltas."""
    yield {"role": "assistant"}
    for key in ("reasoning_content", "content", "refusal"):
        for piece in split_in_half(message.get(key) or ""):
            yield {key: piece}
    for at, call in enumerate(message.get("tool_calls") or ()):
        first, second = split_in_half(call["function"]["arguments"])
        begun = {**call["function"], "arguments": first}
        yield {"tool_calls": [{"index": at, **call, "function": begun}]}
        yield {"tool_calls": [{"index": at, "function": {"arguments": second}}]}
