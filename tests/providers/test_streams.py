"""Answers that are streamed are the same as whole ones, or lost, or cannot be used."""

import json

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.engine.types import Opaque, Response, Text, ToolCall, Usage
from orchestrator.errors import ModelError
from orchestrator.providers import stream_parsing
from orchestrator.providers.provider_errors import TransientError
from orchestrator.providers.reply_parsing import Unusable
from orchestrator.testing.scripted_model import calls, says
from orchestrator.testing.server_script import Cut, Raw, Trickle, thinking
from tests.providers.provider_kit import FULL, PROVIDERS, QUICK, answered, bench, request

pytestmark = pytest.mark.anyio

PLAIN = replace(FULL, streams=False, returns_reasoning=True)
STREAMED = replace(PLAIN, streams=True)
EVENTS = "text/event-stream"
FOLDS = {
    "anthropic": stream_parsing.message,
    "openai": stream_parsing.response,
    "openai-compatible": stream_parsing.completion,
}
UNKNOWN = Opaque("server", {"type": "mood_ring", "color": "blue", "deep": [{"a": None}]})


CALLED = calls(("search", {"text": "héllo \u2028"}), ("search", {"text": ""})).blocks
USED = Usage(900, 70, cached_tokens=300, reasoning_tokens=20)
LINE = Response((thinking("Let me see."), Text("I will search."), *CALLED), "tool_use", USED)


async def both(name: str, *lines: Response) -> list[Response]:
    """The first answer, in one piece and streamed; the others follow on the calls in it."""
    answers = []
    for can in (PLAIN, STREAMED):
        async with bench(name, lines, can=can) as used:
            first = await used.model.respond(request(name))
            for _ in lines[1:]:
                # Reasoning is signed: the server takes it back only unmodified.
                await used.model.respond(answered(request(name), first.blocks))
            used.server.finish()
        assert {body.get("stream", False) for body in used.bodies} == {can.streams}
        answers.append(first)
    return answers


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_streamed_answer_is_the_same_as_a_whole_one(name):
    whole, streamed = await both(name, LINE, says("done"))
    assert [type(block) for block in streamed.blocks] == [Opaque, Text, ToolCall, ToolCall]
    assert streamed.blocks[1:] == whole.blocks[1:]
    assert streamed.blocks[0].payload.keys() == whole.blocks[0].payload.keys()
    assert (streamed.stop, streamed.model) == (whole.stop, whole.model)
    assert streamed.usage == whole.usage
    assert (streamed.usage.cached_tokens > 0, streamed.usage.reasoning_tokens) == (True, 20)


async def test_blocks_that_are_not_known_come_through_a_stream():
    whole, streamed = await both("anthropic", Response((UNKNOWN, Text("hm")), "end"))
    assert streamed == whole
    assert streamed.blocks[0].payload == UNKNOWN.payload


@pytest.mark.parametrize(
    ("name", "stop"),
    [("anthropic", "paused"), ("openai", "refused"), ("openai-compatible", "filtered")],
)
async def test_every_end_is_the_same(name, stop):
    ends = []
    for can in (PLAIN, STREAMED):
        async with bench(name, [Response((Text("I can"),), stop)], can=can) as used:
            try:
                ends.append((await used.model.respond(request(name))).stop)
            except ModelError as fault:
                ends.append(str(fault))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_stream_that_is_cut_is_lost_wherever_that_is(name):
    for after in (0, 40, 400, 1200):
        async with bench(name, [Cut(after, LINE), says("done")], can=STREAMED) as used:
            answer = await used.model.respond(request(name))
            used.server.finish()
        assert answer.blocks[-1] == Text("done")
        assert [event.lost for event in used.events] == [True]


BROKEN = {
    "anthropic": {"type": "error", "error": {"type": "overloaded_error", "message": "full"}},
    "openai": {"type": "error", "code": "server_error", "message": "full"},
    "openai-compatible": {"error": {"message": "full", "type": "overloaded"}},
}


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_stream_that_stops_or_says_that_it_failed_is_lost(name):
    failed = b": ping\r\n\r\ndata: " + json.dumps(BROKEN[name]).encode() + b"\r\n\r\n"
    lines = [Raw(b"", EVENTS), Raw(failed, EVENTS), says("done")]
    async with bench(name, lines, can=STREAMED) as used:
        answer = await used.model.respond(request(name))
        used.server.finish()
    assert answer.blocks[-1] == Text("done")
    assert [event.lost for event in used.events] == [True, True]
    assert "in the middle" in used.events[0].detail
    assert "the server broke off" in used.events[1].detail


@pytest.mark.parametrize(("code", "tries"), [("server_error", 2), ("invalid_prompt", 1)])
async def test_a_response_that_failed_is_tried_again_where_that_may_help(code, tries):
    failed = {"status": "failed", "error": {"code": code, "message": "no"}, "output": []}
    lines = [Raw(told({"type": "response.failed", "response": failed}), EVENTS), says("done")]
    async with bench("openai", lines[:tries], can=STREAMED) as used:
        if tries == 1:
            with pytest.raises(ModelError, match="error 'invalid_prompt'"):
                await used.model.respond(request("openai"))
        else:
            await used.model.respond(request("openai"))
        used.server.finish()


async def test_a_stream_may_take_long_but_not_be_silent():
    name = "anthropic"
    policy = replace(QUICK, timeout=1.0)
    slow, silent = Trickle(60, 0.08, says("done")), Trickle(200, 3, says("late"))
    async with bench(name, [slow], can=STREAMED, policy=policy) as used:
        started = anyio.current_time()
        await used.model.respond(request(name))
        assert anyio.current_time() - started > policy.timeout
    assert used.events == []
    async with bench(name, [silent, says("done")], can=STREAMED, policy=policy) as used:
        await used.model.respond(request(name))
    assert [event.lost for event in used.events] == [True]


async def test_a_server_that_does_not_stream_though_asked_is_understood():
    document = {
        "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "done"}], "usage": {},
    }  # fmt: skip
    async with bench("anthropic", [Raw(json.dumps(document).encode())], can=STREAMED) as used:
        assert (await used.model.respond(request("anthropic"))).blocks == (Text("done"),)


def told(*events: object) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
START = {"type": "message_start", "message": {"content": []}}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>busy</html>\n\n", "not an event stream"),
        (b"data: {\n\n", "not usable JSON"),
        (b'data: {"type": "ping", "n": NaN}\n\n', "not usable JSON"),
        (told([]), "not an object"),
        (told(START, BLOCK | {"index": -1}), "about part -1"),
        (
            told(START, {"type": "content_block_delta", "index": 0, "delta": {"type": "x"}}),
            "has not begun",
        ),
        (
            told(START, BLOCK, {"type": "content_block_delta", "index": 0, "delta": {"type": "x"}}),
            "try `streams: false`",
        ),
    ],
)
def test_a_stream_that_makes_no_sense_cannot_be_used(body, why):
    with pytest.raises(Unusable, match=why):
        stream_parsing.message(list(stream_parsing.events(body)))


def test_servers_that_number_no_calls_are_understood():
    def part(**call: object) -> dict[str, object]:
        return {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": None}]}

    made = stream_parsing.completion(
        [
            part(id="a", function={"name": "search", "arguments": '{"te'}),
            part(function={"arguments": 'xt": "x"}'}),
            part(id="b", function={"name": "search", "arguments": "{}"}),
            {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
        ]
    )
    said = made["choices"][0]["message"]["tool_calls"]
    assert [(call["id"], call["function"]["arguments"]) for call in said] == [
        ("a", '{"text": "x"}'),
        ("b", "{}"),
    ]


KEYS = st.sampled_from(
    ["type", "index", "delta", "message", "content_block", "usage", "response", "choices",
     "tool_calls", "function", "arguments", "id", "name", "text", "partial_json", "content"]
)  # fmt: skip
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
KINDS = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "message_delta",
     "message_stop", "text_delta", "input_json_delta", "citations_delta", "signature_delta",
     "response.completed", "[DONE]"]
)  # fmt: skip


@given(st.lists(st.builds(lambda kind, rest: {**rest, "type": kind}, KINDS | JUNK,
                          st.dictionaries(KEYS, JUNK | st.fixed_dictionaries({"type": KINDS}))),
                max_size=6))  # fmt: skip
def test_no_events_are_more_than_lost_or_unusable(events):
    for fold in FOLDS.values():
        try:
            assert isinstance(fold(events), dict)
        except (TransientError, Unusable):
            continue


@given(st.binary(max_size=80) | st.lists(st.sampled_from(
    [b"data:", b" {}", b"\n", b"\n\n", b"[DONE]", b"event: x", b"\r\n", b": c", b'{"a":1}']
)).map(b"".join))  # fmt: skip
def test_no_bytes_are_more_than_events_or_unusable(data):
    try:
        assert all(isinstance(event, dict) for event in stream_parsing.events(data))
    except (TransientError, Unusable):
        return
