"""Answers that are no reports: cut off, refused, filtered, empty, paused, broken; and what follows."""

import json

import pytest

from orchestrator.engine.types import Opaque, Response, Text, ToolCall
from tests.model_server.server_script import Refuse
from tests.providers.provider_kit import (
    PROVIDERS,
    Search,
    append_answer,
    open_memory_run,
    open_session,
    request,
    run_test_agent,
)
from tests.scripted_model import text_reply, tool_call_reply
from tests.server_replies import cut, garble, raw, thinking_block

REPORTED = '{"summary": "clean", "score": 0.5, "places": []}'
GOOD = text_reply(REPORTED)


async def outcome(name, lines, turns=6):
    async with open_session(name, lines) as used, open_memory_run() as journal:
        tool = Search()
        result = await run_test_agent(used, journal, tool, turns=turns)
        used.server.finish()
    return result, tool.asked, used.bodies


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_truncated_report_is_sent_back(name):
    cut = Response((Text('{"summary": "cle'),), "max_tokens")
    result, _, bodies = await outcome(name, [cut, GOOD])
    assert result.status == "ok"
    assert "cut off" in json.dumps(bodies[-1])


@pytest.mark.parametrize("name", PROVIDERS)
async def test_no_call_of_a_truncated_turn_is_run(name):
    call = tool_call_reply(("search", {"text": "a"})).blocks
    for before in ((), (thinking_block("long"),), (Text("I shall search."),)):
        result, asked, _ = await outcome(name, [Response((*before, *call), "max_tokens"), GOOD])
        assert result.status == "ok"
        assert asked == []


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_refused_answer_is_a_failed_attempt(name):
    result, asked, _ = await outcome(name, [Response((Text("I cannot help."),), "refused")])
    assert (result.status, asked) == ("failed", [])
    assert "refused" in result.detail


@pytest.mark.parametrize("name", ["openai", "openai-compatible"])
async def test_a_filtered_answer_is_a_failed_attempt(name):
    result, _, _ = await outcome(name, [Response((Text("..."),), "filtered")])
    assert result.status == "failed"
    assert "filtered" in result.detail


@pytest.mark.parametrize("name", PROVIDERS)
async def test_an_empty_answer_is_sent_back_twice_and_then_failed(name):
    empty = Response((), "end")
    result, _, bodies = await outcome(name, [empty, empty, empty])
    assert result.status == "failed"
    assert len(bodies) == 3
    assert "empty" in json.dumps(bodies[-1])


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_report_that_breaks_its_contract_is_answered_with_the_errors(name):
    bad = [text_reply(f'{{"summary": {number}, "score": 9}}') for number in range(3)]
    result, _, bodies = await outcome(name, [*bad[:2], GOOD])
    assert result.status == "ok"
    assert "summary" in json.dumps(bodies[-1])
    for replies in (bad, [bad[0], bad[0]]):
        result, _, _ = await outcome(name, replies)
        assert result.status == "failed"


async def test_a_paused_turn_goes_on_where_it_stopped():
    body = {"content": [{"type": "text", "text": "half"}], "stop_reason": "pause_turn"}
    async with open_session("anthropic", [raw(json.dumps(body).encode())]) as used:
        answer = await used.model.respond(request("anthropic"))
        assert answer.stop == "paused"
        sent = used.model.build_body(append_answer(request("anthropic"), answer.blocks))
    assert sent["messages"][-1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "half"}],
    }


@pytest.mark.parametrize("name", PROVIDERS)
async def test_unreadable_arguments_are_an_observation_and_never_a_call(name):
    strange = {
        "anthropic": {
            "content": [{"type": "tool_use", "id": "t1", "name": "search", "input": "text=a"}],
            "stop_reason": "tool_use",
        },
        "openai": {
            "status": "completed",
            "output": [
                {
                    "type": "function_call",
                    "call_id": "t1",
                    "name": "search",
                    "arguments": '{"text": NaN',
                }
            ],
        },
        "openai-compatible": {
            "choices": [
                {
                    "message": {
                        "tool_calls": [
                            {"id": "t1", "function": {"name": "search", "arguments": "[1, 2"}}
                        ]
                    }
                }
            ]
        },
    }[name]
    result, asked, bodies = await outcome(name, [raw(json.dumps(strange).encode()), GOOD])
    assert (result.status, asked) == ("ok", [])
    assert "unreadable_arguments" in json.dumps(bodies[-1])
    assert "refused" in json.dumps(bodies[-1])


@pytest.mark.parametrize("name", PROVIDERS)
async def test_ids_that_are_missing_strange_or_repeated_are_replaced(name):
    first = tool_call_reply(("search", {"text": "a"})).blocks[0]
    assert isinstance(first, ToolCall)
    odd = tuple(ToolCall(given, "search", {"text": "a"}) for given in (first.id, first.id, "x y"))
    result, asked, _ = await outcome(name, [Response((first,), "end"), Response(odd, "end"), GOOD])
    assert result.status == "ok"
    assert len(asked) == 4


@pytest.mark.parametrize("name", PROVIDERS)
async def test_invented_tools_are_an_observation(name):
    invented = ("rm_rf", "../search", "search ")
    lines = [Response((ToolCall("t1", each, {"text": "a"}),), "end") for each in invented]
    result, asked, bodies = await outcome(name, [*lines, GOOD])
    assert (result.status, asked) == ("ok", [])
    assert json.dumps(bodies[-1]).count("there is no tool") == 3


async def test_unknown_blocks_are_carried_along():
    block = {"type": "mood_ring", "color": "blue", "deep": [{"a": None}]}
    line = Response((Opaque("server", block), Text("hm")), "end")
    async with open_session("anthropic", [line]) as used:
        answer = await used.model.respond(request("anthropic"))
        sent = used.model.build_body(append_answer(request("anthropic"), answer.blocks))
    assert sent["messages"][1]["content"] == [block, {"type": "text", "text": "hm"}]


@pytest.mark.parametrize(
    ("lines", "billed"),
    [
        ([Refuse(422)], False),
        ([Refuse(429)] * 3, False),
        ([cut(5, text_reply("done")), Refuse(422)], True),
        ([Refuse(503), Refuse(503), cut(5, text_reply("done"))], True),
        ([garble(7, text_reply("done"))], True),
    ],
)
async def test_a_call_that_was_rejected_costs_nothing(lines, billed):
    """But one that may have been answered without our seeing it counts at its worst case."""
    async with open_session("anthropic", lines) as used, open_memory_run() as journal:
        result = await run_test_agent(used, journal, Search())
        used.server.finish()
        spent = journal.spent("qa")
    assert result.status == "failed"
    assert (spent.usd > 0, spent.tokens > 0, spent.turns) == (billed, billed, 1)
