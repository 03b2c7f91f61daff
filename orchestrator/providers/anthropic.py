"""Claude through the Messages API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchestrator.engine.types import (
    Aside,
    Block,
    Json,
    Opaque,
    Request,
    StopKind,
    Text,
    ToolCall,
    ToolResult,
)
from orchestrator.providers import stream_parsing
from orchestrator.providers.base import ApiModel
from orchestrator.providers.conversation import (
    MergedMessage,
    merge_messages,
    render_system_parts,
    strict_output_schema,
    tool_choice,
)
from orchestrator.providers.reply_parsing import (
    Calls,
    Counts,
    Reply,
    Unusable,
    a_list,
    a_name,
    a_text,
    an_object,
    count,
    members,
    some,
)
from orchestrator.providers.stream_parsing import Events

_STOPS: dict[str, StopKind] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "pause_turn": "paused",
    "refusal": "refused",
}
_CACHED = {"type": "ephemeral"}
_ASIDES = "mid-conversation-system-clear-at-2026-08-21"
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}


class AnthropicModel(ApiModel):
    """Speaks the Messages API.

    The prefix that is cached ends after the system prompt, and after each of the last two messages
    of the user; the second of these is what the next request will find. An aside is a system
    message that clears itself: it stays in place, since reasoning is signed over all before it.
    """

    def body(self, request: Request) -> dict[str, Json]:
        """The request as the API has it."""
        can = self.provider.can
        system = [{"type": "text", "text": text} for text in render_system_parts(request, can)]
        said = merge_messages(request, self.name, asides=True)
        messages = [message for turn in said for message in _messages(turn)]
        _mark(system, messages)
        body: dict[str, Json] = {
            "model": request.model,
            "max_tokens": self.output_limit(request),
            "system": system,
            "messages": messages,
        }
        if request.tools:
            body["tools"] = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": dict(tool.schema),
                }
                for tool in request.tools
            ]
            body["tool_choice"] = self._choice(request)
        if can.streams:
            body["stream"] = True
        output = self._output(request)
        return {**body, "output_config": output} if output else body

    def _choice(self, request: Request) -> dict[str, Json]:
        can = self.provider.can
        kind = tool_choice(request, can)
        choice: dict[str, Json] = {"type": _CHOICES[kind]}
        if not can.parallel_calls and kind != "none":
            choice["disable_parallel_tool_use"] = True
        return choice

    def _output(self, request: Request) -> dict[str, Json]:
        can, output = self.provider.can, dict[str, Json]()
        if request.effort and can.effort:
            output["effort"] = request.effort
        schema = strict_output_schema(request, can)
        if schema is not None:
            output["format"] = {"type": "json_schema", "schema": schema}
        return output

    def _chunks(self, body: dict[str, Any]) -> Any:
        aside = any(message["role"] == "system" for message in body["messages"])
        return self.client.messages.with_streaming_response.create(
            **body, extra_headers={"anthropic-beta": _ASIDES} if aside else None
        )

    def joined(self, events: Events) -> dict[str, Json]:
        """The API's reply, from its events."""
        return stream_parsing.message(events)

    def read(self, document: dict[str, Json], request: Request) -> Reply:
        """The API's reply, read."""
        calls = Calls(request)
        content = a_list(document.get("content"), "its content")
        blocks = [self._read_block(an_object(block, "a block"), calls) for block in content]
        given = document.get("stop_reason")
        if not isinstance(given, str) or given not in _STOPS:
            raise Unusable(f"its stop_reason is {given!r:.60}")
        counts = _counts(document.get("usage"))
        return Reply(tuple(blocks), _STOPS[given], counts, a_name(document.get("model")))

    def _read_block(self, block: dict[str, Json], calls: Calls) -> Block:
        kind = a_text(block.get("type"), "a block's type")
        if kind == "text":
            return Text(a_text(block.get("text"), "a text block's text"))
        if kind == "tool_use":
            return calls.add(block.get("id"), block.get("name"), block.get("input"))
        if kind.endswith(("_tool_use", "_tool_result")):
            raise Unusable(f"a tool of the provider's own was run ({kind:.40}); none is enabled")
        return Opaque(self.name, block)


def _mark(system: list[dict[str, Json]], messages: list[dict[str, Json]]) -> None:
    """Set the breakpoints of the cache."""
    system[-1]["cache_control"] = _CACHED
    asked = [message for message in messages if message["role"] == "user"]
    for message in asked[-2:]:
        message["content"][-1]["cache_control"] = _CACHED


def _messages(turn: MergedMessage) -> Iterator[dict[str, Json]]:
    blocks = [_block(block) for block in turn.blocks if not isinstance(block, Aside)]
    yield {"role": turn.role, "content": blocks}
    for block in turn.blocks:
        if isinstance(block, Aside):
            yield {"role": "system", "clear_at": "next_user_message", "content": block.text}


def _block(block: Block) -> Json:
    match block:
        case Text(text):
            return {"type": "text", "text": text}
        case ToolCall(id, name, arguments):
            return {"type": "tool_use", "id": id, "name": name, "input": dict(arguments)}
        case ToolResult():
            return {
                "type": "tool_result",
                "tool_use_id": block.call_id,
                "content": block.content,
                "is_error": not block.ok,
            }
        case Opaque(_, payload):
            return payload


def _counts(usage: Json) -> Counts:
    given = members(usage)
    fresh, output = count(given.get("input_tokens")), count(given.get("output_tokens"))
    cached = some(given.get("cache_read_input_tokens"))
    written = some(given.get("cache_creation_input_tokens"))
    return Counts(
        input=None if fresh is None else fresh + cached + written,
        output=output,
        cached=cached,
        cache_write=written,
        reasoning=some(members(given.get("output_tokens_details")).get("thinking_tokens")),
    )
