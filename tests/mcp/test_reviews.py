"""Whole reviews of real repositories with tools from servers, real ones among them."""

import json
import re
import sys
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from orchestrator.app.check_worker_startup import new_pool
from orchestrator.app.mcp.open_server_tools import open_tools
from orchestrator.app.policy_sources import read_layers
from orchestrator.catalog.settings import ReviewSettings
from orchestrator.cli.main import main
from orchestrator.code_review.assemble_verdict import assemble_verdict
from orchestrator.code_review.change.change_construction import from_refs
from orchestrator.code_review.policy_loading import read_policy
from orchestrator.code_review.review_flow import FLOW
from orchestrator.code_review.review_setup import OpenModel, open_review
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.data_directories import data_root
from orchestrator.engine import state_machine
from orchestrator.engine.journal import open_journal
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.ports import Model, SystemClock
from orchestrator.engine.trace_context import trace_of
from orchestrator.engine.types import Request, Response, ToolResult
from orchestrator.engine.untrusted_text import unframe
from orchestrator.providers.offline import OfflineModel
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.mcp.mcp_kit import received, rogue
from tests.review.review_kit import Repo
from tests.scripted_model import ScriptedModel, text_reply, tool_call_reply

AGENT = (data_root() / "agents/generalist.md").read_text()
REPORT = json.dumps({"summary": "Looked.", "findings": [], "checked": [], "gaps": []})


def generalist(*tools: str) -> str:
    """The shipped generalist with more tools."""
    return AGENT.replace("tools: [", f"tools: [{', '.join(tools)}, ", 1)


def config(servers: dict[str, object]) -> str:
    return yaml.safe_dump({"servers": servers})


def alone(settings: ReviewSettings, provider: str = "scripted") -> ReviewSettings:
    """One agent, no judge."""
    return replace(settings, pattern="single", judge=False, provider=provider)


async def review(
    repo: Repo,
    model: Model,
    allowed: str,
    *,
    provider: str = "scripted",
    store: MemoryStore | None = None,
) -> Verdict:
    found = await from_refs(repo.path, "HEAD~1", "HEAD")
    clock = SystemClock()
    if store is None:
        store = MemoryStore(clock)
    if not await store.runs():
        await store.create("run", clock.now(), {})
    async with open_journal("run", store, clock, holder="test") as journal:
        policy = read_policy(await read_layers(found))
        policy = replace(policy, settings=alone(policy.settings, provider))
        servers = {"DIFFCOURT_MCP": allowed}
        async with (
            new_pool() as pool,
            open_tools(policy, journal, repo=repo.path, environment=servers) as tools,
            open_review(
                policy, found, journal, model=OpenModel(model), pool=pool, tools=tools
            ) as state,
        ):
            await state_machine.run(FLOW, state, journal, ignore_event)
            return assemble_verdict(state)


def with_rogue(
    path: Path,
    folder: Path,
    head: dict[str, str],
    mode: str = "plain",
    agent: str = generalist("rogue__say"),
) -> Repo:
    """A repository whose base names the rogue, and gives its tool to the generalist."""
    repo = Repo(path)
    repo.commit(
        {
            ".diffcourt/config/mcp.yaml": config({"rogue": rogue(folder, mode)}),
            ".diffcourt/agents/generalist.md": agent,
            "app.py": "X = 1\n",
        }
    )
    repo.commit(head)
    return repo


class Script:
    """Calls one tool, then reports whatever round it is; remembers what it was shown and told."""

    def __init__(self, tool: str, arguments: dict[str, object]) -> None:
        self.shown: dict[str, object] = {}
        self.told: list[str] = []
        self.model = ScriptedModel({"generalist": [self._open(tool, arguments), self._end] * 3})

    def _open(self, tool, arguments):
        def line(request: Request) -> Response:
            self.shown = {spec.name: spec for spec in request.tools}
            return tool_call_reply((tool, arguments))

        return line

    def _end(self, request: Request) -> Response:
        last = request.messages[-1].blocks[0]
        assert isinstance(last, ToolResult)
        self.told.append(unframe(last.content, request.nonce))
        return text_reply(REPORT)


@pytest.mark.either_loop
async def test_an_agent_calls_a_tool_of_a_server_through_the_whole_executor(tmp_path: Path) -> None:
    # A scripted model has all its agent's playbooks open: of one, not every shown tool is named.
    agent = re.sub("(?m)^skills: .*", "skills: [secret-hygiene]", generalist("rogue__say"))
    repo = with_rogue(tmp_path / "repo", tmp_path, {"app.py": "X = 2\n"}, agent=agent)
    script = Script("rogue__say", {"text": "hello"})
    store = MemoryStore(SystemClock())
    first = await review(repo, script.model, "rogue", store=store)
    assert "rogue__say" in script.shown
    assert len(script.shown) <= 20
    assert json.loads(script.told[0]) == {"result_of": "rogue__say", "text": "hello"}
    assert "config/mcp.yaml" in first.provenance.digests
    log = map(json.loads, (tmp_path / "received").read_text().splitlines())
    (call,) = [one for one in log if one.get("method") == "tools/call"]
    (key,) = {r.key for r in await store.rows("run") if r.key.endswith("tool1/rogue__say")}
    assert call["params"]["_meta"]["traceparent"] == trace_of("run", None).header(key)
    # Gone through again over its journal: the same verdict, and no server is started for it.
    (tmp_path / "received").unlink()
    again = await review(repo, script.model, "", store=store)
    assert again.digest == first.digest
    assert received(tmp_path) == []


@pytest.mark.either_loop
async def test_a_server_that_only_the_change_names_is_never_started(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    repo.commit({"app.py": "X = 1\n"})
    planted = {
        ".diffcourt/config/mcp.yaml": config({"rogue": rogue(tmp_path, "plain")}),
        ".diffcourt/agents/generalist.md": generalist("rogue__say"),
        ".mcp.json": json.dumps({"mcpServers": {"rogue": {"command": sys.executable}}}),
    }
    repo.commit(planted)
    script = Script("rogue__say", {"text": "hello"})
    await review(repo, script.model, "rogue")
    assert "rogue__say" not in script.shown
    assert "no tool 'rogue__say'" in script.told[0]
    assert not (tmp_path / "pid").exists()


@pytest.mark.either_loop
async def test_the_change_cannot_accept_another_description_or_command(tmp_path: Path) -> None:
    other = rogue(tmp_path, "plain", pin="sha256:" + "0" * 64)
    other["command"] = ["/bin/sh", "-c", f"touch {tmp_path}/owned"]
    head = {".diffcourt/config/mcp.yaml": config({"rogue": other})}
    repo = with_rogue(tmp_path / "repo", tmp_path, head)
    script = Script("rogue__say", {"text": "hello"})
    await review(repo, script.model, "rogue")
    assert json.loads(script.told[0])["text"] == "hello"
    assert not (tmp_path / "owned").exists()


@pytest.mark.either_loop
async def test_offline_no_server_is_started_unless_a_playbook_names_its_tool(
    tmp_path: Path,
) -> None:
    repo = with_rogue(tmp_path / "repo", tmp_path, {"app.py": "X = 2\n"})
    verdict = await review(repo, OfflineModel(), "rogue", provider="offline")
    assert verdict.status == "complete"
    assert not (tmp_path / "pid").exists()


def playbook(repo: Repo, server: dict[str, object]) -> None:
    """Base has a playbook with a step that names the rogue's tool."""
    skill = (data_root() / "skills_catalog/secret-hygiene/SKILL.md").read_text()
    steps = skill.index("## Steps") + len("## Steps\n\n")
    security = (data_root() / "agents/security.md").read_text()
    repo.commit(
        {
            ".diffcourt/config/mcp.yaml": config({"rogue": server}),
            ".diffcourt/agents/generalist.md": generalist("rogue__say"),
            ".diffcourt/agents/security.md": security.replace(
                "tools: [", "tools: [rogue__say, ", 1
            ),
            ".diffcourt/skills_catalog/secret-hygiene/SKILL.md": (
                skill[:steps] + "1. Ask `rogue__say`.\n" + skill[steps:]
            ),
        }
    )
    repo.commit({"app.py": "X = 2\n"})


def test_the_command_starts_the_servers_that_its_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = Repo(tmp_path / "repo")
    playbook(repo, rogue(tmp_path, "plain"))
    review_it = ["review", "--repo", str(repo.path), "--base", "HEAD~1"]
    main([*review_it, "--pattern", "single"])
    assert not (tmp_path / "pid").exists()
    monkeypatch.setenv("DIFFCOURT_MCP", "rogue")
    main([*review_it, "--pattern", "single"])
    assert "tools/list" in received(tmp_path)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.either_loop
@pytest.mark.parametrize("mode", ["plain", "changed"])
async def test_offline_a_playbook_calls_it_and_an_unavailable_tool_is_a_gap(
    tmp_path: Path, mode: str
) -> None:
    repo = Repo(tmp_path / "repo")
    playbook(repo, rogue(tmp_path, mode))
    verdict = await review(repo, OfflineModel(), "rogue", provider="offline")
    gaps = " ".join(gap for agent in verdict.agents for gap in agent.gaps)
    # The step has no text for it, so that the plain server's tool refuses the call: said as well.
    assert "rogue__say" in gaps
    assert ("differs from what was accepted" in gaps) is (mode == "changed")
