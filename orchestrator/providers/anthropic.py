"""Claude through the Messages API."""

from collections.abc import Iterator
from typing import Any, ClassVar, cast

import anthropic
import httpx2
from anthropic import NOT_GIVEN, BaseModel, MessageStream, Stream
from anthropic.types import (
    InputJSONDelta,
    Message,
    MessageDeltaUsage,
    RawContentBlockDeltaEvent,
    RawContentBlockStartEvent,
    RawMessageDeltaEvent,
    RawMessageStartEvent,
    RawMessageStopEvent,
    RawMessageStreamEvent,
    TextBlock,
    ToolUseBlock,
    Usage,
)

from orchestrator.data_directories import read_table
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
from orchestrator.providers.reply_normalization import (
    InvalidReplyError,
    Reply,
    TokenCounts,
    ToolCallParser,
    dump,
    expect_list,
    expect_text,
    read_count,
)
from orchestrator.providers.request_normalization import (
    describe_tools,
    merge_messages,
    render_system_parts,
    shared_opening,
    strict_output_schema,
)

_API = read_table(__file__, "anthropic.yaml")
_STOPS: dict[str, StopKind] = _API["stops"]
_CACHE_CONTROL = {"type": "ephemeral"}
_ACCUMULATED = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
"""Types of blocks that the SDK's accumulator builds; others are carried back as they are."""
_DELTAS: dict[str, str] = _API["deltas"]
"""Change → the block that it applies to."""


class AnthropicModel(ApiModel):
    """A model behind the Messages API.

    Cache breakpoints stand after the system prompt, after the opening that agents share, and after
    each of the last two user messages; the next request hits the last one.
    """

    sdk: ClassVar[Any] = anthropic
    reply_type: ClassVar[Any] = Message

    def build_body(self, request: Request) -> dict[str, Json]:
        """Build the request's JSON body for the API."""
        can = self.provider.can
        texts = render_system_parts(request, can)
        system: list[dict[str, Json]] = [{"type": "text", "text": text} for text in texts]
        merged = merge_messages(request, self.name)
        messages: list[dict[str, Json]] = [
            {"role": one.role, "content": [_render_block(block) for block in one.blocks]}
            for one in merged
        ]
        if request.tools:  # a question without tools has one answer, and nothing is read again
            by_user = [message for message in messages if message["role"] == "user"]
            marked = [system[-1], *(message["content"][-1] for message in by_user[-2:])]
            for block in [*marked, by_user[0]["content"][0]] if shared_opening(merged) else marked:
                block["cache_control"] = _CACHE_CONTROL
        body: dict[str, Json] = {
            "model": request.model,
            "max_tokens": self.output_limit(request),
            "system": system,
            "messages": messages,
        }
        if request.tools:
            body["tools"] = describe_tools(request.tools, "anthropic")
            one = {} if can.parallel_calls else {"disable_parallel_tool_use": True}
            body["tool_choice"] = {"type": "auto", **one}
        if can.streams:
            body["stream"] = True
        output = self._output_config(request)
        return {**body, "output_config": output} if output else body

    def _output_config(self, request: Request) -> dict[str, Json]:
        can, output = self.provider.can, dict[str, Json]()
        if request.effort and can.effort:
            output["effort"] = request.effort
        schema = strict_output_schema(request, can)
        if schema is not None:
            output["format"] = {"type": "json_schema", "schema": schema}
        return output

    def _open_response(self, body: dict[str, Any]) -> Any:
        return self.client.messages.with_streaming_response.create(**body)

    def _accumulate(self, response: httpx2.Response) -> Message:
        events = _CheckedStream(
            cast_to=cast("type[RawMessageStreamEvent]", RawMessageStreamEvent),
            response=response,
            client=self.client,
        )
        stream = MessageStream(events, output_format=NOT_GIVEN)
        stream.until_done()
        if not events.complete:
            raise incomplete_stream()
        message = stream.get_final_message()
        for index, carried in events.carried.items():
            message.content[index] = carried
        for index, parts in events.arguments.items():
            block: Any = message.content[index]
            block.input = "".join(parts)
        return message

    def _convert(self, reply: Message, request: Request) -> Reply:
        calls = ToolCallParser(request)
        content = expect_list(reply.content, "its content")
        blocks = tuple(self._convert_block(block, calls) for block in content)
        stop = reply.stop_reason
        if not isinstance(stop, str) or stop not in _STOPS:
            raise InvalidReplyError(f"its stop_reason is {stop!r:.60}")
        return Reply(blocks, _STOPS[stop], _read_counts(reply.usage))

    def _convert_block(self, block: Any, calls: ToolCallParser) -> Block:
        match block:
            case TextBlock(type="text"):
                return Text(expect_text(block.text, "a text block's text"))
            case ToolUseBlock(type="tool_use"):
                return calls.add(block.id, block.name, block.input)
        kind = getattr(block, "type", None)
        if isinstance(block, BaseModel) and isinstance(kind, str):
            if kind.endswith(("_tool_use", "_tool_result")):
                raise InvalidReplyError(
                    f"it ran a tool of the provider's own ({kind:.40}); none is enabled"
                )
            return Opaque(self.name, dump(block))
        raise InvalidReplyError("a content block is not an object with a type")


class _CheckedStream(Stream[RawMessageStreamEvent]):
    """The events that the SDK's accumulator applies as they are meant.

    The accumulator skips changes of blocks that it does not know, ignores where a block begins,
    completes the JSON of a tool call that was cut off, and prints a warning for a field of the
    wrong type. Such events are an error here; unknown blocks and the arguments of tool calls are
    kept as they were sent.

    Attributes:
        complete: whether the event that ends a reply has come.
        arguments: block index → the pieces of its JSON.
        carried: block index → an unknown block, for which the accumulator gets an empty text.
    """

    complete = False

    def __iter__(self) -> Iterator[RawMessageStreamEvent]:
        self.arguments: dict[int, list[str]] = {}
        self.carried: dict[int, Any] = {}
        kinds: list[str] = []
        for event in super().__iter__():
            match event:
                case RawMessageStartEvent(type="message_start"):
                    event.message.content = []
                    event.message.usage = event.message.usage or Usage.construct()
                    _check_types(event.message)
                case RawMessageDeltaEvent(type="message_delta"):
                    event.usage = event.usage or MessageDeltaUsage.construct()
                case RawContentBlockStartEvent(type="content_block_start"):
                    if event.index != len(kinds):
                        raise InvalidReplyError(f"block {event.index!r:.20} begins out of order")
                    kinds.append(event.content_block.type)
                    if kinds[-1] in _ACCUMULATED:
                        _check_types(event.content_block)
                    else:
                        self.carried[event.index] = event.content_block
                        event.content_block = TextBlock.construct(type="text", text="")
                case RawContentBlockDeltaEvent(type="content_block_delta"):
                    self._check_delta(event, kinds)
                    if isinstance(event.delta, InputJSONDelta):
                        pieces = self.arguments.setdefault(event.index, [])
                        pieces.append(expect_text(event.delta.partial_json, "partial_json"))
                        continue
                case RawMessageStopEvent(type="message_stop"):
                    self.complete = True
            yield event

    def _check_delta(self, event: RawContentBlockDeltaEvent, kinds: list[str]) -> None:
        if event.index not in range(len(kinds)):
            raise InvalidReplyError(f"block {event.index!r:.20} changes before it begins")
        kind, change = kinds[event.index], event.delta.type
        if change == "input_json_delta" and kind.endswith("tool_use"):
            return
        if _DELTAS.get(change) != kind:
            raise InvalidReplyError(
                f"a {kind:.40} block changes by a {change!r:.40}, which is unknown; "
                "try `streams: false`"
            )


def _check_types(model: BaseModel) -> None:
    try:
        model.model_dump(exclude_unset=True, warnings="error")
    except ValueError:
        raise InvalidReplyError(f"a field of {type(model).__name__} has the wrong type") from None


def _render_block(block: Block) -> Json:
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


def _read_counts(usage: Usage) -> TokenCounts:
    fresh = read_count(usage, "input_tokens")
    cached = read_count(usage, "cache_read_input_tokens") or 0
    written = read_count(usage, "cache_creation_input_tokens") or 0
    return TokenCounts(
        input=None if fresh is None else fresh + cached + written,
        output=read_count(usage, "output_tokens"),
        cached=cached,
        cache_write=written,
        reasoning=read_count(usage, "output_tokens_details", "thinking_tokens") or 0,
    )
