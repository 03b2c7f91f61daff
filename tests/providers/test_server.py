"""The model server rejects what the real services reject, and can fail as they do."""

import json
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from orchestrator.engine.types import Response, Text, ToolCall
from orchestrator.errors import InputError
from tests.model_server.server import KEY, ModelServer, read_script, start_server
from tests.model_server.server_script import Refuse, ServerReply, Slow, smallest_value
from tests.plain_http import PLAIN
from tests.providers.refusals import BODIES, HEADERS, PATHS, REFUSED
from tests.scripted_model import ScriptError, text_reply, tool_call_reply
from tests.server_replies import cut, thinking_block

pytestmark = pytest.mark.either_loop


@asynccontextmanager
async def served(server):
    async with (
        start_server(server),
        httpx2.AsyncClient(base_url=server.url, verify=PLAIN) as client,
    ):

        async def post(api, change=None, headers=HEADERS):
            return await client.post(
                PATHS[api], json={**BODIES[api], **(change or {})}, headers=headers
            )

        yield post


async def test_requests_that_the_real_services_reject_are_rejected():
    server = ModelServer({"qa": []})
    async with served(server) as post:
        for api, change, said in REFUSED:
            reply = await post(api, change)
            assert reply.status_code == 400, (api, change, reply.text)
            message = reply.json()["error"]["message"]
            assert said in message, (said, message)
    assert len(server.rejected) == len(REFUSED)
    with pytest.raises(ScriptError, match="was rejected"):
        server.finish()


async def test_headers_and_routes_are_checked():
    async with served(ModelServer({"qa": []})) as post:
        for api in PATHS:
            assert (await post(api, headers={"anthropic-version": "2026-10-21"})).status_code == 401
            wrong = {**HEADERS, "authorization": "Bearer other"}
            assert (await post(api, headers=wrong)).status_code == 401
            form = {**HEADERS, "content-type": "text/plain"}
            assert (await post(api, headers=form)).status_code == 415
        unversioned = {"authorization": f"Bearer {KEY}"}
        assert (await post("messages", headers=unversioned)).status_code == 400
        nameless = {"system": [{"type": "text", "text": "Hello."}]}
        assert "Agent: NAME" in (await post("messages", nameless)).json()["error"]["message"]


async def test_a_missing_line_and_a_line_left_over_both_fail():
    server = ModelServer({"qa": [text_reply("one")], "docs": [text_reply("two")]})
    async with served(server) as post:
        assert (await post("chat")).status_code == 200
        with pytest.raises(ScriptError, match=r"unused lines in the script: \{'docs': 1\}"):
            server.finish()
        assert "no line left for" in (await post("chat")).json()["error"]["message"]


async def test_the_server_delays_cuts_and_limits_rates():
    lines: list[ServerReply] = [
        Slow(0.2, text_reply("late")),
        Refuse(429, headers={"retry-after": "3"}),
        cut(9, text_reply("x")),
    ]
    async with served(ModelServer({"qa": lines})) as post:
        started = anyio.current_time()
        assert (await post("chat")).status_code == 200
        assert anyio.current_time() - started >= 0.2
        limited = await post("messages")
        assert (limited.status_code, limited.headers["retry-after"]) == (429, "3")
        assert limited.json()["error"]["type"] == "rate_limit_error"
        with pytest.raises(httpx2.RemoteProtocolError):
            await post("responses")


# On trio the SDK leaves its own generators behind when it stops at the stream's end.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_it_streams_as_the_sdks_expect():
    import anthropic  # it takes a second
    import openai

    line = Response(
        (thinking_block("hm"), Text("hello"), *tool_call_reply(("search", {"a": 1})).blocks), "end"
    )
    async with start_server(ModelServer({"qa": [line] * 3})) as server:
        async with (
            anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url, max_retries=0) as client,
            client.messages.stream(**BODIES["messages"]) as stream,
        ):
            message = await stream.get_final_message()
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
        _, text, use = message.content
        assert text.type == "text"
        assert text.text == "hello"
        assert use.type == "tool_use"
        assert use.input == {"a": 1}
        assert message.usage.output_tokens > 0
        async with openai.AsyncOpenAI(
            api_key=KEY, base_url=f"{server.url}/v1", max_retries=0
        ) as other:
            events = [
                event
                async for event in await other.responses.create(**BODIES["responses"], stream=True)
            ]
            last = events[-1]
            assert last.type == "response.completed"
            assert last.response.output_text == "hello"
            chunks = [
                chunk
                async for chunk in await other.chat.completions.create(
                    **BODIES["chat"], stream=True, stream_options={"include_usage": True}
                )
            ]
        *deltas, ended, counted = chunks
        told = [chunk.choices[0].delta for chunk in deltas]
        assert "".join(delta.content or "" for delta in told) == "hello"
        assert ended.choices[0].finish_reason == "tool_calls"
        assert counted.usage is not None
        assert counted.usage.prompt_tokens > 0
        server.finish()


async def test_without_a_script_each_agent_gives_the_smallest_report():
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"score": {"type": "number"}, "places": {"type": "array", "items": {}}},
        "required": ["score", "places"],
        "additionalProperties": False,
    }
    form = {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    schema["properties"]["places"]["items"] = {"type": "string"}
    async with served(ModelServer()) as post:
        reply = (await post("messages", form)).json()
        assert json.loads(reply["content"][0]["text"]) == {"score": 0, "places": []}
        assert (await post("chat")).json()["choices"][0]["message"]["content"]


def test_the_smallest_value_of_a_schema():
    assert smallest_value({"enum": ["low", "high"]}) == "low"
    assert smallest_value({"const": 3}) == 3
    assert smallest_value({"anyOf": [{"type": "number"}, {"type": "null"}]}) is None
    assert smallest_value({"type": "integer", "minimum": 1}) == 1
    assert smallest_value({"type": "array", "items": {"type": "string"}, "minItems": 2}) == ["", ""]
    assert smallest_value({"type": "boolean"}) is False


def test_a_script_from_a_file():
    script = read_script(
        json.dumps(
            {
                "qa": [
                    {"calls": [{"name": "search", "arguments": {"text": "a"}}]},
                    {"status": 429, "headers": {"retry-after": "1"}, "delay": 0.1},
                    {"report": {"score": 1}},
                    "done",
                ]
            }
        )
    )
    first, second, third, fourth = script["qa"]
    assert isinstance(first, Response)
    call = first.blocks[0]
    assert isinstance(call, ToolCall)
    assert call.arguments == {"text": "a"}
    assert second == Slow(0.1, Refuse(429, headers={"retry-after": "1"}))
    assert third == text_reply('{"score": 1}')
    assert fourth == text_reply("done")
    for text in ("[]", "{", '{"qa": [{}]}', '{"qa": [{"calls": [{}]}]}', '{"qa": 3}'):
        with pytest.raises(InputError, match="invalid script"):
            read_script(text)


def test_the_command_serves_and_ends_with_what_is_left(tmp_path):
    script = tmp_path / "script.json"
    script.write_text('{"qa": ["done"]}')
    command = [sys.executable, "-m", "tests.model_server", "--port", "0"]
    with subprocess.Popen(
        [*command, "--script", str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[2].rstrip(",")
        assert url.startswith("http://127.0.0.1:")
        process.terminate()
        _, said = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "unused lines in the script: {'qa': 1}" in said
