"""Whole reviews with a lead, specialists and a judge, on both event loops and all three APIs."""

import json
import re
import socket
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal
from msgspec.structs import replace

from orchestrator.app.cost_estimate import estimate_cost
from orchestrator.app.run_review import resume_review, run_review
from orchestrator.code_review.cost_estimate import ReviewEstimate
from orchestrator.engine.observer_events import Event, ignore_event
from orchestrator.engine.types import Json, Response, Text, Usage
from orchestrator.providers import call_costs
from orchestrator.report.verdict_text import render_verdict
from tests.model_server.server import KEY
from tests.model_server.server_script import Refuse, ServerReply, Slow
from tests.providers.whole_kit import (
    FINDING,
    POLICY,
    PROVIDERS,
    SUMMARY,
    TEAM,
    asked,
    judges,
    reports,
    repository,
    review,
    serving,
    team,
)
from tests.review.review_kit import change, options
from tests.scripted_model import ScriptError, tool_call_reply
from tests.server_replies import cut, garble, trickle

CHECKS = ("ruff_bugs", {"paths": ["app.py"]})


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def estimates(repo: Path) -> dict[str, ReviewEstimate]:
    """What a team is expected to cost, by provider: said without a key."""
    with pytest.MonkeyPatch.context() as env:
        env.setenv("OPENAI_COMPATIBLE_MODEL", "local-model")
        return {name: estimate_cost(asked(repo, name)) for name in PROVIDERS}


@pytest.mark.parametrize(
    ("name", "backend"),
    [("anthropic", "asyncio"), ("openai", "trio"), ("openai-compatible", "trio")],
)
def test_a_team_reviews(
    portal: BlockingPortal,
    monkeypatch: pytest.MonkeyPatch,
    repo: Path,
    name: str,
    backend: str,
    estimates: dict[str, ReviewEstimate],
) -> None:
    with serving(portal, monkeypatch, name, team()) as server:
        verdict = review(repo, name, backend)
    server.finish()
    assert {(agent.agent, agent.status) for agent in verdict.agents} == {
        (agent, "ok") for agent in ("lead", *TEAM, "judge")
    }
    assert {(found.title, found.reported_by) for found in verdict.findings} == {
        (FINDING["title"], ("security",)),
        ("Text evaluated as code", ("ruff",)),
    }
    assert (verdict.stop.reason, verdict.usage.model_calls) == ("done", len(server.requests))
    assert {"ruff_bugs", "secrets"} <= set(verdict.checked[0].by)
    assert verdict.lead_summary == SUMMARY
    used = verdict.usage
    assert 0 < used.usd < 0.3
    assert (used.cached_tokens > 0, used.saved_usd > 0) == ((name != "openai-compatible"),) * 2
    assert (used.notes, used.uncertain_usd, used.uncertain_tokens) == ((), 0, 0)
    estimate = estimates[name]
    assert used.usd <= estimate.total[0].usd <= estimate.total[1].usd
    assert {share.model for share in estimate.shares} == set(verdict.provenance.models)


def test_network_errors_are_retried_and_unusable_replies_escalate(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    """Asked too often, slow, in pieces, cut off, garbled."""
    for name, backend in (("anthropic", "asyncio"), ("openai", "trio")):
        usual = team()
        script = team(
            lead=[Refuse(429, headers={"retry-after": "0.01"}), *usual["lead"]],
            security=[cut(30, usual["security"][0]), *usual["security"]],
            qa=[Slow(0.05, usual["qa"][0]), trickle(50, 0.001, usual["qa"][1])],
            architecture=[garble(3, usual["architecture"][0]), *usual["architecture"]],
        )
        told: list[Event] = []
        with serving(portal, monkeypatch, name, script) as server:
            verdict = review(repo, name, backend, told)
        server.finish()
        status = {agent.agent: agent.status for agent in verdict.agents}
        assert set(status.values()) == {"ok"}
        ((agent, stage),) = [(step.agent, step.to_stage) for step in verdict.escalations]
        assert (agent, stage) == ("architecture", "strongest")
        assert FINDING["title"] in {found.title for found in verdict.findings}
        assert verdict.usage.model_calls == len(server.requests) - 2
        assert verdict.usage.notes == (
            "attempts whose reply was lost and may have been billed, each at its worst: 1",
        )
        used = verdict.usage
        assert 0 < used.uncertain_usd < used.usd
        assert used.uncertain_tokens > 0
        said = f"USD {used.usd:.4f} (USD {used.uncertain_usd:.4f} of it uncertain) of 2"
        assert said in " ".join(render_verdict(verdict).split())


def test_an_agent_has_the_playbooks_for_its_files_in_its_first_request(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    script = {"generalist": [reports()], "judge": [judges()]}
    with serving(portal, monkeypatch, "anthropic", script) as server:
        review(repo, "anthropic", pattern="single")
    server.finish()
    first, *_ = server.requests
    text = json.dumps(first.body["messages"])
    agent = Path("agents/generalist.md").read_text(encoding="utf-8")
    (skills,) = re.findall(r"^skills: \[(.*)\]$", agent, re.MULTILINE)
    # For workflows, dependencies, settings, documentation and imports, of which none changed.
    others = {"supply-chain-and-ci", "secret-hygiene", "docs-accuracy", "dependency-structure"}
    for name in skills.split(", "):
        assert text.count(f"# Skill: {name}") == (name not in others)
    assert "Your tools: read_file, glob, search, git_diff, git_log, git_blame." in text
    names = [tool["name"] for tool in first.body["tools"]]
    assert len(names) <= 19


@pytest.mark.parametrize("name", PROVIDERS)
def test_answers_are_kept_short_and_then_the_run_stops_with_what_it_has(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path, name: str
) -> None:
    script: dict[str, list[ServerReply]] = {
        "generalist": [tool_call_reply(CHECKS), _wordy, reports()],
        "judge": [judges()],
    }
    with serving(portal, monkeypatch, name, script) as server:
        most = _usd(repo, name, 30_000, 4_000)
        verdict = review(repo, name, pattern="single", max_usd=most)
    with pytest.raises(ScriptError, match="unused lines in the script: {'generalist': 1"):
        server.finish()  # whether a judge can still be paid is not the point here
    limits = [_limit(seen.body) for seen in server.requests if seen.agent == "generalist"]
    assert 12_000 > limits[0] > limits[1] > 1_000, "the stage would allow 16,000"
    assert (verdict.stop.reason, verdict.status) == ("budget", "incomplete")
    assert "usd would reach" in verdict.stop.detail
    assert verdict.exit_code == 3
    assert "ruff_bugs" in verdict.checked[0].by, "what was found before stays"
    assert 0.5 * most < verdict.usage.usd <= most


def test_an_estimate_counts_the_common_opening_once_for_each_model(
    estimates: dict[str, ReviewEstimate],
) -> None:
    shares = {share.agent: share for share in estimates["anthropic"].shares}
    assert len({shares[name].model for name in ("lead", *TEAM)}) == 1
    usd = {name: share.expected.usd / share.expected.tokens for name, share in shares.items()}
    assert max(usd[name] for name in TEAM) < 0.95 * usd["lead"]


def test_nothing_costs_more_than_its_estimate(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    """Agents that answer as long as they may, again and again, until nothing is left."""
    name = "anthropic"
    script = {agent: [_wordy] * 100 for agent in ("lead", *TEAM, "judge")}
    told: list[Event] = []
    with serving(portal, monkeypatch, name, script):
        estimate = estimate_cost(asked(repo, name))
        verdict = review(repo, name, told=told)
    used = [(event.agent, event.data) for event in told if event.kind == "model_finished"]
    for share in estimate.shares:
        own = [data for agent, data in used if agent == share.agent]
        tokens = sum(data["input_tokens"] + data["output_tokens"] for data in own)
        assert tokens <= share.worst.tokens, share.agent
        assert sum(data["usd"] for data in own) <= share.worst.usd, share.agent
    assert {agent.status for agent in verdict.agents} == {"budget"}
    worst = estimate.total[1]
    assert 0.3 * worst.usd < verdict.usage.usd <= worst.usd
    assert verdict.usage.input_tokens + verdict.usage.output_tokens <= worst.tokens


def test_a_model_without_a_price_is_reported_once(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    told: list[Event] = []
    script = {"generalist": [reports(checked=["app.py"])], "judge": [judges()]}
    name = "openai-compatible"
    with serving(portal, monkeypatch, name, script, local="new-model"):
        verdict = review(repo, name, told=told, pattern="single")
    said = "no price is known for new-model, so its budget counts tokens only"
    assert [note.startswith(said) for note in verdict.usage.notes] == [True]
    assert [e.detail.startswith(said) for e in told if e.kind == "note"].count(True) == 1
    assert verdict.usage.usd == 0
    assert "usd" in verdict.usage.limits


def _limit(body: dict[str, Json]) -> int:
    return int(body.get("max_tokens") or body["max_output_tokens"])


def _wordy(body: dict[str, Json]) -> Response:
    """A call, unlike those before it, after as many words as are allowed."""
    size = len(json.dumps(body))
    said = " ".join(f"{word}{size}" for word in range(50))
    call = tool_call_reply(("search", {"pattern": f"eval{size}"}))
    return replace(call, blocks=(Text(said), *call.blocks), usage=Usage(size // 5, _limit(body)))


def _usd(repo: Path, name: str, given: int, answer: int) -> float:
    """What so many tokens can cost in a review by one agent."""
    (share, *_) = estimate_cost(asked(repo, name, pattern="single")).shares
    price = share.prices[share.model]
    assert price is not None
    return call_costs.max_call_cost(price, given, answer)


def test_an_unreachable_model_keeps_the_findings_of_analyzers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # nobody listens there once it is closed
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_COMPATIBLE_MODEL", "local-model")
    monkeypatch.setenv("OPENAI_COMPATIBLE_BASE_URL", f"http://127.0.0.1:{port}/v1")
    token = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"[::-1]
    policy = {
        ".diffcourt/config/models.yaml": "calls: {attempts: 1, timeout: 2, deadline: 2}\n",
        ".diffcourt/config/prices.yaml": POLICY[".diffcourt/config/prices.yaml"],
    }
    repo = change(tmp_path / "repo", policy, {"app.py": f"TOKEN = '{token}'\n"})
    given = options(repo.path, provider="openai-compatible", pattern="team")
    verdict = run_review(given, ignore_event)
    assert "security.live-secret" in {finding.rule for finding in verdict.findings}
    assert (verdict.status, verdict.exit_code) == ("incomplete", 3)
    checks = {check.name: check.status for check in verdict.required_checks}
    assert (checks["no-secrets"], checks["python-security"]) == ("ran", "ran")
    assert any(skip.gap and skip.tool == "lead" for skip in verdict.skipped)
    resumed = resume_review(repo.path, verdict.run_id, ignore_event)
    assert resumed.digest == verdict.digest
