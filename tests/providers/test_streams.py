"""Streamed replies are the same as whole ones, or lost, or invalid."""

import json
import re

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.engine.types import Opaque, Response, Text, ToolCall, Usage
from orchestrator.errors import ModelError
from orchestrator.providers.factory import make_model
from orchestrator.providers.provider_errors import ReportedError, TransientError
from orchestrator.providers.reply_normalization import UNREADABLE, InvalidReplyError, Reply
from tests.model_server.server_script import ServerReply
from tests.providers.provider_kit import (
    FULL,
    PROVIDERS,
    QUICK,
    append_answer,
    open_session,
    request,
    shipped_models,
)
from tests.scripted_model import text_reply, tool_call_reply
from tests.server_replies import cut, raw, thinking_block, trickle

PLAIN = replace(FULL, streams=False, returns_reasoning=True)
STREAMED = replace(PLAIN, streams=True)
EVENTS = "text/event-stream"
UNKNOWN = Opaque(
    "server",
    {"type": "mood_ring", "color": "blue", "text": 3, "citations": "x", "deep": [{"a": None}]},
)


CALLED = tool_call_reply(("search", {"text": "héllo \u2028"}), ("search", {"text": ""})).blocks
USED = Usage(900, 70, cached_tokens=300, reasoning_tokens=20)
LINE = Response((thinking_block("Let me see."), Text("I will search."), *CALLED), "tool_use", USED)


async def both(name: str, *lines: Response) -> list[Response]:
    """The first answer, in one piece and streamed; the others follow on the calls in it."""
    answers = []
    for can in (PLAIN, STREAMED):
        async with open_session(name, lines, can=can) as used:
            first = await used.model.respond(request(name))
            for _ in lines[1:]:
                # Reasoning is signed: the server takes it back only unmodified.
                await used.model.respond(append_answer(request(name), first.blocks))
            used.server.finish()
        assert {body.get("stream", False) for body in used.bodies} == {can.streams}
        answers.append(first)
    return answers


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_streamed_answer_is_the_same_as_a_whole_one(name):
    whole, streamed = await both(name, LINE, text_reply("done"))
    assert [type(block) for block in streamed.blocks] == [Opaque, Text, ToolCall, ToolCall]
    assert streamed.blocks[1:] == whole.blocks[1:]
    thought, same = streamed.blocks[0], whole.blocks[0]
    assert isinstance(thought, Opaque)
    assert isinstance(same, Opaque)
    assert thought.payload.keys() == same.payload.keys()
    assert (streamed.stop, streamed.model) == (whole.stop, whole.model)
    assert streamed.usage == whole.usage
    assert (streamed.usage.cached_tokens > 0, streamed.usage.reasoning_tokens) == (True, 20)


async def test_blocks_that_are_not_known_come_through_a_stream():
    whole, streamed = await both("anthropic", Response((UNKNOWN, Text("hm")), "end"))
    assert replace(streamed, id=whole.id, server=whole.server) == whole
    unknown = streamed.blocks[0]
    assert isinstance(unknown, Opaque)
    assert unknown.payload == UNKNOWN.payload


@pytest.mark.parametrize(
    ("name", "stop"),
    [("anthropic", "paused"), ("openai", "refused"), ("openai-compatible", "filtered")],
)
async def test_streamed_and_plain_replies_end_the_same(name, stop):
    ends: list[str] = []
    for can in (PLAIN, STREAMED):
        async with open_session(name, [Response((Text("I can"),), stop)], can=can) as used:
            try:
                ends.append((await used.model.respond(request(name))).stop)
            except ModelError as fault:
                ends.append(str(fault))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_stream_that_is_cut_is_lost_wherever_that_is(name):
    for after in (0, 40, 400, 1200):
        async with open_session(name, [cut(after, LINE), text_reply("done")], can=STREAMED) as used:
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
    failed = b": ping\r\n\r\n" + told(BROKEN[name]).replace(b"\n", b"\r\n")
    lines: list[ServerReply] = [raw(b"", EVENTS), raw(failed, EVENTS), text_reply("done")]
    async with open_session(name, lines, can=STREAMED) as used:
        answer = await used.model.respond(request(name))
        used.server.finish()
    assert answer.blocks[-1] == Text("done")
    assert [event.lost for event in used.events] == [True, True]
    assert "before the reply was complete" in used.events[0].detail
    assert "reported an error in its reply" in used.events[1].detail
    assert re.search("overloaded|server_error", used.events[1].detail)


@pytest.mark.parametrize(("code", "tries"), [("server_error", 2), ("invalid_prompt", 1)])
async def test_a_response_that_failed_is_tried_again_where_that_may_help(code, tries):
    failed = {"status": "failed", "error": {"code": code, "message": "no"}, "output": []}
    told_failed = raw(told({"type": "response.failed", "response": failed}), EVENTS)
    lines: list[ServerReply] = [told_failed, text_reply("done")]
    async with open_session("openai", lines[:tries], can=STREAMED) as used:
        if tries == 1:
            with pytest.raises(ModelError, match=r"refused the request.*\(400\): no"):
                await used.model.respond(request("openai"))
        else:
            await used.model.respond(request("openai"))
        used.server.finish()


async def test_a_stream_may_be_slow_but_not_silent():
    name = "anthropic"
    policy = replace(QUICK, timeout=1.0)
    slow, silent = trickle(60, 0.08, text_reply("done")), trickle(200, 3, text_reply("late"))
    async with open_session(name, [slow], can=STREAMED, policy=policy) as used:
        started = anyio.current_time()
        await used.model.respond(request(name))
        assert anyio.current_time() - started > policy.timeout
    assert used.events == []
    async with open_session(
        name, [silent, text_reply("done")], can=STREAMED, policy=policy
    ) as used:
        await used.model.respond(request(name))
    assert [event.lost for event in used.events] == [True]


async def test_a_server_that_does_not_stream_though_asked_is_understood():
    document = {
        "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "done"}], "usage": {},
    }  # fmt: skip
    async with open_session(
        "anthropic", [raw(json.dumps(document).encode())], can=STREAMED
    ) as used:
        assert (await used.model.respond(request("anthropic"))).blocks == (Text("done"),)


def told(*events: object) -> bytes:
    """A stream as the services send it: each event is named by its type."""
    return b"".join(
        f"event: {isinstance(event, dict) and event.get('type')}\n"
        f"data: {json.dumps(event)}\n\n".encode()
        for event in events
    )


BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
START = {"type": "message_start", "message": {"content": []}}
CALL = BLOCK | {"content_block": {"type": "tool_use", "id": "a", "name": "search", "input": {}}}


def change(**delta):
    return {"type": "content_block_delta", "index": 0, "delta": delta}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"event: message_start\ndata: {\n\n", "not valid JSON"),
        (b"event: message_start\ndata: \xff\n\n", "not valid JSON"),
        (told([]), "API's structure"),
        (told(START, BLOCK | {"index": -1}), "begins out of order"),
        (told(START, BLOCK, BLOCK), "begins out of order"),
        (told(START, change(type="x")), "changes before it begins"),
        (told(START, BLOCK, change(type="x")), "try `streams: false`"),
        (told(START, CALL, change(type="text_delta", text="x")), "try `streams: false`"),
        (told(START, BLOCK, change(type="text_delta", text=3)), "API's structure"),
        (told({**START, "message": {"usage": {"input_tokens": {}}}}), "wrong type"),
        (told(START, CALL | {"content_block": {"type": "thinking", "thinking": 3}}), "wrong type"),
    ],
)
async def test_a_stream_that_does_not_fit_is_an_invalid_reply(body, why):
    async with open_session("anthropic", [raw(body, EVENTS)], can=STREAMED) as used:
        with pytest.raises(ModelError, match=f"invalid reply: .*{why}"):
            await used.model.respond(request("anthropic"))
        used.server.finish()


async def test_events_that_are_not_known_and_missing_counts_are_accepted():
    body = told(
        {"type": "mood", "message": None},
        START,
        {"type": "mood", "index": 7},
        BLOCK,
        change(type="text_delta", text="done"),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )
    async with open_session("anthropic", [raw(body, EVENTS)], can=STREAMED) as used:
        answer = await used.model.respond(request("anthropic"))
    assert (answer.blocks, answer.stop) == ((Text("done"),), "end")
    assert answer.usage.estimated


async def test_arguments_that_were_cut_off_are_not_completed_by_guessing():
    body = told(
        START,
        CALL,
        change(type="input_json_delta", partial_json='{"text": "a", "mo'),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
        {"type": "message_stop"},
    )
    async with open_session("anthropic", [raw(body, EVENTS)], can=STREAMED) as used:
        (call,) = (await used.model.respond(request("anthropic"))).blocks
    assert isinstance(call, ToolCall)
    assert call.arguments == {UNREADABLE: '{"text": "a", "mo'}


def part(**call):
    return {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": None}]}


SEARCHES = {
    "none is numbered": [
        part(id="a", function={"name": "search", "arguments": '{"te'}),
        part(function={"arguments": 'xt": "x"}'}),
        part(id="b", function={"name": "search", "arguments": "{}"}),
    ],
    "numbers begin at 1": [
        part(index=1, id="a", function={"name": "search", "arguments": '{"te'}),
        part(index=1, function={"arguments": 'xt": "x"}'}),
        part(index=2, id="b", function={"name": "search", "arguments": "{}"}),
    ],
    "id and name are repeated": [
        part(index=0, id="a", function={"name": "search", "arguments": '{"te'}),
        part(index=0, id="a", function={"name": "search", "arguments": 'xt": "x"}'}),
        part(index=1, id="b", function={"name": "search", "arguments": "{}"}),
    ],
}


@pytest.mark.parametrize("chunks", SEARCHES.values(), ids=SEARCHES)
async def test_calls_are_understood_however_a_server_numbers_them(chunks):
    usage = {"usage": {"prompt_tokens": 11, "completion_tokens": 3}}
    end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    name = "openai-compatible"
    async with open_session(name, [raw(told(usage, *chunks, end), EVENTS)], can=STREAMED) as used:
        answer = await used.model.respond(request(name))
    assert answer.blocks == (ToolCall("a", "search", {"text": "x"}), ToolCall("b", "search", {}))
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (11, 3)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_large_stream_is_decoded_while_the_event_loop_runs(name):
    text = "word " * 60_000
    async with open_session(name, [text_reply(text)], can=STREAMED) as used:
        answer = await used.model.respond(request(name))
    assert answer.blocks == (Text(text),)


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


@pytest.fixture(scope="module")
def models():
    """A model of each provider without a server."""
    config, prices = shipped_models()
    made = {}
    for name in PROVIDERS:
        provider = config.provider(name)
        env = {provider.key_env: "key", provider.base_url_env: "http://127.0.0.1:9"}
        opened = make_model(name, config, prices, env=env)
        made[name] = anyio.run(opened.__aenter__)
    return made


def decode(model, body):
    headers = {"content-type": EVENTS}
    return model.decode(httpx2.Response(200, headers=headers, content=body), request(model.name))


EVENT = st.builds(lambda kind, rest: {**rest, "type": kind}, KINDS | JUNK,
                  st.dictionaries(KEYS, JUNK | st.fixed_dictionaries({"type": KINDS})))  # fmt: skip


@given(st.lists(EVENT, max_size=6))
def test_no_events_are_more_than_lost_or_invalid(models, events):
    for model in models.values():
        try:
            assert isinstance(decode(model, told(*events)), Reply)
        except (TransientError, InvalidReplyError, ReportedError):
            continue


@given(st.binary(max_size=80) | st.lists(st.sampled_from(
    [b"data:", b" {}", b"\n", b"\n\n", b"[DONE]", b"event: message_stop", b"\r\n", b": c"]
)).map(b"".join))  # fmt: skip
def test_no_bytes_are_more_than_lost_or_invalid(models, data):
    for model in models.values():
        try:
            assert isinstance(decode(model, data), Reply)
        except (TransientError, InvalidReplyError):
            continue


CARRIED = st.sampled_from(["thinking", "redacted_thinking", "reasoning", "compaction", "mood_ring"])


@given(st.builds(lambda kind, rest: {**rest, "type": kind}, CARRIED, st.dictionaries(KEYS, JUNK)))
def test_blocks_that_are_carried_back_are_unmodified(models, block):
    documents = {
        "anthropic": {"content": [block], "stop_reason": "end_turn"},
        "openai": {"output": [block], "status": "completed"},
    }
    for name, document in documents.items():
        body = json.dumps(document).encode()
        reply = models[name].decode(httpx2.Response(200, content=body), request(name))
        assert reply.blocks == (Opaque(name, block),)
