"""Builds spans from the rows of a journal; a run is one trace.

Rows are fed one by one, and each span is yielded with the row that ends it, so a run can be
followed while it runs. Names are those of one release of OpenTelemetry's GenAI conventions, which
are in development: all are in ``conventions.yaml``, and in the table of ``docs/traces.md``.

Source: https://github.com/open-telemetry/semantic-conventions-genai
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, field

from orchestrator.app.runs.verdict_recording import VERDICT
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.data_directories import read_table
from orchestrator.engine.journal_keys import GRANT, INTAKE, Key
from orchestrator.engine.journal_rows import (
    Effect,
    Intent,
    Note,
    Outcome,
    RecordedRequest,
    RecordedResult,
    RefusedEffect,
    read_fields,
    read_row,
)
from orchestrator.engine.ports import Row
from orchestrator.engine.recorded_conversations import RecordedConversations
from orchestrator.engine.trace_context import TRACEPARENT, TraceContext, trace_of
from orchestrator.engine.types import Block, Message, Response, Text, ToolCall, ToolResult

CONVENTIONS: Final = "semantic-conventions-genai 0.1.0"
SCHEMA: Final = "https://opentelemetry.io/schemas/gen-ai/0.1.0"

_TABLES = read_table(__file__, "conventions.yaml")
NAMES: Final = SimpleNamespace(**_TABLES["names"])
PROVIDERS: Final[Mapping[str, str]] = _TABLES["providers"]
FINISHES: Final[Mapping[str, str]] = _TABLES["finishes"]
NOTES: Final[Mapping[str, str]] = _TABLES["notes"]
SHOWN, TOLD = frozenset(_TABLES["shown"]), frozenset(_TABLES["told"])
BODIES: Final[Mapping[str, str]] = _TABLES["bodies"]

Value = str | int | float | bool | tuple[str, ...]
PROVIDER_NOTE = f"{INTAKE}/provider"
MAX_CONTENT = 32_000
"""Characters of an attribute that holds content; the rest is cut, and the cut is said. Of messages
the longest texts are cut, so that they are JSON still."""

Part = dict[str, Any]


def text_part(text: str) -> Part:
    """A text."""
    return {"type": "text", "content": text}


def describe_block(block: Block) -> Part:
    """A block of a message."""
    match block:
        case Text(text):
            return text_part(text)
        case ToolCall(id_, name, arguments):
            return {"type": "tool_call", "id": id_, "name": name, "arguments": dict(arguments)}
        case ToolResult(id_, content):
            return {"type": "tool_call_response", "id": id_, "response": content}
    return {"type": "reasoning", "content": json.dumps(block.payload, ensure_ascii=False)}


def describe_messages(messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
    """What a model was sent; results of tools are messages of their own."""
    for message in messages:
        results = [block for block in message.blocks if isinstance(block, ToolResult)]
        others = [block for block in message.blocks if not isinstance(block, ToolResult)]
        for role, blocks in (("tool", results), (message.role, others)):
            if blocks:
                yield {"role": role, "parts": [*map(describe_block, blocks)]}


def cut_text(text: str, most: int = MAX_CONTENT) -> str:
    """The beginning of a text that is too long, and how much is cut."""
    cut = len(text) - most
    return f"{text[:most]} [{cut} characters cut]" if cut > 0 else text


class MessageWriter:
    """Writes messages without our own secrets."""

    def __init__(self, redact: Callable[[Any], Any]) -> None:
        self._redact = redact
        # A turn sends the texts of those before it again.
        self._redact_text = lru_cache(maxsize=1024)(redact)

    def write(self, messages: Iterable[dict[str, Any]]) -> str:
        """Messages as JSON."""
        shown = list(messages)
        parts = iter(self._fit([part for message in shown for part in message["parts"]]))
        return _dump([{**one, "parts": [next(parts) for _ in one["parts"]]} for one in shown])

    def write_parts(self, parts: Sequence[Part]) -> str:
        """Parts of a message as JSON."""
        return _dump(self._fit(parts))

    def _fit(self, parts: Sequence[Part]) -> list[Part]:
        clean = [{name: self._clean(value) for name, value in part.items()} for part in parts]
        bodies = [part[BODIES[part["type"]]] for part in clean]
        texts = [body if isinstance(body, str) else _dump(body) for body in bodies]
        most = _most_of_each(map(len, texts))
        return [
            {**part, BODIES[part["type"]]: cut_text(text, most)} if len(text) > most else part
            for part, text in zip(clean, texts, strict=True)
        ]

    def _clean(self, value: Any) -> Any:
        return (self._redact_text if isinstance(value, str) else self._redact)(value)


def _most_of_each(sizes: Iterable[int]) -> int:
    """The characters that each text may have, so that all have no more than an attribute may."""
    left, ordered = MAX_CONTENT, sorted(sizes)
    for at, size in enumerate(ordered):
        share = left // (len(ordered) - at)
        if size > share:
            return share
        left -= size
    return MAX_CONTENT


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class SpanEvent(Struct, frozen=True):
    """Something that happened within a span."""

    name: str
    at: float
    attributes: Mapping[str, Value]


class TraceSpan(Struct):
    """A span; ids are in hexadecimal, times in seconds since the epoch.

    Attributes:
        parent: empty for a run that is in no other trace.
        error: its ``error.type``; empty if it succeeded.
    """

    name: str
    kind: Literal["internal", "client"]
    span_id: str
    parent: str
    start: float
    end: float
    attributes: dict[str, Value]
    events: list[SpanEvent] = field(default_factory=list)
    error: str = ""


class SpanBuilder:
    """Builds the spans of one run.

    Args:
        content: include prompts, answers, arguments, results and reasons.
        redact: removes our own secrets from content once more.
        name: of the workflow; empty for a review.
    """

    def __init__(
        self,
        run_id: str,
        *,
        content: bool = False,
        redact: Callable[[Any], Any] = lambda it: it,
        name: str = "",
    ) -> None:
        self._name = name or "review"
        self.trace: TraceContext = trace_of(run_id, None)
        self._run_id, self._content, self._redact = run_id, content, redact
        self._messages = MessageWriter(redact)
        self._open: dict[str, TraceSpan] = {}
        self._conversations = RecordedConversations()
        self._provider = ""
        self._root: TraceSpan | None = None
        self._last = 0.0

    def feed(self, row: Row) -> Iterator[TraceSpan]:
        """Read the next row; yields the spans that it ends."""
        body = read_row(row)
        if row.key == TRACEPARENT and isinstance(body, Note):
            self.trace = trace_of(self._run_id, read_fields(row.body))
        root = self._begin_root(row)
        self._last = max(self._last, row.at)
        if self._content:
            self._conversations.read(row)
        match body:
            case Note():
                self._note(root, row)
            case Intent():
                self._begin(root, row, body)
            case Outcome() | RefusedEffect():
                yield from self._end(root, row, body)

    def close(self) -> Iterator[TraceSpan]:
        """The remaining spans after the last row: those without an end, and the run's own."""
        for span in self._open.values():
            span.end, span.error = self._last, span.error or "interrupted"
            yield span
        self._open.clear()
        if self._root is not None:
            self._root.end = self._last
            yield self._root

    # --- the run -------------------------------------------------------------------------------

    def _begin_root(self, row: Row) -> TraceSpan:
        if self._root is None:
            attributes: dict[str, Value] = {
                NAMES.OPERATION: NAMES.WORKFLOW,
                NAMES.AGENT: self._name,
                NAMES.CONVERSATION: self._run_id,
            }
            span = self.trace.span_id()
            name = f"{NAMES.WORKFLOW} {self._name}"
            self._root = TraceSpan(name, "internal", span, "", row.at, row.at, attributes)
        self._root.parent = self.trace.parent
        return self._root

    def _note(self, root: TraceSpan, row: Row) -> None:
        key, body = Key.parse(row.key), read_fields(row.body)
        if row.key == VERDICT:
            self._verdict(root, row.at, body)
        elif row.key == PROVIDER_NOTE:
            self._provider = body["provider"]
        elif key.part in NOTES:
            self._event(root, NOTES[key.part], row, body)
        elif key.is_escalation:
            self._event(self._above(key, root), "escalation", row, body)
        elif key.step in {"loop", "left_out", "last_turn"}:
            name = {"left_out": "compaction"}.get(key.step, key.step)
            self._event(self._above(key, root), name, row, body)

    def _event(self, span: TraceSpan, name: str, row: Row, body: Mapping[str, Any]) -> None:
        found: dict[str, Value] = {"diffcourt.journal.key": row.key}
        if name == "checkpoint":
            found["diffcourt.journal.row"], found["diffcourt.journal.hash"] = row.seq, row.hash
        for field_name, value in body.items():
            if field_name in SHOWN and isinstance(value, str | bool):
                found[f"diffcourt.{field_name}"] = value
            elif self._content and field_name in TOLD:
                found[f"diffcourt.{field_name}"] = self._text(value)
        span.events.append(SpanEvent(f"diffcourt.{name}", row.at, found))

    def _verdict(self, root: TraceSpan, at: float, body: Mapping[str, Any]) -> None:
        change, stop = body["change"], body["stop"]
        root.attributes |= {
            NAMES.HEAD_REVISION: change["head"],
            NAMES.BASE_REVISION: change["base"],
            "diffcourt.verdict": body["verdict"],
            "diffcourt.status": body["status"],
            "diffcourt.stop.reason": stop["reason"],
            "diffcourt.findings": sum(one["state"] == "open" for one in body["findings"]),
            "diffcourt.cost.usd": float(body["usage"]["usd"]),
        }
        root.error = "" if body["status"] == "complete" else f"incomplete_{stop['reason']}"
        root.events = [event for event in root.events if event.name != NAMES.EVALUATION]
        for criterion in body["score"]["criteria"]:
            if criterion["kind"] != "judged" or criterion["score"] is None:
                continue
            result: dict[str, Value] = {
                NAMES.EVALUATION_NAME: criterion["id"],
                NAMES.EVALUATION_SCORE: float(criterion["score"]),
            }
            if self._content:
                result[NAMES.EVALUATION_WHY] = self._text(criterion["why"])
            root.events.append(SpanEvent(NAMES.EVALUATION, at, result))

    # --- agents, models, tools -----------------------------------------------------------------

    def _begin(self, root: TraceSpan, row: Row, begun: Effect) -> None:
        key, request = Key.parse(row.key), begun.request
        before = self._open.pop(row.key, None)  # it was interrupted and is repeated
        attributes: dict[str, Value] = {
            NAMES.CONVERSATION: self._run_id,
            "diffcourt.journal.key": row.key,
        }
        if request.agent:
            attributes[NAMES.AGENT] = request.agent
        if key.iteration:
            attributes["diffcourt.iteration"] = key.iteration
        if before is not None:
            attributes["diffcourt.repeated"] = True
        match request.kind:
            case "question":
                self._event(root, "question", row, begun.parameters)
            case "tool":
                self._open[row.key] = self._tool(row, begun, attributes)
            case "model":
                self._open[row.key] = self._chat(row, key, request, attributes)
            case "task":
                self._open[row.key] = self._agent(row, key, request, attributes)

    def _span(self, row: Row, operation: str, of: str, attributes: dict[str, Value]) -> TraceSpan:
        above = self._open.get(str(Key.parse(row.key).task))
        parent = above.span_id if above is not None else self.trace.span_id()
        kind: Literal["internal", "client"] = "client" if operation == NAMES.CHAT else "internal"
        attributes = {NAMES.OPERATION: operation, **attributes}
        span_id = self.trace.span_id(row.key)
        return TraceSpan(f"{operation} {of}", kind, span_id, parent, row.at, row.at, attributes)

    def _tool(self, row: Row, begun: Effect, attributes: dict[str, Value]) -> TraceSpan:
        name = begun.request.name
        tool: dict[str, Value] = {
            NAMES.TOOL: name,
            NAMES.TOOL_TYPE: "function",
            NAMES.TOOL_CALL: row.key,
        }
        if self._content:
            arguments = begun.request.arguments if begun.effective is UNSET else begun.effective
            tool[NAMES.ARGUMENTS] = self._text(msgspec.json.decode(arguments))
        return self._span(row, NAMES.EXECUTE, name, {**attributes, **tool})

    def _chat(
        self, row: Row, key: Key, request: RecordedRequest, attributes: dict[str, Value]
    ) -> TraceSpan:
        vendors, (before, _, rest) = self._provider.split(", "), request.model.partition(":")
        vendor, model = (before, rest) if before in vendors else (vendors[0], request.model)
        chat: dict[str, Value] = {
            NAMES.PROVIDER: PROVIDERS.get(vendor, vendor or OFFLINE),
            NAMES.REQUEST_MODEL: model,
            "diffcourt.turn": key.turn,
        }
        if self._content and NAMES.AGENT in attributes:
            system = self._conversations.data(request.system) or ()
            chat[NAMES.SYSTEM] = self._messages.write_parts([text_part(s["text"]) for s in system])
            sent = self._conversations.sent(key).messages
            chat[NAMES.INPUT] = self._messages.write(describe_messages(sent))
        return self._span(row, NAMES.CHAT, model, {**attributes, **chat})

    def _agent(
        self, row: Row, key: Key, request: RecordedRequest, attributes: dict[str, Value]
    ) -> TraceSpan:
        operation = NAMES.PLAN if key.part == "plan" else NAMES.INVOKE
        if self._content:
            brief = self._conversations.data(request.brief) or ""
            message = {"role": "user", "parts": [text_part(brief)]}
            attributes[NAMES.INPUT] = self._messages.write([message])
        return self._span(row, operation, request.agent, attributes)

    def _end(self, root: TraceSpan, row: Row, ended: Effect) -> Iterator[TraceSpan]:
        key = Key.parse(row.key)
        if key.step == "answer" or key.part == GRANT:
            name = "answer" if key.step == "answer" else "limit_raised"
            self._event(root, name, row, read_fields(ended.value))
        if isinstance(ended, RefusedEffect) and row.key not in self._open:
            self._begin(root, row, ended)
        span = self._open.pop(row.key, None)
        if span is None:
            return
        span.end = row.at
        span.error = ended.code or ended.error
        if NAMES.AGENT not in span.attributes:  # a program's own model call: only its cost is known
            span.attributes["diffcourt.cost.usd"] = ended.cost.usd
        elif ended.value:
            self._ended(span, row, ended)
        if ended.guard:
            fields = {"guard": ended.guard, "reason": ended.reason, "level": ended.level}
            self._event(span, "guard", row, {**fields, "action": "block", "layer": "tool"})
        yield span

    def _ended(self, span: TraceSpan, row: Row, ended: Effect) -> None:
        result = ended.result
        if result.blocks is not UNSET:
            self._answered(span, result, ended)
        elif result.status:
            span.error = "" if result.status == "ok" else result.status
            if self._content:
                text = json.dumps(msgspec.json.decode(result.report), ensure_ascii=False)
                span.attributes[NAMES.OUTPUT] = self._answer([text_part(text)], "stop")
        else:
            span.error = "" if result.ok else result.code or "failed"
            for warning in result.warnings:
                fields = {"guard": warning.guard, "reason": warning.reason}
                self._event(span, "guard", row, {**fields, "action": "warn", "layer": "tool"})
            if self._content:
                span.attributes[NAMES.RESULT] = self._text(result.content)

    def _answered(self, span: TraceSpan, result: RecordedResult, ended: Effect) -> None:
        usage, finish = result.usage, FINISHES.get(result.stop, result.stop)
        span.attributes |= {
            NAMES.RESPONSE_MODEL: result.model or str(span.attributes[NAMES.REQUEST_MODEL]),
            NAMES.FINISH_REASONS: (finish,),
            NAMES.INPUT_TOKENS: usage.input_tokens,
            NAMES.OUTPUT_TOKENS: usage.output_tokens,
            NAMES.CACHE_READ_TOKENS: usage.cached_tokens,
            NAMES.REASONING_TOKENS: usage.reasoning_tokens,
            "diffcourt.cost.usd": usage.usd,
        }
        if result.server:
            host, _, port = result.server.rpartition(":")
            span.attributes |= {NAMES.SERVER: host, NAMES.PORT: int(port)}
        if result.id:
            span.attributes[NAMES.RESPONSE_ID] = result.id
        if result.max_tokens:
            span.attributes[NAMES.MAX_TOKENS] = result.max_tokens
        if result.model == OFFLINE:
            span.attributes[NAMES.PROVIDER] = OFFLINE
        if self._content:
            answer = msgspec.json.decode(ended.value, type=Response)
            parts = [*map(describe_block, answer.blocks)]
            span.attributes[NAMES.OUTPUT] = self._answer(parts, finish)

    # --- helpers -------------------------------------------------------------------------------

    def _above(self, key: Key, root: TraceSpan) -> TraceSpan:
        return self._open.get(str(key.task), root)

    def _answer(self, parts: list[Part], finish: str) -> str:
        message = {"role": "assistant", "parts": parts, "finish_reason": finish}
        return self._messages.write([message])

    def _text(self, value: Any) -> str:
        """Content as an attribute: redacted, as JSON unless it is text, and cut to the limit."""
        clean = self._redact(value)
        text = clean if isinstance(clean, str) else json.dumps(clean, ensure_ascii=False)
        return cut_text(text)
