"""What a coding agent gets: reviews, findings, patches, the gate; in both forms of the protocol."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import ElicitResult, TextContent, TextResourceContents

from orchestrator.catalog.repository_memory import DismissalFile
from orchestrator.catalog.yaml_validation import read_yaml
from orchestrator.providers.token_bounds import BOUND_TO_TYPICAL_RATIO, max_text_tokens
from tests.mcp_server.host_kit import Answer, hosting, served, stored
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
            assert asked == [
                f"Diffcourt: apply the patches of F1, F2 ({run}) to a.py?\n\n{patch}"
            ]
            assert done["applied"] == (["F1", "F2"] if reply == "accept" else [])
    changed = (repo.path / "a.py").read_text() != UNUSED
    assert changed == (reply == "accept")


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


async def test_a_call_that_its_host_cancels_leaves_the_review_running(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {}, {"b.py": SHELL})
    async with served(repo.path) as server, hosting(server) as host:
        with anyio.move_on_after(0.05):
            await host.client.call_tool("review", {})
        found = await host.call("review", run="latest")
        assert found["state"] == "finished"
