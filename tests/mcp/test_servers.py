"""Servers that misbehave in every way we know, over pipes, through the executor: no crash, no harm."""

import json
import sys
from functools import partial
from pathlib import Path

import anyio
import pytest

from orchestrator.engine.types import Level
from orchestrator.engine.untrusted_text import unframe
from tests.engine.engine_kit import Scopes
from tests.mcp.mcp_kit import SAY, bench, gone, pin, received, rogue


def said(content: str) -> dict[str, object]:
    """The envelope of an answer."""
    envelope: dict[str, object] = json.loads(unframe(content, "n0nce"))
    return envelope


async def test_a_named_and_accepted_tool_is_run_and_its_answer_is_framed(tmp_path: Path) -> None:
    async with bench(rogue(tmp_path, "plain", timeout=7, tags=["odd"])) as it:
        spec = it.executor.registry.specs()["rogue__say"]
        result = await it.call(text="héllo \ud800".encode("utf-8", "replace").decode())
    assert (spec.description, spec.level) == (SAY["description"], Level.READ)
    assert (spec.timeout, spec.tags) == (7, frozenset({"odd"}))
    assert spec.schema == {**SAY["inputSchema"], "additionalProperties": False}
    assert result.ok
    assert said(result.content) == {"result_of": "rogue__say", "text": "héllo ?"}
    assert result.content.startswith("<untrusted n0nce>")
    assert result.data is None  # nothing that a server sends reaches the application's code


async def test_only_the_tools_that_the_configuration_names_exist(tmp_path: Path) -> None:
    async with bench(rogue(tmp_path, "plain")) as it:
        assert list(it.executor.registry.specs()) == ["rogue__say"]
        result = await it.call("rogue__other_tool")
    assert (result.ok, result.code) == (False, "not_registered")
    assert "tools/call" not in received(tmp_path)


@pytest.mark.either_loop
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("die", "it ended ([31mout of memory)"),
        ("flood", "it sent a message of more than 4 MB"),
        ("garbage", "its standard output contains something other than a message"),
        ("not-a-result", "its response is not valid in the protocol"),
        ("raise", "rogue answered with an error: Unknown tool: say"),  # as Python servers do
        ("is-error", "Tool say not found"),  # as Node servers do
    ],
)
async def test_a_server_error_is_an_observation(
    tmp_path: Path, mode: str, expected: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with bench(rogue(tmp_path, mode)) as it:
        first, second = await it.call(), await it.call()
    for result in (first, second):
        assert (result.ok, result.code) == (False, "failed")
        assert expected in str(said(result.content)["text"])
    assert capfd.readouterr() == ("", "")  # nothing of it reaches the terminal


async def test_a_call_that_hangs_ends_at_its_timeout_and_the_server_with_the_run(
    tmp_path: Path,
) -> None:
    async with bench(rogue(tmp_path, "hang", timeout=0.3)) as it:
        result = await it.call()
    assert (result.ok, result.code) == (False, "timeout")
    assert await gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("mute", "it did not respond within 0.3 s"),
        ("endless", "its list of tools has more than 20 pages"),
        ("changed", "its description or schema changed; inspect it with `diffcourt mcp accept"),
    ],
)
async def test_an_unavailable_tool_says_why_when_it_is_called(
    tmp_path: Path, mode: str, why: str
) -> None:
    async with bench(rogue(tmp_path, mode, start=0.3 if mode == "mute" else 10)) as it:
        (spec,) = it.executor.registry.specs().values()
        called = await it.call("rogue__say", text="x")
        result = await it.unavailable()
    assert spec.description == "Not available in this run."
    assert not called.ok
    assert why in result
    assert "tools/call" not in received(tmp_path)


async def test_a_tool_without_a_pin_is_refused(tmp_path: Path) -> None:
    config = rogue(tmp_path, "plain")
    config["tools"] = {"say": {}}
    async with bench(config) as it:
        result = await it.unavailable()
    assert "has not been accepted yet" in result


async def test_a_tool_that_changes_while_the_run_goes_on_is_refused_from_then_on(
    tmp_path: Path,
) -> None:
    async with bench(rogue(tmp_path, "later")) as it:
        before = await it.call()
        (tmp_path / "change").touch()
        announced = await it.call()  # the server says during this call that its list changed
        after = await it.call()
    assert (before.ok, announced.ok, after.ok) == (True, True, False)
    assert "differs from what was accepted" in after.content
    assert received(tmp_path).count("tools/call") == 2


async def test_requests_from_a_server_are_refused(tmp_path: Path) -> None:
    async with bench(rogue(tmp_path, "asks")) as it:
        result = await it.call(text="codes")
    assert said(result.content)["text"] == "codes -32600 -32602 -32600"
    (hello,) = [
        json.loads(line)
        for line in (tmp_path / "received").read_text().splitlines()
        if '"initialize"' in line
    ]
    assert hello["params"]["capabilities"] == {}


async def test_a_server_is_given_named_variables_and_an_empty_folder_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_OURS", "do not pass this on")
    config = {**rogue(tmp_path, "environment"), "env": ["NAMED"]}
    async with bench(config, environment={"NAMED": "value"}) as it:
        seen = json.loads(str(said((await it.call()).content)["text"]))
    assert seen["cwd"] == []
    assert seen["env"].pop("NAMED") == "value"
    assert seen["env"].keys() <= {"PATH", "LC_ALL", "HOME"}


async def test_an_absent_variable_is_named(tmp_path: Path) -> None:
    async with bench({**rogue(tmp_path, "plain"), "env": ["NAMED"]}) as it:
        result = await it.unavailable()
    assert "the environment variable NAMED is not set" in result
    assert not (tmp_path / "pid").exists()


async def test_processes_that_a_server_started_end_with_it(tmp_path: Path) -> None:
    async with bench(rogue(tmp_path, "child")) as it:
        assert (await it.call()).ok
    assert await gone(int((tmp_path / "child").read_text()))


async def test_an_answer_cannot_stand_in_for_a_report(tmp_path: Path) -> None:
    async with bench(rogue(tmp_path, "forge")) as it:
        result = await it.call()
    assert said(result.content).keys() == {"result_of", "text"}


async def test_a_long_answer_is_cut_inside_its_envelope_and_the_cut_is_said(tmp_path: Path) -> None:
    async with bench(rogue(tmp_path, "plain", max_output=1000)) as it:
        result = await it.call(text='"\n' * 5000)
    assert len(unframe(result.content, "n0nce")) <= 1000
    envelope = said(result.content)
    assert len(str(envelope["text"])) + int(str(envelope["characters_cut"])) == 10_000


async def test_calls_side_by_side_share_one_connection(tmp_path: Path) -> None:
    async with bench(rogue(tmp_path, "plain")) as it, anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(partial(it.call, text=f"call {number}"))
    assert received(tmp_path).count("initialize") == 1
    assert received(tmp_path).count("tools/call") == 8


async def test_a_level_above_reading_needs_the_policy_and_a_way_back(tmp_path: Path) -> None:
    async with bench(rogue(tmp_path, "plain", level="write")) as it:
        refused = await it.call()
    assert refused.code == "not_permitted"
    scopes = Scopes()
    config = rogue(tmp_path, "is-error", level="write")
    async with bench(config, max_level=Level.WRITE, rollback=scopes) as it:
        await it.call()
    assert [what for what, _ in scopes.log] == ["begin", "undo"]
    async with bench(
        rogue(tmp_path, "plain", level="irreversible"), max_level=Level.IRREVERSIBLE
    ) as it:
        unasked = await it.call()
    assert unasked.code == "approval_required"
    assert received(tmp_path).count("tools/call") == 1


async def test_a_server_that_the_environment_does_not_name_is_not_started(tmp_path: Path) -> None:
    async with bench(rogue(tmp_path, "plain"), environment={"DIFFCOURT_MCP": "other"}) as it:
        result = await it.unavailable()
    assert "set DIFFCOURT_MCP=rogue" in result
    assert not (tmp_path / "pid").exists()


@pytest.mark.attack("an MCP server's program that lies in the repository")
@pytest.mark.parametrize("prefix", ["/usr", "above"])
@pytest.mark.parametrize("word", [0, 2])
async def test_a_program_that_lies_in_the_repository_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: int, prefix: str
) -> None:
    """Base names it, but the change under review could have rewritten it.

    A repository below our installation's prefix, such as ``/usr/src``, is no part of it.
    """
    monkeypatch.setattr(sys, "prefix", str(tmp_path) if prefix == "above" else prefix)
    planted = tmp_path / "repo" / "server.py"
    planted.parent.mkdir()
    planted.write_text("raise SystemExit\n")
    planted.chmod(0o755)
    config = rogue(tmp_path, "plain")
    command = list(config["command"])
    command[word] = str(tmp_path / "repo" / "x" / ".." / "server.py")
    async with bench({**config, "command": command}, repo=planted.parent) as it:
        result = await it.unavailable()
    assert "is in the repository, where the change could alter it" in result


def test_the_pin_holds_every_word_of_the_description_and_schemas() -> None:
    others = [
        {**SAY, "description": "Says it again. "},
        {**SAY, "title": "Say"},
        {**SAY, "inputSchema": {**SAY["inputSchema"], "required": []}},
        {**SAY, "outputSchema": {"type": "object"}},
        {**SAY, "annotations": {"readOnlyHint": True}},
    ]
    assert len({pin(tool) for tool in (SAY, *others)}) == 6
