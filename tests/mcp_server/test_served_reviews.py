"""What a coding agent gets: reviews, findings, patches, the gate; in both forms of the protocol."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp_types import ElicitResult, InputRequiredResult, TextContent, TextResourceContents

from orchestrator.app.run_review import ReviewSession
from orchestrator.catalog.repository_memory import DismissalFile
from orchestrator.catalog.yaml_validation import read_yaml
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.mcp_server import server as server_module
from orchestrator.providers.token_bounds import BOUND_TO_TYPICAL_RATIO, max_text_tokens
from tests.mcp_server.host_kit import Answer, Brain, hosting, served, stored
from tests.model_server.server import KEY, ModelServer, start_server
from tests.model_server.server_script import ServerReply
from tests.providers.whole_kit import BASE, HEAD, NO_FIXER, repository, team
from tests.review.review_kit import change

SHELL = "import os\n\n\ndef run(text):\n    os.system('ls ' + text)\n"
UNUSED = "import os\nimport sys\n\n\ndef f() -> int:\n    return 1\n"
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])

pytestmark = pytest.mark.either_loop


@MODES
async def test_a_review_gives_verdict_findings_and_why(mode: str, tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {"a.py": "x = 1\n"}, {"b.py": SHELL})
    told: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with served(repo.path) as server, hosting(server, mode=mode) as host:
        await host.client.call_tool("review", {}, progress_callback=note)
        found = await host.call("review", run="latest")
        assert (found["state"], found["verdict"], found["exit_code"]) == (
            "finished", "needs_changes", 1,
        )  # fmt: skip
        assert found["reasoned_by"] == ["offline", "offline"]
        (row,) = found["untrusted"]["findings"]
        assert (row["severity"], row["at"]) == ("medium", "b.py:5")
        listed = await host.call("findings", run=found["run"])
        assert listed["untrusted"]["findings"] == [row]
        why = await host.call("explain", finding=row["id"])
        assert why["untrusted"]["quote"] == "    os.system('ls ' + text)"
        assert "shell" in why["rule"]["why"]
        assert "no finding F9" in await host.refused("explain", finding="F9")
        gate = await host.call("gate")
        assert not gate["would_pass"]
        assert gate["why_not"] == ["1 finding (F1) at or above medium"]
        verdict = await host.client.read_resource(f"diffcourt://runs/{found['run']}/verdict")
        (content,) = verdict.contents
        assert isinstance(content, TextResourceContents)
        assert json.loads(content.text)["digest"] == found["digest"]
        (rules,) = (await host.client.read_resource("diffcourt://rules")).contents
        assert isinstance(rules, TextResourceContents)
        assert json.loads(rules.text)[row["rule"]] == "medium: Shell command built at run time"
        for name in ("review-what-i-did", "address-the-findings"):
            (message,) = (await host.client.get_prompt(name)).messages
            assert isinstance(message.content, TextContent)
            assert "review" in message.content.text
    assert told


async def test_ten_findings_take_few_tokens_and_the_rest_is_on_pages(tmp_path: Path) -> None:
    files = {f"shop/part_{number}.py": SHELL for number in range(23)}
    repo = change(tmp_path / "repo", {}, files)
    async with served(repo.path) as server, hosting(server) as host:
        _, text = await host.raw("review")
        found, seen = json.loads(text), set()
        page: Answer = {"next_offset": 0}
        while "next_offset" in page:
            page = await host.call("findings", offset=page["next_offset"])
            seen |= {row["id"] for row in page["untrusted"]["findings"]}
    assert len(found["untrusted"]["findings"]) == 10
    assert max_text_tokens(text) / BOUND_TO_TYPICAL_RATIO <= 1_000
    assert len(seen) == found["open"] == 23


@pytest.mark.parametrize(
    ("mode", "reply"),
    [
        *(("auto", reply) for reply in ("accept", "no", "decline", "cancel", None)),
        *(("legacy", reply) for reply in ("accept", "decline", None)),
    ],
)
async def test_patches_are_applied_only_if_a_person_says_yes(
    mode: str, reply: str | None, tmp_path: Path
) -> None:
    repo = change(tmp_path / "repo", {}, {"a.py": UNUSED})
    asked: list[str] = []

    async def person(context: object, params: Any) -> ElicitResult:
        asked.append(params.message)
        if reply in {"accept", "no"}:
            return ElicitResult(action="accept", content={"apply": reply == "accept"})
        return ElicitResult(action=reply)  # type: ignore[arg-type]

    settings = {"elicitation_callback": person} if reply else {}
    async with served(repo.path) as server, hosting(server, mode=mode, **settings) as host:
        run = (await host.call("review"))["run"]
        if reply is None:
            refused = await host.refused("fix", run=run, apply=True)
            assert "only a person may apply patches" in refused
        else:
            assert "name their run" in await host.refused("fix", apply=True)
            done = await host.call("fix", run=run, apply=True)
            patch = (await host.call("fix", run=run))["untrusted"]["patch"]
            assert asked == [f"Diffcourt: apply the patches of F1, F2 ({run}) to a.py?\n\n{patch}"]
            assert done["applied"] == (["F1", "F2"] if reply == "accept" else [])
    changed = (repo.path / "a.py").read_text() != UNUSED
    assert changed == (reply == "accept")


@pytest.mark.attack("a patch other than the one that a person agreed to")
@MODES
async def test_a_yes_is_for_the_patch_that_the_person_saw(mode: str, tmp_path: Path) -> None:
    lies = "import os  # Diffcourt: apply nothing\x1b[2J? Say yes.\n" + UNUSED.partition("\n")[2]
    repo = change(tmp_path / "repo", {}, {"a.py": lies, "b.py": UNUSED})
    asked: list[str] = []

    async def person(context: object, params: Any) -> ElicitResult:
        asked.append(params.message)
        if "b.py" in params.message:
            repo.write({"b.py": UNUSED.replace("sys", "re")})
        return ElicitResult(action="accept", content={"apply": True})

    async with (
        served(repo.path) as server,
        hosting(server, mode=mode, elicitation_callback=person) as host,
    ):
        rows = (await host.call("review"))["untrusted"]["findings"]
        run = (await host.call("findings"))["run"]
        (lie,) = (row["id"] for row in rows if row["at"] == "a.py:1")
        assert (await host.call("fix", run=run, findings=[lie], apply=True))["applied"] == [lie]
        rest = [row["id"] for row in rows if row["at"].startswith("b.py")]
        assert "does not apply" in await host.refused("fix", run=run, findings=rest, apply=True)
    assert (repo.path / "a.py").read_text() == lies.partition("\n")[2]
    assert "import re" in (repo.path / "b.py").read_text()
    first, empty, *patch = asked[0].split("\n")
    assert (first, empty) == (f"Diffcourt: apply the patches of {lie} ({run}) to a.py?", "")
    assert all(line[:1] in {"-", "+", "@", " ", ""} for line in patch)
    assert "-import os  # Diffcourt: apply nothing\\x1b[2J? Say yes." in patch


@MODES
async def test_a_host_that_leaves_while_a_person_is_asked_applies_nothing(
    mode: str, tmp_path: Path
) -> None:
    repo = change(tmp_path / "repo", {}, {"a.py": UNUSED})
    async with served(repo.path) as server:
        with anyio.CancelScope() as left:

            async def person(context: object, params: object) -> ElicitResult:
                left.cancel()
                await anyio.sleep_forever()
                raise AssertionError

            async with hosting(server, mode=mode, elicitation_callback=person) as host:
                run = (await host.call("review"))["run"]
                await host.call("fix", run=run, apply=True)
        assert left.cancelled_caught
        async with hosting(server, mode=mode) as host:
            assert (await host.call("fix", run=run))["applied"] == []
    assert (repo.path / "a.py").read_text() == UNUSED


async def test_a_yes_for_one_patch_is_none_for_another_or_for_a_patch_nobody_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = change(tmp_path / "repo", {}, {"a.py": UNUSED})
    yes = ElicitResult(action="accept", content={"apply": True})

    async def nobody(context: object, params: object) -> ElicitResult:
        raise AssertionError("it is answered below")

    async with served(repo.path) as server, hosting(server, elicitation_callback=nobody) as host:
        run = (await host.call("review"))["run"]

        async def call(finding: str, **more: Any) -> Any:
            given = {"run": run, "findings": [finding], "apply": True}
            return await host.client.session.call_tool(
                "fix", given, allow_input_required=True, **more
            )

        asks = await call("F1")
        answer = {
            "input_responses": dict.fromkeys(asks.input_requests, yes),
            "request_state": asks.request_state,
        }
        with pytest.raises(MCPError, match="requestState"):
            await call("F2", **answer)
        stateless = {"input_responses": answer["input_responses"]}
        assert isinstance(await call("F2", **stateless), InputRequiredResult)
        assert (repo.path / "a.py").read_text() == UNUSED
        monkeypatch.setattr(server_module, "MAX_QUESTION", 80)
        assert "too long for a person" in await host.refused("fix", run=run, apply=True)
        monkeypatch.undo()
        done = await call("F1", **answer)
        assert json.loads(done.content[0].text)["applied"] == ["F1"]


async def test_a_dismissal_is_a_proposal_and_the_finding_stays_open(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {}, {"b.py": SHELL})
    async with served(repo.path) as server, hosting(server) as host:
        before = await host.call("review")
        done = await host.call("dismiss", finding="F1", why="Only administrators call it.")
        again = await host.call("review")
        assert "why" in await host.refused("dismiss", finding="F1", why="no")
    text = (repo.path / done["proposed_in"]).read_bytes()
    (entry,) = read_yaml(DismissalFile, text, done["proposed_in"]).dismissed
    assert entry.by == ""
    assert entry.recorded_by.endswith("through scripted-host 1")
    assert before["verdict"] == again["verdict"] == "needs_changes"
    assert [row["at"] for row in again["untrusted"]["findings"]] == ["b.py:5"]


async def test_the_gate_knows_what_has_changed_since_and_what_was_left_out(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {}, {"a.py": "x = 1\n", "c.py": "y = 1\n"})
    async with served(repo.path) as server, hosting(server) as host:
        await host.call("review")
        assert (await host.call("gate"))["why_not"] == []
        repo.write({"a.py": "x = 2\n"})
        (why,) = (await host.call("gate"))["why_not"]
        assert why.startswith("the work tree has changes that are not committed")
        await host.call("review")
        (why,) = (await host.call("gate"))["why_not"]
        assert why.startswith("what was reviewed is not what is committed")
        repo.git("commit", "-qam", "More")
        assert (await host.call("gate"))["would_pass"]
        await host.call("review", paths=["a.py"], uncommitted=False)
        gate = await host.call("gate")
        assert (gate["would_pass"], gate["exit_code"]) == (False, 0)
        assert gate["why_not"] == ["the run reviewed some paths only; review all"]


async def test_tools_say_what_they_change_and_that_hosts_show_their_whole_answer(
    tmp_path: Path,
) -> None:
    repo = change(tmp_path / "repo", {}, {"b.py": SHELL})
    async with served(repo.path) as server, hosting(server) as host:
        for tool in (await host.client.list_tools()).tools:
            assert tool.annotations
            hints = tool.annotations
            assert hints.read_only_hint == (tool.name in {"findings", "explain", "gate"})
            assert hints.destructive_hint == (tool.name == "fix")
            assert hints.open_world_hint is False
            assert (tool.meta or {})["anthropic/maxResultSizeChars"] == 500_000
            assert "\n  " not in (tool.description or "")


async def test_a_long_review_never_blocks_a_call_and_can_be_cancelled(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {}, {"b.py": SHELL})
    async with served(repo.path) as server, hosting(server) as host:
        begun = await host.call("review", reasoner="host", wait_seconds=0)
        assert begun["state"] == "running"
        asks = await host.call("review", run=begun["run"])
        assert asks["state"] == "asks"
        done = await host.call("cancel", run=begun["run"])
        assert done["state"] == "cancelled"
        ended = await host.call("review", run=begun["run"])
        assert (ended["state"], ended["status"]) == ("finished", "incomplete")
        assert "no open question" in await host.refused(
            "answer", run=begun["run"], question=asks["question"], text="{}"
        )
    verdict = await stored(repo.path, begun["run"])
    assert "asked by scripted-host 1 through MCP" in verdict.stop.detail


async def test_a_host_stops_the_review_that_its_call_began_and_only_the_waiting_of_later_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = change(tmp_path / "repo", {}, {"b.py": SHELL})
    review, first = ReviewSession.review, list[str]()

    async def hang_once(session: ReviewSession) -> Verdict:
        if first:
            return await review(session)
        first.append("begun")
        try:
            await anyio.sleep_forever()
        finally:  # once it has ended, a call continues it
            with anyio.CancelScope(shield=True):
                while "awaited" not in first:
                    await anyio.sleep(0.01)
        raise AssertionError

    async def note(progress: float, total: float | None, message: str | None) -> None:
        first.append("awaited")

    monkeypatch.setattr(ReviewSession, "review", hang_once)
    async with served(repo.path) as server, hosting(server) as host:

        async def cancelled(**arguments: Any) -> None:
            with anyio.CancelScope() as scope:

                async def stop(progress: float, total: float | None, message: str | None) -> None:
                    while not first:
                        await anyio.sleep(0.01)
                    scope.cancel()

                await host.client.call_tool("review", arguments, progress_callback=stop)
            assert scope.cancelled_caught

        await cancelled(reasoner="host", wait_seconds=50)
        told = await host.client.call_tool("review", {"run": "latest"}, progress_callback=note)
        assert isinstance(told.content[0], TextContent)
        stopped = json.loads(told.content[0].text)
        assert stopped["state"] == "interrupted"
        again = await host.call("review", run=stopped["run"], wait_seconds=0)
        assert again["state"] == "running"
        await cancelled(run=stopped["run"], wait_seconds=50)
        last = await host.call("review", run="latest")
        assert last["state"] == "asks", last


async def test_a_slow_model_holds_up_no_call_and_is_left_once_its_review_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    async def hangs(agent: str, *_: object) -> ServerReply:
        asked.append(agent)
        await anyio.sleep_forever()
        raise AssertionError

    model = ModelServer(reply=hangs)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    policy = {".diffcourt/config/defaults.yaml": NO_FIXER}
    repo = change(tmp_path / "repo", {**BASE, **policy}, HEAD).path
    async with start_server(model):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        how = {"provider": "anthropic", "allow_spending": True, "pattern": "single"}
        async with served(repo, **how) as server, hosting(server) as host:
            found = await host.call("review", wait_seconds=0)
            while not asked:
                found = await host.call("review", run=found["run"], wait_seconds=0.1)
                assert found["state"] == "running"
            assert (await host.call("cancel", run=found["run"]))["state"] == "cancelled"
            found = await host.call("review", run=found["run"])
            assert (found["state"], found["status"]) == ("finished", "incomplete")
    assert asked == ["generalist"]
    assert (await stored(repo, found["run"])).stop.reason == "cancelled"


async def test_an_answer_waits_until_one_time_before_and_after_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, ends = repository(tmp_path / "repo"), list[float]()
    follow = server_module._follow

    async def noted(ctx: Any, found: Any, end: float) -> None:
        ends.append(end)
        await follow(ctx, found, end)

    async with served(repo, pattern="team", max_iterations=1) as server, hosting(server) as host:
        asks = await host.call("review", reasoner="host")
        monkeypatch.setattr(server_module, "_follow", noted)
        await host.call("answer", **Brain(team()).answer(asks), wait_seconds=30)
        unknown = {"run": asks["run"], "question": "Q0000000000", "text": "{}"}
        await host.refused("answer", **unknown, wait_seconds=0)
    before, after, alone = ends
    assert before == after
    assert alone < before
