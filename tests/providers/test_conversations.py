"""Conversations through the real SDKs, against a server that refuses what the real ones refuse."""

import itertools
import json

import pytest
from msgspec.structs import replace

from orchestrator.engine.types import Message, Opaque, Response, Text, Usage
from orchestrator.errors import ModelError
from tests.model_server.server import KEY
from tests.providers.provider_kit import (
    MODELS,
    NONCE,
    PROVIDERS,
    REPORT,
    Search,
    append_answer,
    open_memory_run,
    open_session,
    request,
    run_test_agent,
    shipped_models,
    unmarked,
)
from tests.scripted_model import text_reply, tool_call_reply
from tests.server_replies import raw, thinking_block

pytestmark = pytest.mark.either_loop

REPORTED = '{"summary": "clean", "score": 0.5, "places": []}'


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_whole_agent_calls_a_tool_and_reports_under_its_contract(name):
    two = tool_call_reply(("search", {"text": "eval"}), ("search", {"text": "exec"}))
    lines = [Response((thinking_block("first look"), *two.blocks), "end"), text_reply(REPORTED)]
    async with open_session(name, lines) as used, open_memory_run() as journal:
        tool = Search()
        result = await run_test_agent(used, journal, tool)
        used.server.finish()
        spent = journal.spent()
    assert result.status == "ok", result.detail
    assert result.report == json.loads(REPORTED)
    assert sorted(asked["text"] for asked in tool.asked) == ["eval", "exec"]
    assert spent.tokens > 0
    assert (spent.usd > 0) == (name != "openai-compatible")


@pytest.mark.parametrize("name", PROVIDERS)
async def test_many_turns_keep_every_byte_of_the_prefix(name):
    """A longer conversation begins with the shorter one, so that a provider's cache holds."""
    turns = [
        Response(
            (
                thinking_block(f"thought {at}"),
                *tool_call_reply(("search", {"text": str(at)})).blocks,
            ),
            "end",
        )
        for at in range(4)
    ]
    async with open_session(name, [*turns, text_reply(REPORTED)]) as used:
        asked = request(name)
        cached = []
        for _ in range(5):
            answer = await used.model.respond(asked)
            cached.append(answer.usage.cached_tokens)
            asked = append_answer(asked, answer.blocks)
        used.server.finish()
        bodies = [unmarked(body) for body in used.bodies]
    for shorter, longer in itertools.pairwise(bodies):
        key = "input" if name == "openai" else "messages"
        assert longer[key][: len(shorter[key])] == shorter[key]
        assert {**longer, key: 0} == {**shorter, key: 0}
    if name != "openai-compatible":
        assert cached[0] == 0
        assert all(before < after for before, after in itertools.pairwise(cached))


async def test_claude_gets_cache_breakpoints_where_the_next_request_finds_them():
    lines = [
        tool_call_reply(("search", {"text": "a"})),
        tool_call_reply(("search", {"text": "b"})),
        text_reply(REPORTED),
    ]
    async with open_session("anthropic", lines) as used:
        asked = request("anthropic")
        for _ in range(3):
            answer = await used.model.respond(asked)
            asked = append_answer(asked, answer.blocks)
        first, _, third = used.bodies
    assert [("cache_control" in block) for block in first["system"]] == [False, True]
    marked = [
        at
        for at, message in enumerate(third["messages"])
        if any("cache_control" in block for block in message["content"])
    ]
    assert marked == [2, 4]


@pytest.mark.parametrize("name", ["anthropic", "openai"])
async def test_two_agents_with_the_same_opening_share_a_cached_prefix(name):
    async with open_session(name, [text_reply(REPORTED)] * 3) as used:
        asked = request(name)
        counts = []
        for task in ("First task.", "Second task.", "Third task."):
            message = Message("user", (Text("What all read. " * 50), Text(task)))
            answer = await used.model.respond(replace(asked, messages=(message,)))
            counts.append((answer.usage.input_tokens, answer.usage.cached_tokens))
    assert counts[0][1] == 0
    assert counts[1][1] == counts[2][1]
    assert counts[1][1] > 0.8 * counts[1][0]


async def test_an_older_openai_model_gets_no_cache_breakpoint():
    message = Message("user", (Text("What all read."), Text("A task.")))
    can = replace(shipped_models()[0].provider("openai").can, cache_breakpoints=False)
    async with open_session("openai", [text_reply(REPORTED)], can=can) as used:
        await used.model.respond(replace(request("openai"), messages=(message,)))
    assert "prompt_cache_breakpoint" not in json.dumps(used.bodies)


@pytest.mark.parametrize("name", ["anthropic", "openai"])
async def test_reasoning_goes_back_unmodified(name):
    line = Response(
        (thinking_block("deep"), *tool_call_reply(("search", {"text": "a"})).blocks), "end"
    )
    async with open_session(name, [line, text_reply(REPORTED)]) as used:
        asked = request(name)
        answer = await used.model.respond(asked)
        (kept,) = [block for block in answer.blocks if isinstance(block, Opaque)]
        assert kept.provider == name
        await used.model.respond(append_answer(asked, answer.blocks))
        assert json.dumps(kept.payload) in json.dumps(used.bodies[1])
        used.server.finish()

        # The server would notice: a changed signature, or reasoning that leads to nothing.
        changed = {**kept.payload, "signature": "0", "encrypted_content": "0"}
        forged = Opaque(name, {key: changed[key] for key in kept.payload})
        with pytest.raises(ModelError, match="400"):
            await used.model.respond(append_answer(asked, [forged, *answer.blocks[1:]]))


@pytest.mark.parametrize("name", PROVIDERS)
async def test_messages_that_an_api_would_reject_are_adapted(name):
    """Empty answers, answers of reasoning alone, blank texts, another provider's blocks."""
    async with open_session(name, [text_reply(REPORTED)] * 4) as used:
        for odd in (
            (),
            (Text("  \n"),),
            (Opaque(name, {"type": "thinking", "thinking": "x", "signature": "y"}),),
            (Opaque("another", {"type": "thinking"}), Text("so far")),
        ):
            asked = append_answer(request(name), odd, Text("Report again."))
            await used.model.respond(asked)
        used.server.finish()


@pytest.mark.parametrize("name", PROVIDERS)
async def test_names_of_files_that_are_not_utf8_can_be_sent(name):
    async with open_session(name, [text_reply(REPORTED)]) as used:
        await used.model.respond(request(name, Message("user", (Text("caf\udce9.py"),))))
        used.server.finish()
        assert "caf\\\\xe9.py" in json.dumps(used.bodies)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_effort_and_limit_reach_the_api_and_tools_are_the_models_choice(name):
    async with open_session(name, [text_reply(REPORTED)]) as used:
        asked = request(name, effort="high", max_tokens=5)
        await used.model.respond(asked)
        used.server.finish()
        bodies = used.bodies
    chosen = [body["tool_choice"] for body in bodies]
    if name == "anthropic":
        assert [choice["type"] for choice in chosen] == ["auto"]
        assert bodies[0]["output_config"]["effort"] == "high"
        assert bodies[0]["max_tokens"] == 5
    elif name == "openai":
        assert chosen == ["auto"]
        assert bodies[0]["reasoning"] == {"effort": "high"}
        assert bodies[0]["max_output_tokens"] == 16  # the API's least
        assert bodies[0]["store"] is False
        assert used.model.worst_case(asked).output_tokens == 16
    else:
        assert chosen == ["auto"]
        assert "reasoning_effort" not in bodies[0]


@pytest.mark.parametrize("name", ["anthropic", "openai"])
async def test_the_contract_goes_along_as_a_strict_schema(name):
    async with open_session(name, [text_reply(REPORTED)]) as used:
        await used.model.respond(request(name))
        (body,) = used.bodies
    form = body["output_config" if name == "anthropic" else "text"]["format"]
    assert form["schema"]["required"] == ["summary", "score", "places"]
    assert "minimum" in form["schema"]["properties"]["score"]["description"]
    assert "JSON Schema" not in json.dumps(body)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_contract_that_strict_schemas_cannot_express_is_described_in_words(name):
    loose = {**REPORT, "properties": {"anything": {}}, "required": ["anything"]}
    async with open_session(name, [text_reply("{}")]) as used:
        await used.model.respond(request(name, output_schema=loose))
        used.server.finish()
        (body,) = used.bodies
    assert "under this JSON Schema" in json.dumps(body)
    assert "format" not in body.get("output_config", {})


async def test_commentary_of_openai_is_carried_but_is_no_report():
    comment = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "phase": "commentary",
        "content": [{"type": "output_text", "text": "Looking around.", "annotations": []}],
    }
    line = Response(
        (Opaque("server", comment), *tool_call_reply(("search", {"text": "a"})).blocks), "end"
    )
    last = Response((Opaque("server", comment), Text(REPORTED)), "end")
    async with open_session("openai", [line, last]) as used, open_memory_run() as journal:
        result = await run_test_agent(used, journal, Search())
        used.server.finish()
        assert comment in used.bodies[1]["input"]
    assert result.report == json.loads(REPORTED)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_usage_has_cached_and_reasoning_tokens_and_a_price(name):
    usage = Usage(1000, 200, 600, 50)
    async with open_session(name, [text_reply("done", usage=usage)]) as used:
        answer = await used.model.respond(request(name, output_schema=None))
    assert replace(answer.usage, usd=0.0, saved_usd=0.0) == usage
    assert answer.model == MODELS[name]
    rates = {"anthropic": (0.10, 0.01, 0.50), "openai": (0.10, 0.01, 0.50)}.get(name, (0, 0, 0))
    expected = (400 * rates[0] + 600 * rates[1] + 200 * rates[2]) / 1e6
    assert answer.usage.usd == pytest.approx(expected)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_the_worst_case_is_never_below_what_was_used(name):
    lines = [tool_call_reply(("search", {"text": "word " * 200})), text_reply(REPORTED)]
    async with open_session(name, lines) as used:
        asked = request(name)
        for _ in lines:
            worst = used.model.worst_case(asked)
            answer = await used.model.respond(asked)
            assert worst.tokens >= answer.usage.tokens
            assert worst.usd >= answer.usage.usd
            asked = append_answer(asked, answer.blocks)


async def test_a_model_without_a_price_counts_tokens_only():
    async with open_session("anthropic", [text_reply("done")] * 2) as used:
        asked = request("anthropic", model="claude-next")
        for _ in range(2):
            assert used.model.worst_case(asked).usd == 0
            assert (await used.model.respond(asked)).usage.usd == 0


async def test_a_reply_without_usage_counts_at_its_worst_case_and_says_so():
    body = {"choices": [{"message": {"role": "assistant", "content": "done"}}]}
    async with open_session("openai-compatible", [raw(json.dumps(body).encode())] * 2) as used:
        asked = request("openai-compatible")
        for _ in range(2):
            answer = await used.model.respond(asked)
            assert answer.usage == replace(used.model.worst_case(asked), estimated=True)


async def test_provider_hosted_tools_are_never_offered_and_never_accepted():
    block = {"type": "server_tool_use", "id": "x", "name": "web_search", "input": {}}
    async with open_session("anthropic", [Response((Opaque("server", block),), "end")]) as used:
        with pytest.raises(ModelError, match="none is enabled"):
            await used.model.respond(request("anthropic"))
        assert {tool["name"] for tool in used.bodies[0]["tools"]} == {"search"}
    item = {"type": "web_search_call", "id": "x", "status": "completed"}
    async with open_session("openai", [Response((Opaque("server", item),), "end")]) as used:
        with pytest.raises(ModelError, match="not offered"):
            await used.model.respond(request("openai"))


async def test_the_agent_and_its_skills_stand_in_the_prompt_but_not_the_nonce():
    async with open_session("anthropic", [text_reply("done")]) as used:
        await used.model.respond(request("anthropic"))
        system = used.bodies[0]["system"]
    assert system[0]["text"].startswith("Agent: qa\n")
    assert system[1]["text"].startswith("# Skill: search-well\n")
    assert NONCE not in json.dumps(used.bodies)
    assert KEY not in json.dumps(used.bodies)


async def test_one_client_is_shared_and_closed():
    async with open_session("openai", [text_reply("a"), text_reply("b")]) as used:
        client = used.model.client
        await used.model.respond(request("openai"))
        await used.model.respond(request("openai"))
        assert not client.is_closed()
    assert client.is_closed()
