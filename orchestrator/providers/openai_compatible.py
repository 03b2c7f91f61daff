"""Any server of the Chat Completions API: vLLM, llama.cpp, Ollama, a gateway.

Capability flags say what a server lacks; nothing is guessed from its name.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

import httpx2
import openai
from openai import BaseModel, Stream
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from openai.types.chat.chat_completion import Choice

from orchestrator.data_directories import read_beside
from orchestrator.engine.report_reading import split_thinking
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
from orchestrator.providers.api_model import ApiModel, incomplete_stream
from orchestrator.providers.provider_errors import check_reported
from orchestrator.providers.reply_normalization import (
    MAX_BLOCKS,
    InvalidReplyError,
    Reply,
    ToolCallParser,
    check_json,
    expect_list,
    expect_object,
    expect_text,
    loads,
    object_or_empty,
    read_openai_counts,
)
from orchestrator.providers.request_normalization import (
    MergedMessage,
    accepts_schema,
    describe_tools,
    merge_messages,
    render_system_parts,
    strict_output_schema,
)

_STOPS: dict[str, StopKind] = {"length": "max_tokens", "content_filter": "filtered"}
_REASONING_KEYS = ("reasoning_content", "reasoning")
_TEXT_KEYS = ("content", "refusal", *_REASONING_KEYS)


class CompatibleModel(ApiModel):
    """A model behind Chat Completions, within the server's capabilities."""

    sdk: ClassVar[Any] = openai
    reply_type: ClassVar[Any] = ChatCompletion

    def build_body(self, request: Request) -> dict[str, Json]:
        """Build the request's JSON body for the API."""
        can = self.provider.can
        as_text = can.tool_calls == "text"
        parts = render_system_parts(request, can)
        if as_text and request.tools:
            parts.append(_tools_as_text(request))
        messages: list[Json] = [{"role": "system", "content": "\n\n".join(parts)}]
        merged = merge_messages(request, self.name)
        for message, following in zip(merged, [*merged[1:], None], strict=True):
            if as_text:
                texts = (_block_as_text(block, request) for block in message.blocks)
                text = "\n\n".join(filter(None, texts))
                messages.append({"role": message.role, "content": text})
            else:
                messages += self._render_message(message, following)
        body: dict[str, Json] = {
            "model": request.model,
            "messages": messages,
            can.max_tokens_field: self.output_limit(request),
        }
        if request.tools and not as_text:
            tools = describe_tools(request.tools, "openai-chat")
            body |= {"tools": tools, "tool_choice": "auto"}
            body |= {"parallel_tool_calls": True} if can.parallel_calls else {}
        if request.effort and can.effort:
            body["reasoning_effort"] = request.effort
        if can.streams:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        form = self._response_format(request)
        return {**body, "response_format": form} if form else body

    def _response_format(self, request: Request) -> dict[str, Json] | None:
        can = self.provider.can
        if request.output_schema is None or not accepts_schema(request, can):
            return None
        if can.schemas == "json":
            return {"type": "json_object"}
        strict = strict_output_schema(request, can)
        schema = strict or dict(request.output_schema)
        form = {"name": "report", "schema": schema, "strict": strict is not None}
        return {"type": "json_schema", "json_schema": form}

    def _render_message(self, merged: MergedMessage, following: MergedMessage | None) -> list[Json]:
        if merged.role == "user":
            # The results were written with their calls where only one call may stand in a message.
            results = merged.results if self.provider.can.parallel_calls else ()
            texts = [{"role": "user", "content": merged.text}] if merged.text else []
            return [*map(_render_result, results), *texts]
        calls = list(merged.calls)
        if self.provider.can.parallel_calls or not calls:
            return [self._render_assistant(merged.text, calls, merged)]
        results_by_id = {r.call_id: r for r in following.results} if following else {}
        messages: list[Json] = []
        for at, call in enumerate(calls):
            text = "" if at else merged.text
            messages.append(self._render_assistant(text, [call], merged))
            if call.id in results_by_id:
                messages.append(_render_result(results_by_id[call.id]))
        return messages

    def _render_assistant(
        self, text: str, calls: list[ToolCall], merged: MergedMessage
    ) -> dict[str, Json]:
        message: dict[str, Json] = {"role": "assistant", "content": text}
        if calls:
            message |= {"content": text or None, "tool_calls": [*map(_render_call, calls)]}
        if self.provider.can.returns_reasoning:
            payloads = (b.payload for b in merged.blocks if isinstance(b, Opaque))
            for fields in map(object_or_empty, payloads):
                message |= {key: fields[key] for key in _REASONING_KEYS if key in fields}
        return message

    def _open_response(self, body: dict[str, Any]) -> Any:
        # As extra_body, for the reason that the Responses API's provider gives.
        return self.client.chat.completions.with_streaming_response.create(
            model=body["model"], messages=[], extra_body=body
        )

    def _accumulate(self, response: httpx2.Response) -> ChatCompletion:
        chunks = _ChunkAccumulator()
        for chunk in Stream(cast_to=object, response=response, client=self.client):
            chunks.add(expect_object(chunk, "a chunk"))
        # The SDK ends at this marker without telling.
        if not (chunks.finish_reason or response.content.rstrip().endswith(b"[DONE]")):
            raise incomplete_stream()
        return ChatCompletion.construct(**chunks.build_document())

    def _convert(self, reply: ChatCompletion, request: Request) -> Reply:
        match expect_list(reply.choices, "its choices"):
            case [Choice(message=ChatCompletionMessage() as message) as choice, *_]:
                pass
            case _:
                raise InvalidReplyError("it has no choice with a message")
        calls = ToolCallParser(request)
        reasoning = {key: text for key in _REASONING_KEYS if (text := getattr(message, key, None))}
        blocks = [self._reasoning(**reasoning)] if reasoning else list[Block]()
        blocks += self._convert_content(message.content, request, calls)
        for call in expect_list(message.tool_calls or [], "its tool_calls"):
            if not isinstance(call, BaseModel):
                raise InvalidReplyError("a tool call is not an object")
            # A server may leave out the type, and with it what the SDK constructs.
            function = getattr(call, "function", None)
            name, arguments = getattr(function, "name", None), getattr(function, "arguments", None)
            blocks.append(calls.add(getattr(call, "id", None), name, arguments))
        stop: StopKind = _STOPS.get(str(choice.finish_reason), "end")
        if isinstance(message.refusal, str) and message.refusal:
            blocks, stop = [Text(expect_text(message.refusal, "a refusal"))], "refused"
        counts = read_openai_counts(reply.usage, "prompt", "completion")
        return Reply(tuple(blocks), stop, counts)

    def _reasoning(self, **fields: Json) -> Block:
        return Opaque(self.name, check_json({"type": "reasoning", **fields}))

    def _convert_content(
        self, content: Json, request: Request, calls: ToolCallParser
    ) -> list[Block]:
        if content is None:
            return []
        can, text, blocks = self.provider.can, _join_parts(content), list[Block]()
        thought, unsure, answer = split_thinking(text) if can.think_tags else ("", "", text)
        if thought and not unsure:
            text = answer
            blocks.append(self._reasoning(reasoning_content=thought))
        if can.tool_calls == "text":
            return [*blocks, *_parse_text_calls(text, request, calls)]
        return [*blocks, Text(text)]


def _join_parts(content: Json) -> str:
    """A content as text; of one in parts, as Mistral's, the texts without the thinking."""
    if isinstance(content, list):
        parts = map(object_or_empty, content)
        content = "".join(
            expect_text(part.get("text"), "a part") for part in parts if part.get("type") == "text"
        )
    return expect_text(content, "its content")


@dataclass
class _ChunkAccumulator:
    """Joins the chunks of a stream into the document of a reply that is not streamed.

    The SDK's accumulator supports OpenAI's own server only (decision 0011): other servers leave
    out a call's index, number calls from 1, or repeat its id and name in every chunk.
    """

    document: dict[str, Json] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    calls: dict[int, dict[str, Json]] = field(default_factory=dict)
    arguments: dict[int, list[str]] = field(default_factory=dict)
    finish_reason: Json = None

    def add(self, chunk: dict[str, Json]) -> None:
        """Add one chunk."""
        check_reported(chunk, lost=True)
        self.document |= {key: chunk[key] for key in ("model", "usage") if chunk.get(key)}
        choices = chunk.get("choices")
        choice = object_or_empty(choices[0]) if isinstance(choices, list) and choices else {}
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        delta = object_or_empty(choice.get("delta"))
        for key in _TEXT_KEYS:
            if delta.get(key):
                self.texts.setdefault(key, []).append(_join_parts(delta[key]))
        for call in expect_list(delta.get("tool_calls") or [], "its tool_calls"):
            self._add_call(expect_object(call, "a tool call"))

    def _add_call(self, call: dict[str, Json]) -> None:
        # Without an index, an id begins a call, and what follows belongs to it.
        last = len(self.calls) if call.get("id") else max(len(self.calls) - 1, 0)
        index = last if call.get("index") is None else call["index"]
        if not isinstance(index, int) or not 0 <= index < MAX_BLOCKS:
            raise InvalidReplyError(f"a tool call has the index {index!r:.20}")
        function = object_or_empty(call.get("function"))
        fields = {"id": call.get("id"), "name": function.get("name")}
        self.calls.setdefault(index, {}).update({k: v for k, v in fields.items() if v})
        if function.get("arguments"):
            text = expect_text(function["arguments"], "a piece of arguments")
            self.arguments.setdefault(index, []).append(text)

    def build_document(self) -> dict[str, Json]:
        """Build the reply from all chunks."""
        calls = []
        for index, call in sorted(self.calls.items()):
            function = {
                "name": call.get("name"),
                "arguments": "".join(self.arguments.get(index, [])),
            }
            calls.append({"id": call.get("id"), "type": "function", "function": function})
        message: dict[str, Json] = {key: "".join(parts) for key, parts in self.texts.items()}
        message |= {"role": "assistant", "tool_calls": calls or None}
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        return {**self.document, "choices": [choice]}


def _render_call(call: ToolCall) -> Json:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _render_result(result: ToolResult) -> Json:
    return {"role": "tool", "tool_call_id": result.call_id, "content": result.content}


_TOOLS = read_beside(__file__, "tools_as_text.md").rstrip()


def _tools_as_text(request: Request) -> str:
    """The tools and how to call them, for the system prompt of a server without a tool-call API.

    The delimiters carry the run's nonce, which no diff can contain, so a call that a model merely
    quotes is never executed.
    """
    described = (tool["function"] for tool in describe_tools(request.tools, "openai-chat"))
    tools = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in described)
    opening, closing = _delimiters(request)
    return _TOOLS.format(tools=tools, opening=opening, closing=closing)


def _block_as_text(block: Block, request: Request) -> str:
    """Render a block of an earlier message as text."""
    match block:
        case ToolCall(_, name, arguments):
            opening, closing = _delimiters(request)
            call = {"name": name, "arguments": dict(arguments)}
            return f"{opening}\n{json.dumps(call, ensure_ascii=False)}\n{closing}"
        case ToolResult():
            return f"The result of your call:\n{block.content}"
        case Text(text):
            return text
        case _:
            return ""


def _parse_text_calls(text: str, request: Request, calls: ToolCallParser) -> list[Block]:
    """Parse an answer into text blocks and tool calls."""
    opening, closing = map(re.escape, _delimiters(request))
    blocks: list[Block] = []
    at = 0
    for match in re.finditer(rf"{opening}(.*?)(?:{closing}|\Z)", text, re.DOTALL):
        blocks.append(Text(text[at : match.start()]))
        blocks.append(_parse_call(match[1].strip(), calls))
        at = match.end()
    blocks.append(Text(text[at:]))
    return [block for block in blocks if not (isinstance(block, Text) and not block.text.strip())]


def _parse_call(text: str, calls: ToolCallParser) -> ToolCall:
    try:
        given: Json = loads(text)
    except InvalidReplyError:
        given = None
    call = object_or_empty(given)
    if not isinstance(call.get("name"), str):
        return calls.add(None, "unreadable", text)
    return calls.add(None, call["name"], call.get("arguments", {}))


def _delimiters(request: Request) -> tuple[str, str]:
    mark = f"tool_call {request.nonce}".strip()
    return f"<{mark}>", f"</{mark}>"
