"""OpenAI through the Responses API."""

from __future__ import annotations

import json
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

LEAST_OUTPUT = 16
"""The API refuses a smaller limit."""

_INCOMPLETE: dict[str, StopKind] = {
    "max_output_tokens": "max_tokens",
    "content_filter": "filtered",
}
_CARRIED = frozenset({"reasoning", "compaction"})


class OpenAIModel(ApiModel):
    """Speaks the Responses API, with nothing stored there: reasoning comes and goes encrypted."""

    def output_limit(self, request: Request) -> int:
        """The most tokens that the answer may have; the API has a smallest value."""
        return max(request.max_tokens, LEAST_OUTPUT)

    def body(self, request: Request) -> dict[str, Json]:
        """The request as the API has it."""
        can = self.provider.can
        body: dict[str, Json] = {
            "model": request.model,
            "instructions": "\n\n".join(render_system_parts(request, can)),
            "input": [item for turn in merge_messages(request, self.name) for item in _items(turn)],
            "max_output_tokens": self.output_limit(request),
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": f"diffcourt-{request.agent}"[:64],
        }
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.schema),
                    "strict": False,
                }
                for tool in request.tools
            ]
            body["tool_choice"] = tool_choice(request, can)
            body["parallel_tool_calls"] = can.parallel_calls
        if request.effort and can.effort:
            body["reasoning"] = {"effort": request.effort}
        if can.streams:
            body["stream"] = True
        schema = strict_output_schema(request, can)
        if schema is not None:
            form = {"type": "json_schema", "name": "report", "schema": schema, "strict": True}
            body["text"] = {"format": form}
        return body

    def _chunks(self, body: dict[str, Any]) -> Any:
        # As extra_body: the SDK holds each parameter against its unions of types, which for a long
        # conversation takes it longer than all the rest together.
        return self.client.responses.with_streaming_response.create(extra_body=body)

    def joined(self, events: Events) -> dict[str, Json]:
        """The API's reply, from its events."""
        return stream_parsing.response(events)

    def read(self, document: dict[str, Json], request: Request) -> Reply:
        """The API's reply, read."""
        calls, blocks, refused = Calls(request), list[Block](), False
        for given in a_list(document.get("output"), "its output"):
            item = an_object(given, "an item")
            kind = a_text(item.get("type"), "an item's type")
            if kind == "message" and item.get("phase") != "commentary":
                words, refusal = _words(item)
                blocks += words
                refused = refused or refusal
            elif kind == "function_call":
                blocks.append(
                    calls.add(item.get("call_id"), item.get("name"), item.get("arguments"))
                )
            elif kind not in _CARRIED and kind.endswith(("_call", "_call_output", "_output")):
                raise Unusable(f"a tool that was not offered was used ({kind:.40})")
            else:
                # Reasoning, commentary (which is no report), and what we do not know yet.
                blocks.append(Opaque(self.name, item))
        stop = "refused" if refused else _stop(document)
        counts = _counts(document.get("usage"))
        return Reply(tuple(blocks), stop, counts, a_name(document.get("model")))


def _items(turn: MergedMessage) -> list[Json]:
    return [_item(turn.role, block) for block in turn.blocks]


def _item(role: str, block: Block) -> Json:
    match block:
        case Text(text) if role == "assistant":
            return {"type": "message", "role": "assistant", "content": text}
        case Text(text):
            part = {"type": "input_text", "text": text}
            return {"type": "message", "role": "user", "content": [part]}
        case ToolCall(id, name, arguments):
            written = json.dumps(dict(arguments), ensure_ascii=False)
            return {"type": "function_call", "call_id": id, "name": name, "arguments": written}
        case ToolResult():
            return {
                "type": "function_call_output",
                "call_id": block.call_id,
                "output": block.content,
            }
        case Opaque(_, payload):
            return payload


def _words(item: dict[str, Json]) -> tuple[list[Text], bool]:
    """A message's texts, and whether it is a refusal."""
    texts, refused = list[Text](), False
    for given in a_list(item.get("content"), "a message's content"):
        part = an_object(given, "a part of a message")
        if part.get("type") == "output_text":
            texts.append(Text(a_text(part.get("text"), "a part's text")))
        elif part.get("type") == "refusal":
            texts.append(Text(a_text(part.get("refusal"), "a refusal")))
            refused = True
        else:
            raise Unusable(f"a message has a part of type {part.get('type')!r:.40}")
    return texts, refused


def _stop(document: dict[str, Json]) -> StopKind:
    status = document.get("status")
    if status == "completed":
        return "end"
    if status == "incomplete":
        reason = members(document.get("incomplete_details")).get("reason")
        if isinstance(reason, str) and reason in _INCOMPLETE:
            return _INCOMPLETE[reason]
        raise Unusable(f"it is incomplete because of {reason!r:.60}")
    code = members(document.get("error")).get("code")
    raise Unusable(f"its status is {status!r:.40}" + (f", error {code!r:.60}" if code else ""))


def _counts(usage: Json) -> Counts:
    given = members(usage)
    inputs, outputs = (
        members(given.get("input_tokens_details")),
        members(given.get("output_tokens_details")),
    )
    return Counts(
        input=count(given.get("input_tokens")),
        output=count(given.get("output_tokens")),
        cached=some(inputs.get("cached_tokens")),
        cache_write=some(inputs.get("cache_write_tokens")),
        reasoning=some(outputs.get("reasoning_tokens")),
    )
