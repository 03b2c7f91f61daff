"""Teams whose agents use models of two vendors, each behind its own strict server."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal
from msgspec.structs import replace

from orchestrator.app.cost_estimate import estimate_cost
from orchestrator.app.policy_sources import load_policy
from orchestrator.app.run_review import resume_review
from orchestrator.catalog.data_file_layers import make_overlay, read_shipped_layer
from orchestrator.catalog.prices import load_prices
from orchestrator.cli.main import main
from orchestrator.code_review.policy_loading import Policy
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.observer_events import Event, ignore_event
from orchestrator.engine.types import Json, Response, Usage
from orchestrator.errors import ConfigError, InputError, ProviderRefused
from tests.model_server.server import ModelServer
from tests.model_server.server_script import Refuse, ServerReply
from tests.providers.whole_kit import (
    BASE,
    FINDING,
    HEAD,
    POLICY,
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

Script = Mapping[str, Sequence[ServerReply]]

SETTINGS = ".diffcourt/config/defaults.yaml"
AT_OPENAI = "agents: {security: {model: 'openai:strong'}}\n"
OTHERS = [name for name in ("lead", *TEAM, "judge") if name != "security"]
DOWN = [Refuse(529)] * 3
EMPTY = Refuse(429, "insufficient_quota")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository whose base has another vendor for its security specialist."""
    files = {**BASE, **POLICY, SETTINGS: POLICY[SETTINGS] + AT_OPENAI}
    return change(tmp_path, files, HEAD).path


def of_claude(**other: Sequence[ServerReply]) -> Script:
    return {name: lines for name, lines in team(**other).items() if name in {*OTHERS, *other}}


def of_openai(*security: ServerReply, **other: Sequence[ServerReply]) -> Script:
    return {"security": security or team()["security"], **other}


Servers = tuple[ModelServer, ModelServer]


@contextmanager
def two(
    portal: BlockingPortal, patch: pytest.MonkeyPatch, claude: Script, openai: Script
) -> Iterator[Servers]:
    with (
        serving(portal, patch, "anthropic", claude) as first,
        serving(portal, patch, "openai", openai) as second,
    ):
        yield first, second
        first.finish()
        second.finish()


def agents_of(server: ModelServer) -> set[str]:
    return {seen.agent for seen in server.requests}


def moves(verdict: Verdict) -> list[tuple[str, str, str]]:
    return [(one.agent, one.from_stage, one.to_stage) for one in verdict.escalations]


def test_each_agent_is_asked_at_its_own_vendor_and_both_bills_are_summed(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    told: list[Event] = []
    with two(portal, monkeypatch, of_claude(), of_openai()) as (claude, openai):
        verdict = review(repo, "anthropic", told=told)
    assert (agents_of(claude), agents_of(openai)) == (set(OTHERS), {"security"})
    assert {seen.body["model"] for seen in openai.requests} == {"gpt-6.1-terra"}
    assert verdict.provenance.provider == "anthropic, openai"
    assert {"gpt-6.1-terra", "claude-sonnet-5-5"} <= set(verdict.provenance.models)
    assert FINDING["title"] in {found.title for found in verdict.findings}
    assert (verdict.escalations, verdict.status) == ((), "complete")
    (said,) = (one for one in verdict.usage.notes if "is sent to" in one)
    assert "openai for security; one that is down is replaced by another of" in said
    first = next(n for n, event in enumerate(told) if event.kind == "model_started")
    assert said in {event.detail for event in told[:first]}


def test_the_other_vendor_takes_over_once_and_for_all_agents_and_the_verdict_says_so(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    """The first vendor is down from the start; nobody asks it again after one call gave up."""
    claude, openai = {"lead": DOWN}, of_openai(**of_claude())
    with two(portal, monkeypatch, claude, openai) as (first, second):
        verdict = review(repo, "anthropic")
    assert agents_of(first) == {"lead"}
    assert agents_of(second) == {"security", *OTHERS}
    assert {agent.status for agent in verdict.agents} == {"ok"}
    assert {to for _, _, to in moves(verdict)} <= {"openai:fast", "openai:strong"}
    assert {agent for agent, _, _ in moves(verdict)} == set(OTHERS)
    assert all("anthropic" in one.why and "529" in one.why for one in verdict.escalations)


@pytest.mark.parametrize("failure", [DOWN, [EMPTY]])  # test_retry.py has each status of the two
def test_a_vendor_that_fails_in_the_middle_of_an_agents_work_is_replaced(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path, failure: list[ServerReply]
) -> None:
    work = team()["security"]
    with two(portal, monkeypatch, of_claude(security=work), of_openai(work[0], *failure)) as (
        claude,
        _,
    ):
        verdict = review(repo, "anthropic")
    assert "security" in agents_of(claude)
    assert moves(verdict) == [("security", "openai:strong", "anthropic:strong")]
    assert verdict.status == "complete"
    assert FINDING["title"] in {found.title for found in verdict.findings}
    assert verdict.escalations[0].why.startswith("openai ")


@pytest.mark.parametrize("down", [False, True])
def test_only_who_answered_agrees(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path, down: bool
) -> None:
    """An agent that another vendor answers for is of that one's family."""
    told = [reports(summary="One.", findings=[FINDING], checked=["app.py"])]
    claude = of_claude(qa=told, **({"security": told} if down else {}))
    with two(portal, monkeypatch, claude, {"security": [EMPTY] if down else told}):
        verdict = review(repo, "anthropic")
    (found,) = (one for one in verdict.findings if one.title == FINDING["title"])
    assert {"security", "qa"} <= set(found.reported_by)
    assert found.support == ("claimed" if down else "agreed")


def test_where_both_are_down_nothing_loops_and_the_agents_are_gaps(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    only: dict[str, Any] = {
        "pattern": "single",
        "models": ["generalist=openai:strong", "judge=anthropic:strong"],
    }
    script = {"generalist": [*DOWN, *DOWN]}
    with two(portal, monkeypatch, script, {"generalist": DOWN}) as (_, openai):
        verdict = review(repo, "anthropic", **only)
    assert len(openai.requests) == 3
    assert moves(verdict)[:2] == [
        ("generalist", "openai:strong", "anthropic:strong"),
        ("generalist", "anthropic:strong", "anthropic:strongest"),
    ]
    assert verdict.verdict != "merge"


def costly(script: Script) -> Script:
    """Every answer at the same number of tokens."""
    used = Usage(60_000, 500)
    return {
        name: [replace(line, usage=used) for line in lines if isinstance(line, Response)]
        for name, lines in script.items()
    }


def test_one_budget_holds_the_prices_of_both(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    with two(portal, monkeypatch, costly(of_claude()), costly(of_openai())) as servers:
        verdict = review(repo, "anthropic")
    prices = load_prices([read_shipped_layer()])
    asked_for = [prices[str(seen.body["model"])] for server in servers for seen in server.requests]
    due = sum(price.input * 60_000 + price.output * 500 for price in asked_for) / 1e6
    assert len({price.input for price in asked_for}) > 1
    assert verdict.usage.usd == pytest.approx(due, rel=1e-3)


def test_the_estimate_prices_each_agent_at_its_own_vendor_and_needs_no_key(repo: Path) -> None:
    def shares(**given: object) -> dict[str, float]:
        found = estimate_cost(asked(repo, "anthropic", **given))
        assert found.total[0].usd == pytest.approx(sum(one.expected.usd for one in found.shares))
        return {one.agent: one.expected.usd for one in found.shares}

    mixed, alone = shares(), shares(models=["security=anthropic:strong"])
    other = shares(models=["openai:strong"])
    assert mixed["security"] < alone["security"]
    assert mixed["security"] == pytest.approx(other["security"], rel=0.5)
    (share,) = (
        one for one in estimate_cost(asked(repo, "anthropic")).shares if one.agent == "security"
    )
    assert share.model == "openai:gpt-6.1-terra"
    assert {"claude-opus-5-5", "openai:gpt-6.1-sol"} <= share.prices.keys()
    assert all(share.prices.values())
    assert estimate_cost(asked(repo, "anthropic")).provider == "anthropic, openai"
    estimate_cost(asked(repo, "anthropic", max_usd=1.0))


def test_each_agent_climbs_the_ladder_of_its_own_vendor(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    script = of_openai(Refuse(400), *team()["security"])
    with two(portal, monkeypatch, of_claude(), script) as (_, openai):
        verdict = review(repo, "anthropic")
    assert moves(verdict) == [("security", "openai:strong", "openai:strongest")]
    assert [seen.body["model"] for seen in openai.requests] == [
        "gpt-6.1-terra", "gpt-6.1-sol", "gpt-6.1-sol",
    ]  # fmt: skip


COMMAND = ("review", "--provider", "anthropic", "--pattern", "team", "--max-iterations", "1",
           "--base", "HEAD~1", "--allow-spending", "--quiet")  # fmt: skip


@pytest.mark.parametrize("replaced", [False, True])
def test_a_run_that_is_killed_resumes_and_replays_to_the_same_digest(
    portal: BlockingPortal,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    replaced: bool,
) -> None:
    """In the middle of the other vendor's conversation, or of what replaced it.

    One agent works at a time: a call of another one that is in flight would be repeated.
    """
    settings = f"{POLICY[SETTINGS]}{AT_OPENAI}concurrency: 1\n"
    repo = change(tmp_path / "repo", {**BASE, **POLICY, SETTINGS: settings}, HEAD).path
    started: list[subprocess.Popen[bytes]] = []

    first, last = team()["security"]
    assert isinstance(last, Response)

    def killed(body: Json) -> Response:
        started[0].kill()
        return last

    lines = [first, killed, last]

    def scripts(*work: ServerReply) -> tuple[Script, Script]:
        if replaced:
            return of_claude(security=[*work]), of_openai(first, EMPTY)
        return of_claude(), of_openai(*work)

    # Another store: a repeated review of the same head takes over what the first one found.
    other = Path(shutil.copytree(repo, tmp_path / "other"))
    with two(portal, monkeypatch, *scripts(first, last)):
        calm = review(other, "anthropic")
    with two(portal, monkeypatch, *scripts(*lines)):
        arguments = [sys.executable, "-m", "orchestrator", *COMMAND, "--repo", str(repo)]
        started.append(subprocess.Popen(arguments))
        assert started[0].wait(120) == -signal.SIGKILL
        verdict = resume_review(repo, "latest", ignore_event)
    assert verdict.digest == calm.digest
    assert len(verdict.escalations) == replaced
    capsys.readouterr()
    score = ("rubric", "score", "pr-review", "--runs", verdict.run_id, "--repo", str(repo))
    assert main([*score, "--json"]) == 0
    assert resume_review(repo, verdict.run_id, ignore_event).digest == calm.digest


def test_a_vendor_that_is_named_and_has_no_key_is_one_line_before_anything_is_sent(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    with serving(portal, monkeypatch, "anthropic", {}) as server:
        with pytest.raises(InputError, match=r"^openai needs the environment variable OPENAI_API"):
            review(repo, "anthropic")
        assert not server.requests


def test_a_second_key_alone_changes_nothing(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nobody named the other vendor, so nothing is sent to it, whatever happens."""
    repo = repository(tmp_path)
    with two(portal, monkeypatch, {"generalist": [EMPTY]}, {}) as (_, openai):
        with pytest.raises(ProviderRefused, match="anthropic has no credit"):
            review(repo, "anthropic", pattern="single")
        assert not openai.requests


@pytest.mark.attack("a base that sends the change to a vendor that its user has not named")
def test_base_names_a_vendor_only_with_consent_and_its_agents_work_at_the_runs_own(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    with two(portal, monkeypatch, team(), {}):
        verdict = review(repo, "anthropic", allow_spending=False)
    assert verdict.provenance.provider == "anthropic"
    (note,) = verdict.usage.notes
    assert note.startswith("base gives security to openai, which nobody allowed here")
    assert "--allow-spending" in note


@pytest.mark.attack("a change that sends itself to another vendor")
def test_a_change_names_no_vendor(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    head = {**HEAD, SETTINGS: "agents: {generalist: {model: 'openai:strong'}}\n"}
    repo = change(tmp_path, {**BASE, **POLICY}, head).path
    work = [reports(summary="Nothing.", checked=["app.py"])]
    script = {"generalist": work, "judge": [judges()]}
    with two(portal, monkeypatch, script, {}):
        review(repo, "anthropic", pattern="single")


def policy(settings: str, files: Mapping[str, str] | None = None, **given: object) -> Policy:
    data = {"config/defaults.yaml": settings.encode()}
    data |= {name: text.encode() for name, text in (files or {}).items()}
    return load_policy([read_shipped_layer(), make_overlay(".diffcourt", data)],
                       options(None, **given))  # fmt: skip


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("offline", "a review is offline as a whole"),
        ("offline:strong", "a review is offline as a whole"),
        ("opneai:strong", "unknown provider 'opneai'; did you mean 'openai'"),
        ("OpenAI:gpt-6.1-sol", "unknown provider 'OpenAI'"),
        ("mistral:strong", "unknown provider 'mistral'"),
        ("openai:", "does not name a model"),
        ("openai:anthropic:strong", "does not name a model"),
        ("openai:human", "is a person"),
    ],
)
def test_a_name_that_cannot_be_a_model_is_refused_wherever_it_is_written(
    name: str, problem: str
) -> None:
    for settings in (f"agents: {{qa: {{model: '{name}'}}}}\n", f"model: '{name}'\n"):
        with pytest.raises(ConfigError, match=problem) as error:
            policy(settings)
        assert "defaults.yaml:1" in str(error.value)
    agent = f"---\nname: qa\ndescription: Reads.\ntools: []\nmodel: '{name}'\n---\nRead.\n"
    with pytest.raises(ConfigError, match=rf"qa\.md:5: .*{problem}"):
        policy("{}\n", {"agents/qa.md": agent})
    with pytest.raises(InputError, match=rf"^--model qa={name}: .*{problem}"):
        policy("{}\n", provider="anthropic", models=[f"qa={name}"])


def models_of(found: Policy) -> dict[str, str]:
    return {name: found.catalog.agents[name].model for name in ("qa", "security", "judge")}


def test_a_model_is_asked_for_by_option_for_all_agents_or_for_one() -> None:
    named = policy("{}\n", provider="anthropic", models=["security=openai:gpt-x", "qa=qwen3:8b"])
    assert models_of(named) == {"qa": "qwen3:8b", "security": "openai:gpt-x", "judge": "strong"}
    both = policy("{}\n", models=["openai:strongest", "qa=anthropic:fast"])
    assert (both.settings.provider, both.notes) == ("openai", ())
    assert models_of(both) == {
        "qa": "anthropic:fast", "security": "openai:strongest", "judge": "openai:strongest",
    }  # fmt: skip
    with pytest.raises(InputError, match="--model needs a provider"):
        policy("{}\n", models=["qa=openai:strong"])
    with pytest.raises(InputError, match="--model q=strong: unknown agent 'q'"):
        policy("{}\n", provider="anthropic", models=["q=strong"])


@pytest.mark.parametrize(
    ("model", "stage"),
    [("openai:fast", "fast"), ("openai:gpt-6.1-sol", "strongest"), ("openai:gpt-x", "strong")],
)
def test_what_nobody_allowed_is_done_at_the_same_stage_of_the_runs_provider(
    model: str, stage: str
) -> None:
    settings = f"agents: {{qa: {{model: '{model}'}}}}\n"
    assert models_of(policy(settings, provider="anthropic"))["qa"] == stage
    user = policy(settings, provider="anthropic", models=["security=openai:strong"])
    assert (models_of(user)["qa"], user.notes) == (model, ())
    (note,) = policy(settings, allow_spending=True).notes
    assert "base gives qa to openai, but this run is offline" in note


def test_doctor_says_which_key_is_missing_and_who_needs_it(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (repo / SETTINGS).parent.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    main(["doctor", "--repo", str(repo), "--json"])
    checks = {one["name"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["models"]["status"] == "note"
    assert checks["models"]["remedy"] == "set OPENAI_API_KEY for security"


def test_a_gateway_is_a_vendor_like_any_other(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repo = repository(tmp_path)
    only: dict[str, Any] = {"pattern": "single", "models": ["generalist=openai-compatible:strong"]}
    work = [reports(summary="Nothing.", checked=["app.py"])]
    with (
        serving(portal, monkeypatch, "anthropic", {"judge": [judges()]}) as claude,
        serving(portal, monkeypatch, "openai-compatible", {"generalist": work}) as gateway,
    ):
        verdict = review(repo, "anthropic", **only)
        claude.finish()
        gateway.finish()
    assert [seen.body["model"] for seen in gateway.requests] == ["local-model"]
    assert verdict.provenance.provider == "anthropic, openai-compatible"


def test_a_gateway_that_serves_no_stage_replaces_nobody_and_is_replaced(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repo = repository(tmp_path)
    only: dict[str, Any] = {
        "pattern": "single",
        "models": ["generalist=openai-compatible:qwen3:8b"],
    }
    work = [reports(summary="Nothing.", checked=["app.py"])]
    claude: Script = {"judge": [EMPTY]}
    gateway: Script = {"generalist": work}
    with (
        serving(portal, monkeypatch, "anthropic", claude),
        serving(portal, monkeypatch, "openai-compatible", gateway, local=""),
        pytest.raises(ProviderRefused, match="anthropic has no credit"),
    ):
        review(repo, "anthropic", **only)
    claude, gateway = {"judge": [judges()], "generalist": work}, {"generalist": DOWN}
    with (
        serving(portal, monkeypatch, "anthropic", claude),
        serving(portal, monkeypatch, "openai-compatible", gateway, local=""),
    ):
        verdict = review(repo, "anthropic", **only)
    assert moves(verdict) == [("generalist", "openai-compatible:qwen3:8b", "anthropic:strong")]
