"""OpenAI through the Responses API."""

import json
from typing import Any, ClassVar

import httpx2
import openai
from openai import BaseModel, Stream
from openai.types.responses import Response as OpenAIResponse
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
)

from orchestrator.engine.canonical_json import digest
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
from orchestrator.providers import reply_normalization
from orchestrator.providers.api_model import ApiModel, incomplete_stream
from orchestrator.providers.provider_errors import ReportedError, check_reported
from orchestrator.providers.reply_normalization import InvalidReplyError, Reply, ToolCallParser
from orchestrator.providers.request_normalization import (
    describe_tools,
    merge_messages,
    render_system_parts,
    shared_opening,
    strict_output_schema,
)

MIN_OUTPUT_TOKENS = 16
"""The API rejects a smaller limit."""

_EXPLICIT = {"mode": "explicit"}
"""Of a cache breakpoint; of a request, that it has no other breakpoints."""

_INCOMPLETE: dict[str, StopKind] = {"max_output_tokens": "max_tokens", "content_filter": "filtered"}
_CARRIED = frozenset({"reasoning", "compaction"})
_FINAL_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})


class OpenAIModel(ApiModel):
    """A model behind the Responses API, used without storage: reasoning is exchanged encrypted.

    The service caches a prompt up to its newest message and up to marked parts, and reads exactly
    what was cached: so the end of the opening that agents share is marked.
    """

    sdk: ClassVar[Any] = openai
    reply_type: ClassVar[Any] = OpenAIResponse

    def output_limit(self, request: Request) -> int:
        """The output token limit as it is sent; the API has a minimum."""
        return max(request.max_tokens, MIN_OUTPUT_TOKENS)

    def build_body(self, request: Request) -> dict[str, Json]:
        """Build the request's JSON body for the API."""
        can = self.provider.can
        merged = merge_messages(request, self.name)
        opening = shared_opening(merged)
        items = [_render_item(each.role, block) for each in merged for block in each.blocks]
        if opening and can.cache_breakpoints:
            items[0]["content"][0]["prompt_cache_breakpoint"] = _EXPLICIT
        # Requests with the same key meet the same cache: of a team, or of one agent.
        cache_key = digest(opening)[:32] if opening else request.agent
        body: dict[str, Json] = {
            "model": request.model,
            "instructions": "\n\n".join(render_system_parts(request, can)),
            "input": items,
            "max_output_tokens": self.output_limit(request),
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": f"diffcourt-{cache_key}"[:64],
        }
        if request.tools:
            body["tools"] = describe_tools(request.tools, "openai")
            body["tool_choice"] = "auto"
            body["parallel_tool_calls"] = can.parallel_calls
        elif can.cache_breakpoints:  # one answer, and nothing is read again: nothing is cached
            body["prompt_cache_options"] = _EXPLICIT
        if request.effort and can.effort:
            body["reasoning"] = {"effort": request.effort}
        if can.streams:
            body["stream"] = True
        schema = strict_output_schema(request, can)
        if schema is not None:
            form = {"type": "json_schema", "name": "report", "schema": schema, "strict": True}
            body["text"] = {"format": form}
        return body

    def _open_response(self, body: dict[str, Any]) -> Any:
        # As extra_body: the SDK checks each parameter against unions of types, which for a long
        # conversation takes longer than everything else.
        return self.client.responses.with_streaming_response.create(extra_body=body)

    def _accumulate(self, response: httpx2.Response) -> OpenAIResponse:
        # The last event repeats the whole response. Events are not constructed as SDK types, which
        # takes 8 times as long as parsing them.
        for event in Stream(cast_to=object, response=response, client=self.client):
            match event:
                case {"type": "error"}:
                    raise ReportedError(event, lost=True)
                case {"type": str(kind), "response": dict(document)} if kind in _FINAL_EVENTS:
                    check_reported(document, lost=True)
                    return OpenAIResponse.construct(**document)
        raise incomplete_stream()

    def _convert(self, reply: OpenAIResponse, request: Request) -> Reply:
        calls, blocks, refused = ToolCallParser(request), list[Block](), False
        for item in reply_normalization.expect_list(reply.output, "its output"):
            match item:
                case ResponseOutputMessage(type="message") if item.phase != "commentary":
                    texts, refusal = _read_message(item)
                    blocks += texts
                    refused = refused or refusal
                case ResponseFunctionToolCall(type="function_call"):
                    blocks.append(calls.add(item.call_id, item.name, item.arguments))
                case _:
                    blocks.append(self._carry(item))
        stop = "refused" if refused else _read_stop(reply)
        counts = reply_normalization.read_openai_counts(reply.usage, "input", "output")
        return Reply(tuple(blocks), stop, counts)

    def _carry(self, item: object) -> Opaque:
        """Keep reasoning, commentary (which is not the report) and unknown items as they are."""
        kind = getattr(item, "type", None)
        if not isinstance(item, BaseModel) or not isinstance(kind, str):
            raise InvalidReplyError("an output item is not an object with a type")
        if kind not in _CARRIED and kind.endswith(("_call", "_call_output", "_output")):
            raise InvalidReplyError(f"it used a tool that was not offered ({kind:.40})")
        return Opaque(self.name, reply_normalization.dump(item))


def _render_item(role: str, block: Block) -> Json:
    match block:
        case Text(text) if role == "assistant":
            return {"type": "message", "role": "assistant", "content": text}
        case Text(text):
            part = {"type": "input_text", "text": text}
            return {"type": "message", "role": "user", "content": [part]}
        case ToolCall(id, name, arguments):
            text = json.dumps(dict(arguments), ensure_ascii=False)
            return {"type": "function_call", "call_id": id, "name": name, "arguments": text}
        case ToolResult():
            return {
                "type": "function_call_output",
                "call_id": block.call_id,
                "output": block.content,
            }
        case Opaque(_, payload):
            return payload


def _read_message(item: ResponseOutputMessage) -> tuple[list[Text], bool]:
    """Read a message's texts, and whether it is a refusal."""
    texts, refused = list[Text](), False
    for part in reply_normalization.expect_list(item.content, "a message's content"):
        match part:
            case ResponseOutputText(type="output_text"):
                texts.append(Text(reply_normalization.expect_text(part.text, "a message's text")))
            case ResponseOutputRefusal(type="refusal"):
                texts.append(Text(reply_normalization.expect_text(part.refusal, "a refusal")))
                refused = True
            case _:
                kind = getattr(part, "type", None)
                raise InvalidReplyError(f"a message has a part of type {kind!r:.40}")
    return texts, refused


def _read_stop(reply: OpenAIResponse) -> StopKind:
    if reply.status == "completed":
        return "end"
    if reply.status == "incomplete":
        reason = getattr(reply.incomplete_details, "reason", None)
        if isinstance(reason, str) and reason in _INCOMPLETE:
            return _INCOMPLETE[reason]
        raise InvalidReplyError(f"it is incomplete because of {reason!r:.60}")
    code = getattr(reply.error, "code", None)
    detail = f", error {code!r:.60}" if code else ""
    raise InvalidReplyError(f"its status is {reply.status!r:.40}{detail}")
