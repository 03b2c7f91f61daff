"""A review whose agent wants what cannot be undone stops for a person, with what there is."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.app import run_review
from orchestrator.cli.main import main
from orchestrator.code_review.review_setup import OpenModel
from tests.mcp.mcp_kit import received, rogue
from tests.mcp.test_reviews import REPORT, config, generalist
from tests.review.review_kit import Repo, in_ci
from tests.scripted_model import ScriptedModel, text_reply, tool_call_reply

ARGUMENTS = {"text": "deploy \x1b[2J"}
SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"


def make_repo(folder: Path, monkeypatch: pytest.MonkeyPatch, **base: str) -> Repo:
    """A change with a defect, under a base whose agent may call a tool of a server."""
    monkeypatch.setenv("DIFFCOURT_MCP", "rogue")
    repo = Repo(folder / "repo")
    repo.commit(
        {
            ".diffcourt/config/defaults.yaml": "pattern: single\njudge: false\n",
            ".diffcourt/agents/generalist.md": generalist("rogue__say"),
            "app.py": "X = 1\n",
            **{f".diffcourt/config/{name}.yaml": text for name, text in base.items()},
        }
    )
    repo.commit({"app.py": SHELL})
    return repo


def use_model(monkeypatch: pytest.MonkeyPatch, *replies: Any) -> None:
    @asynccontextmanager
    async def scripted(*_: object, **__: object) -> AsyncIterator[OpenModel]:
        yield OpenModel(ScriptedModel({"generalist": list(replies)}))

    monkeypatch.setattr(run_review, "open_model", scripted)


def verdict_of(repo: Repo, *words: str) -> tuple[int, Any]:
    target = repo.path.parent / "verdict.json"
    code = main([*words, "--repo", str(repo.path), "--json", str(target)])
    return code, json.loads(target.read_text())


def test_a_pending_approval_stops_for_a_person_with_the_verdict_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = make_repo(
        tmp_path,
        monkeypatch,
        mcp=config({"rogue": rogue(tmp_path, "plain", level="irreversible")}),
        tools="environments:\n  local: {max_level: irreversible}\nsensitive: []\n",
    )
    use_model(
        monkeypatch,
        tool_call_reply(("ruff_security", {"paths": ["app.py"]})),
        tool_call_reply(("rogue__say", ARGUMENTS)),
    )
    code, verdict = verdict_of(repo, "review", "--base", "HEAD~1", "--provider", "anthropic")
    out = capsys.readouterr().out
    assert (code, verdict["status"], verdict["stop"]["reason"]) == (3, "incomplete", "human")
    (call,) = verdict["approvals"]
    assert (call["agent"], call["tool"]) == ("generalist", "rogue__say")
    assert json.loads(call["arguments"]) == ARGUMENTS
    assert [finding["path"] for finding in verdict["findings"]] == ["app.py"]
    approve = f"diffcourt approve {verdict['run_id']} {call['approval']}"
    assert approve in verdict["stop"]["next_human_action"]
    assert "Waiting for your approval" in out
    assert approve in out
    assert "\x1b[2J" not in out
    assert "tools/call" not in received(tmp_path)
    main(["runs", "--repo", str(repo.path)])
    assert "waiting" in capsys.readouterr().out

    assert main(["approve", "latest", call["approval"], "--repo", str(repo.path)]) == 0
    use_model(monkeypatch, text_reply(REPORT), text_reply(REPORT))
    code, done = verdict_of(repo, "resume", "latest")
    assert done["approvals"] == []
    assert done["stop"]["reason"] != "human"
    assert received(tmp_path).count("tools/call") == 1


@pytest.mark.parametrize("environment", ["local", "ci"])
def test_a_person_can_confirm_a_sensitive_tool_and_ci_refuses_it(
    tmp_path: Path, environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = rogue(tmp_path, "plain", tags=["network"])
    repo = make_repo(tmp_path, monkeypatch, mcp=config({"rogue": servers}))
    if environment == "ci":
        in_ci(monkeypatch)
    ask = tool_call_reply(("rogue__say", ARGUMENTS))
    use_model(monkeypatch, ask, text_reply(REPORT), text_reply(REPORT))
    words = ["--base", "HEAD~1", "--provider", "anthropic"]
    _, verdict = verdict_of(repo, "review", *words)
    assert "tools/call" not in received(tmp_path)
    if environment == "ci":
        assert verdict["approvals"] == []
        assert [guard["guard"] for guard in verdict["guards"]] == ["sensitive"]
        return
    (call,) = verdict["approvals"]
    assert call["level"] == "READ"
    assert main(["approve", "latest", call["approval"], "--repo", str(repo.path)]) == 0
    use_model(monkeypatch, text_reply(REPORT), text_reply(REPORT))
    verdict_of(repo, "resume", "latest")
    assert received(tmp_path).count("tools/call") == 1
