"""Any server of the Chat Completions API: vLLM, llama.cpp, Ollama, a gateway.

What such a server lacks is known from its capability flags, never guessed from its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from orchestrator.engine.types import (
    Block,
    Json,
    Opaque,
    Request,
    StopKind,
    Text,
    ToolCall,
    ToolResult,
)
from orchestrator.providers import stream_parsing, text_tool_calls
from orchestrator.providers.base import ApiModel
from orchestrator.providers.conversation import (
    MergedMessage,
    accepts_schema,
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
    "length": "max_tokens",
    "content_filter": "filtered",
}
_REASONING_KEYS = ("reasoning_content", "reasoning")
_THINK, _THOUGHT = "<think>", "</think>"


class CompatibleModel(ApiModel):
    """Speaks Chat Completions within what the server can do."""

    def body(self, request: Request) -> dict[str, Json]:
        """The request as the API has it."""
        can = self.provider.can
        as_text = can.tool_calls == "text"
        parts = render_system_parts(request, can)
        if as_text and request.tools:
            parts.append(text_tool_calls.render_tools(request))
        messages: list[Json] = [{"role": "system", "content": "\n\n".join(parts)}]
        for turn, after in _pairs(merge_messages(request, self.name)):
            messages += _text_turn(turn, request) if as_text else self._turn(turn, after)
        body: dict[str, Json] = {
            "model": request.model,
            "messages": messages,
            can.max_tokens_field: self.output_limit(request),
        }
        if request.tools and not as_text:
            body |= self._tools(request)
        if request.effort and can.effort:
            body["reasoning_effort"] = request.effort
        if can.streams:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        form = self._format(request)
        return {**body, "response_format": form} if form else body

    def _tools(self, request: Request) -> dict[str, Json]:
        can = self.provider.can
        offered: dict[str, Json] = {
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": dict(tool.schema),
                    },
                }
                for tool in request.tools
            ],
            "tool_choice": tool_choice(request, can),
        }
        return {**offered, "parallel_tool_calls": True} if can.parallel_calls else offered

    def _format(self, request: Request) -> dict[str, Json] | None:
        can = self.provider.can
        if request.output_schema is None or not accepts_schema(request, can):
            return None
        if can.schemas == "json":
            return {"type": "json_object"}
        closed = strict_output_schema(request, can)
        schema = closed or dict(request.output_schema)
        form = {"name": "report", "schema": schema, "strict": closed is not None}
        return {"type": "json_schema", "json_schema": form}

    def _turn(self, turn: MergedMessage, after: MergedMessage | None) -> list[Json]:
        if turn.role == "user":
            # The results were written with their calls where only one call may stand in a message.
            results = turn.results if self.provider.can.parallel_calls else ()
            words = [{"role": "user", "content": turn.text}] if turn.text else []
            return [*map(_result, results), *words]
        calls = list(turn.calls)
        if self.provider.can.parallel_calls or not calls:
            return [self._said(turn.text, calls, turn)]
        answers = {result.call_id: result for result in after.results} if after else {}
        messages: list[Json] = []
        for at, call in enumerate(calls):
            messages.append(self._said("" if at else turn.text, [call], turn))
            messages += [_result(answers[call.id])] if call.id in answers else []
        return messages

    def _said(self, text: str, calls: list[ToolCall], turn: MergedMessage) -> dict[str, Json]:
        message: dict[str, Json] = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = [_call(call) for call in calls]
        else:
            message["content"] = text
        if self.provider.can.returns_reasoning:
            for block in turn.blocks:
                if isinstance(block, Opaque):
                    message |= {
                        key: value
                        for key, value in members(block.payload).items()
                        if key in _REASONING_KEYS
                    }
        return message

    def _chunks(self, body: dict[str, Any]) -> Any:
        # As extra_body, for the reason that the Responses API's provider gives.
        return self.client.chat.completions.with_streaming_response.create(
            model=body["model"], messages=[], extra_body=body
        )

    def joined(self, events: Events) -> dict[str, Json]:
        """The API's reply, from its events."""
        return stream_parsing.completion(events)

    def read(self, document: dict[str, Json], request: Request) -> Reply:
        """The API's reply, read."""
        choices = a_list(document.get("choices"), "its choices")
        if not choices:
            raise Unusable("it has no choice")
        choice = an_object(choices[0], "its choice")
        message = an_object(choice.get("message"), "its message")
        blocks, calls = list[Block](), Calls(request)
        reasoning = {key: message[key] for key in _REASONING_KEYS if message.get(key)}
        if reasoning:
            blocks.append(Opaque(self.name, {"type": "reasoning", **reasoning}))
        blocks += self._words(message.get("content"), request, calls)
        for given in a_list(message.get("tool_calls") or [], "its tool_calls"):
            call = an_object(given, "a call")
            called = members(call.get("function"))
            blocks.append(calls.add(call.get("id"), called.get("name"), called.get("arguments")))
        stop: StopKind = _STOPS.get(str(choice.get("finish_reason")), "end")
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal:
            blocks, stop = [Text(refusal)], "refused"
        counts = _counts(document.get("usage"))
        return Reply(tuple(blocks), stop, counts, a_name(document.get("model")))

    def _words(self, content: Json, request: Request, calls: Calls) -> list[Block]:
        if content is None:
            return []
        can, text, blocks = self.provider.can, a_text(content, "its content"), list[Block]()
        head = text.lstrip()
        if can.think_tags and head.startswith(_THINK) and _THOUGHT in head:
            thought, _, text = head.removeprefix(_THINK).partition(_THOUGHT)
            blocks.append(Opaque(self.name, {"type": "reasoning", "reasoning_content": thought}))
        if can.tool_calls == "text":
            return [*blocks, *text_tool_calls.parse_calls(text, request, calls)]
        return [*blocks, Text(text)]


def _pairs(every: list[MergedMessage]) -> Iterator[tuple[MergedMessage, MergedMessage | None]]:
    return zip(every, [*every[1:], None], strict=True)


def _text_turn(turn: MergedMessage, request: Request) -> list[Json]:
    words = (text_tool_calls.render_block(block, request) for block in turn.blocks)
    return [{"role": turn.role, "content": "\n\n".join(filter(None, words))}]


def _call(call: ToolCall) -> Json:
    written = json.dumps(dict(call.arguments), ensure_ascii=False)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": written},
    }


def _result(result: ToolResult) -> Json:
    return {"role": "tool", "tool_call_id": result.call_id, "content": result.content}


def _counts(usage: Json) -> Counts:
    given = members(usage)
    inputs, outputs = (
        members(given.get("prompt_tokens_details")),
        members(given.get("completion_tokens_details")),
    )
    return Counts(
        input=count(given.get("prompt_tokens")),
        output=count(given.get("completion_tokens")),
        cached=some(inputs.get("cached_tokens")),
        cache_write=some(inputs.get("cache_write_tokens")),
        reasoning=some(outputs.get("reasoning_tokens")),
    )
