"""The Chat Completions API, as strictly as servers of it go; it can be told what it lacks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from orchestrator.engine.types import Json, Opaque, Response, Text, ToolCall, Usage
from orchestrator.testing import api_rules, stream_chunks
from orchestrator.testing.api_rules import Refused, compiled, hold, shape

PATH = "/v1/chat/completions"

_STRING = {"type": "string"}
_FUNCTION = shape(
    {"name": {"type": "string", "pattern": api_rules.NAME}, "parameters": {"type": "object"}},
    {"description": _STRING},
)
_CALL = shape(
    {
        "id": {"type": "string", "minLength": 1},
        "type": {"const": "function"},
        "function": shape({"name": _STRING, "arguments": _STRING}),
    }
)
_LIMIT = {"type": "integer", "minimum": 1}
_BODY = compiled(
    {
        "model": {"type": "string", "minLength": 1},
        "messages": {"type": "array", "minItems": 1},
    },
    {
        "max_tokens": _LIMIT,
        "max_completion_tokens": _LIMIT,
        "tools": {
            "type": "array",
            "minItems": 1,
            "items": shape({"type": {"const": "function"}, "function": _FUNCTION}),
        },
        "tool_choice": {"enum": ["auto", "none", "required"]},
        "parallel_tool_calls": {"type": "boolean"},
        "response_format": {"type": "object"},
        "reasoning_effort": {"enum": ["none", "minimal", "low", "medium", "high", "xhigh", "max"]},
        "stream": {"type": "boolean"},
        "stream_options": shape({"include_usage": {"type": "boolean"}}),
    },
)
_FORMATS = {
    "json_object": compiled({"type": {}}),
    "json_schema": compiled(
        {
            "type": {},
            "json_schema": shape(
                {
                    "name": {"type": "string", "pattern": api_rules.NAME},
                    "schema": {"type": "object"},
                },
                {"strict": {"type": "boolean"}},
            ),
        }
    ),
}
_ROLES = {
    "system": compiled({"role": {}, "content": _STRING}),
    "user": compiled({"role": {}, "content": {"type": "string", "minLength": 1}}),
    "tool": compiled({"role": {}, "tool_call_id": _STRING, "content": _STRING}),
    "assistant": compiled(
        {"role": {}, "content": {"type": ["string", "null"]}},
        {
            "tool_calls": {"type": "array", "minItems": 1, "items": _CALL},
            "reasoning_content": _STRING,
        },
    ),
}
_STOPS = {"end": "stop", "max_tokens": "length", "filtered": "content_filter", "refused": "stop"}
_MARK = re.compile(r"<(tool_call[^>]*)>")


class ChatApi:
    """Checks requests, and puts answers into the API's words.

    Args:
        lacks: what this server cannot do: names of request fields that it refuses, and
            ``parallel`` (one call per message), ``schemas_with_tools``, ``text`` (it writes its
            calls as marked text, and knows no others).
    """

    def __init__(self, key: str, lacks: frozenset[str]) -> None:
        self._key, self._lacks = key, lacks
        self._mark = "tool_call"

    def check(self, headers: Mapping[str, str], body: dict[str, Json]) -> None:
        """Refuse what such a server refuses.

        Raises:
            Refused: with the server's status.
        """
        api_rules.bearer(headers, self._key)
        hold(body, _BODY, "request")
        missing = sorted(self._lacks & body.keys())
        if missing:
            raise Refused(f"Unsupported parameter: '{missing[0]}'")
        tools = [tool["function"] for tool in body.get("tools", [])]
        api_rules.check_tools((t["name"] for t in tools), (t["parameters"] for t in tools))
        if "stream_options" in body and not body.get("stream"):
            raise Refused("The 'stream_options' parameter is only allowed when 'stream' is set.")
        if "tool_choice" in body and not tools:
            raise Refused("When using `tool_choice`, `tools` must be set.")
        self._check_format(body)
        self._check_talk(body["messages"])

    def _check_format(self, body: dict[str, Json]) -> None:
        form = body.get("response_format")
        if form is None:
            return
        if "tools" in body and "schemas_with_tools" in self._lacks:
            raise Refused("Cannot use custom grammar constraints with tools.")
        if api_rules.one_of(form, _FORMATS, "response_format") == "json_schema":
            given = form["json_schema"]
            if given.get("strict"):
                api_rules.check_strict(given["schema"], "response_format", all_required=True)

    def _check_talk(self, messages: list[Json]) -> None:
        waiting: list[str] = []
        seen: set[str] = set()
        for at, message in enumerate(messages):
            role = message.get("role") if isinstance(message, dict) else None
            if role not in _ROLES or (role == "system") != (at == 0):
                raise Refused(f"messages[{at}]: role {role!r} cannot stand here")
            hold(message, _ROLES[role], f"messages[{at}]")
            if role == "tool":
                if message["tool_call_id"] not in waiting:
                    raise Refused(
                        "messages with role 'tool' must be a response to a preceding message "
                        "with 'tool_calls'"
                    )
                waiting.remove(message["tool_call_id"])
                continue
            if waiting:
                raise Refused(f"tool_call_ids did not have response messages: {waiting[0]}")
            waiting = [call["id"] for call in message.get("tool_calls", [])]
            if len(waiting) > 1 and "parallel" in self._lacks:
                raise Refused("This model only supports single tool-calls at once!")
            if seen & set(waiting) or len(set(waiting)) < len(waiting):
                raise Refused("tool call ids must be unique")
            seen.update(waiting)
            if role == "assistant" and not waiting and not message["content"]:
                raise Refused(
                    f"messages[{at}]: an assistant message must have content or tool_calls"
                )
        if waiting:
            raise Refused(f"tool_call_ids did not have response messages: {waiting[0]}")

    def agent(self, body: dict[str, Json]) -> str:
        """Who asks."""
        system = str(body["messages"][0].get("content"))
        marks = _MARK.findall(system)
        self._mark = marks[-1] if marks else "tool_call"
        return api_rules.agent_in(system)

    def schema(self, body: dict[str, Json]) -> Mapping[str, Json] | None:
        """The report's schema: as a parameter, or as told in the system prompt."""
        form = body.get("response_format", {}).get("json_schema")
        if form:
            schema: Mapping[str, Json] = form["schema"]
            return schema
        _, _, told = str(body["messages"][0]["content"]).partition("under this JSON Schema:\n")
        return json.JSONDecoder().raw_decode(told)[0] if told else None

    def prompt(self, body: dict[str, Json]) -> tuple[str, bool]:
        """What is read in its order; nothing is cached."""
        return json.dumps([body.get("tools"), body["messages"]]), False

    def document(
        self, line: Response, usage: Usage, number: int, body: dict[str, Json]
    ) -> dict[str, Json]:
        """An answer as such a server gives it."""
        calls = [block for block in line.blocks if isinstance(block, ToolCall)]
        text = "".join(block.text for block in line.blocks if isinstance(block, Text))
        message: dict[str, Json] = {"role": "assistant", "content": text or None}
        if line.stop == "refused":
            message |= {"content": None, "refusal": text}
        for block in line.blocks:
            if isinstance(block, Opaque):
                message["reasoning_content"] = block.payload.get("thinking", "")
        stop = _STOPS.get(line.stop, "stop")
        if calls and "text" in self._lacks:
            message["content"] = text + "".join(map(self._as_text, calls))
        elif calls:
            message["tool_calls"] = [_call(call) for call in calls]
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

    def _as_text(self, call: ToolCall) -> str:
        written = json.dumps({"name": call.name, "arguments": dict(call.arguments)})
        return f"\n<{self._mark}>\n{written}\n</{self._mark}>"

    def events(
        self, document: dict[str, Json], body: dict[str, Json]
    ) -> Iterator[tuple[str, Json]]:
        """The same answer as a stream."""
        choice = document["choices"][0]
        head = {key: document[key] for key in ("id", "created", "model")}
        head["object"] = "chat.completion.chunk"
        parts = [(delta, None) for delta in stream_chunks.of_message(choice["message"])]
        for part, stop in (*parts, ({}, choice["finish_reason"])):
            yield "", {**head, "choices": [{"index": 0, "delta": part, "finish_reason": stop}]}
        if body.get("stream_options", {}).get("include_usage"):
            yield "", {**head, "choices": [], "usage": document["usage"]}
        yield "", "[DONE]"

    def error(self, status: int, message: str) -> dict[str, Json]:
        """An error as such a server gives it."""
        return {"error": {"message": message, "type": "error", "param": None, "code": status}}


def _call(call: ToolCall) -> Json:
    written = json.dumps(dict(call.arguments))
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": written},
    }
