"""From a stream of server-sent events to the document that the API gives without streaming.

A stream says at once when a server has gone, and no network on the way takes a long answer for a
dead connection. Nothing of an answer is used before it is whole. The SDKs' own accumulators leave
out what they do not know and read NaN; these hold every event to what ``reply`` holds a reply to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.engine.types import Json
from orchestrator.providers.provider_errors import TransientError
from orchestrator.providers.reply_parsing import (
    MAX_BLOCKS,
    Unusable,
    a_list,
    a_text,
    an_object,
    count,
    loads,
    members,
)

MAX_STREAM_BYTES = 64_000_000
"""Each event repeats some hundred bytes around a word."""

Events = Sequence[dict[str, Json]]

_DONE = "[DONE]"
_FIELDS = {"event", "id", "retry", ""}
_ENDS = {"response.completed", "response.incomplete", "response.failed"}
_THEIR_FAULTS = ("server_error", "rate_limit_exceeded")
"""Without streaming, these are statuses 500 and 429."""
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
_JOINED = ("content", "refusal", "reasoning_content", "reasoning")


def events(data: bytes) -> Iterator[dict[str, Json]]:
    """The events of a stream; Chat Completions' last one as ``{"type": "[DONE]"}``.

    Raises:
        Unusable: it is no event stream of JSON objects.
        Transient: the server says in it that something went wrong.
    """
    lines: list[bytes] = []
    for line in [*data.splitlines(), b""]:
        field, _, value = line.partition(b":")
        if field == b"data":
            lines.append(value.removeprefix(b" "))
        elif not line and lines:
            yield _event(b"\n".join(lines))
            lines.clear()
        elif field.decode("latin-1") not in _FIELDS:
            raise Unusable(f"not an event stream (a line begins with {field[:20]!r})")


def _event(data: bytes) -> dict[str, Json]:
    if data == _DONE.encode():
        return {"type": _DONE}
    event = an_object(loads(data), "an event")
    if event.get("type") == "error" or event.get("error"):
        said = members(event.get("error") or event)
        kind = said.get("type") or said.get("code")
        raise TransientError(f"the server broke off ({kind!r:.60})", lost=True)
    return event


def _whole(document: dict[str, Json] | None, *, ended: bool) -> dict[str, Json]:
    if document is None or not ended:
        raise TransientError("the stream ended in the middle of the reply", lost=True)
    return document


class _Pieces:
    """Texts that come in pieces: place → the pieces so far."""

    def __init__(self) -> None:
        self._said: dict[tuple[int, str], list[str]] = {}

    def add(self, at: int, key: str, text: Json) -> None:
        """One more piece.

        Raises:
            Unusable: it is no text.
        """
        self._said.setdefault((at, key), []).append(a_text(text, f"a piece of {key}"))

    def put(self, targets: Mapping[int, dict[str, Json]]) -> None:
        """Have each text stand where it belongs, behind what stands there already."""
        for (at, key), said in self._said.items():
            before = targets[at].get(key)
            targets[at][key] = (before if isinstance(before, str) else "") + "".join(said)


def _place(value: Json) -> int:
    at = count(value)
    if at is None or at >= MAX_BLOCKS:
        raise Unusable(f"an event is about part {value!r:.20}, of at most {MAX_BLOCKS}")
    return at


# --- Messages -------------------------------------------------------------------------------------


def message(stream: Events) -> dict[str, Json]:
    """The reply of the Messages API.

    Raises:
        Transient: it is not whole.
        Unusable: an event does not fit, or changes a block in a way that is not known.
    """
    document: dict[str, Json] | None = None
    blocks, pieces, ended = dict[int, dict[str, Json]](), _Pieces(), False
    for event in stream:
        match event.get("type"):
            case "message_start":
                document = dict(an_object(event.get("message"), "a message"))
            case "content_block_start":
                block = an_object(event.get("content_block"), "a block")
                blocks[_place(event.get("index"))] = dict(block)
            case "content_block_delta":
                _change(blocks, pieces, event)
            case "message_delta" if document is not None:
                usage = {k: v for k, v in members(event.get("usage")).items() if v is not None}
                document |= members(event.get("delta"))
                document["usage"] = {**members(document.get("usage")), **usage}
            case "message_stop":
                ended = True
    whole = _whole(document, ended=ended)
    pieces.put(blocks)
    return {**whole, "content": [_carried(blocks[at]) for at in sorted(blocks)]}


def _change(blocks: Mapping[int, dict[str, Json]], pieces: _Pieces, event: Json) -> None:
    at, delta = _place(event.get("index")), members(event.get("delta"))
    kind = str(delta.get("type"))
    if at not in blocks:
        raise Unusable(f"an event changes block {at}, which has not begun")
    if kind in _PIECES:
        pieces.add(at, _PIECES[kind], delta.get(_PIECES[kind]))
    elif kind == "input_json_delta":
        pieces.add(at, "input", delta.get("partial_json"))
    elif kind == "citations_delta":
        known = blocks[at].get("citations")
        before = known if isinstance(known, list) else []
        blocks[at]["citations"] = [*before, delta.get("citation")]
    else:
        raise Unusable(f"a block changes by a {kind:.40}, which is not known; try `streams: false`")


def _carried(block: dict[str, Json]) -> dict[str, Json]:
    """A block as it can be carried back: a call of ours is read later, faults and all."""
    written = block.get("input")
    if block.get("type") == "tool_use" or not isinstance(written, str):
        return block
    return {**block, "input": loads(written)}


# --- Responses ------------------------------------------------------------------------------------


def response(stream: Events) -> dict[str, Json]:
    """The reply of the Responses API, which its last event repeats as a whole.

    Raises:
        Transient: it is not whole, or the server says that it failed through no fault of ours.
    """
    for event in stream:
        if str(event.get("type")) in _ENDS:
            document = an_object(event.get("response"), "the response")
            code = members(document.get("error")).get("code")
            if code in _THEIR_FAULTS:
                raise TransientError(f"the server broke off ({code})", lost=True)
            return document
    return _whole(None, ended=False)


# --- Chat Completions -----------------------------------------------------------------------------


def completion(stream: Events) -> dict[str, Json]:
    """The reply of a server of Chat Completions.

    Raises:
        Transient: it is not whole.
        Unusable: a chunk does not fit.
    """
    document: dict[str, Json] = {}
    said, calls, reason = dict[str, Json](), dict[int, dict[str, Json]](), None
    words, arguments, ended = _Pieces(), _Pieces(), False
    for chunk in stream:
        ended = ended or chunk.get("type") == _DONE
        document |= {key: chunk[key] for key in ("model", "usage") if chunk.get(key)}
        choices = chunk.get("choices")
        choice = members(choices[0]) if isinstance(choices, list) and choices else {}
        reason = choice.get("finish_reason") or reason
        delta = members(choice.get("delta"))
        for key in _JOINED:
            if delta.get(key):
                words.add(0, key, delta[key])
        for call in a_list(delta.get("tool_calls") or [], "its tool_calls"):
            _called(calls, arguments, an_object(call, "a call"))
    words.put({0: said})
    arguments.put(calls)
    made = [{"id": c.pop("id", None), "function": c} for _, c in sorted(calls.items())]
    choice = {"message": {**said, "tool_calls": made}, "finish_reason": reason}
    return _whole({**document, "choices": [choice]}, ended=ended or reason is not None)


def _called(
    calls: dict[int, dict[str, Json]], arguments: _Pieces, given: Mapping[str, Any]
) -> None:
    # Some servers number no calls: one with an id begins, what follows belongs to it.
    last = len(calls) if given.get("id") else max(len(calls) - 1, 0)
    at = _place(last if given.get("index") is None else given["index"])
    call, function = calls.setdefault(at, {}), members(given.get("function"))
    call |= {key: v for key, v in (("id", given.get("id")), ("name", function.get("name"))) if v}
    if function.get("arguments"):
        arguments.add(at, "arguments", function["arguments"])
