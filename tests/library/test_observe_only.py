"""Observe-only runs: permissions, guards and approvals rule and are recorded, and refuse nothing."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from orchestrator import (
    Agent,
    Bounds,
    BudgetExhausted,
    ConfigError,
    Event,
    Harness,
    InvalidArguments,
    Level,
    RateGuard,
    ToolPolicy,
    tool,
)
from orchestrator.app.audit.verification import build_entries
from orchestrator.stores.sqlite_journal import SqliteStore
from tests.review.review_kit import change, review
from tests.scripted_model import ScriptedModel, text_reply, tool_call_reply

ONCE: Mapping[str, int] = {"*": 1}


@tool(level="irreversible")
async def deploy(to: str) -> str:
    """Deploy."""
    return f"deployed to {to}"


def once() -> RateGuard:
    return RateGuard(ONCE, {}, lambda: 0.0)


async def test_rulings_are_recorded_and_refuse_nothing(tmp_path: Path) -> None:
    path, events = tmp_path / "runs.db", list[Event]()
    policy = ToolPolicy(max_level=Level.READ)
    opening = Harness.open(
        path, "r", tools=[deploy], policy=policy, guards=[once()], observe_only=True,
        observer=events.append,
    )  # fmt: skip
    async with opening as harness:
        for place in ("test", "production"):
            assert await harness.execute("deploy", {"to": place}) == f"deployed to {place}"
        observed = harness.observed()
        with pytest.raises(InvalidArguments):
            await harness.execute("deploy", {"from": "here"})
    assert [ruling.split(": ")[:2] for ruling in observed] == [
        ["execute/1/deploy", "permission"],
        ["execute/1/deploy", "approval"],
        ["execute/2/deploy", "permission"],
        ["execute/2/deploy", "rate"],
        ["execute/2/deploy", "approval"],
    ]
    assert any(event.detail.startswith("OBSERVE ONLY: ") for event in events)
    store = SqliteStore(path)
    entries = build_entries(await store.rows("r"))
    store.close()
    assert any("OBSERVE ONLY: " in entry.what for entry in entries)
    done = next(entry for entry in entries if entry.key == "execute/2/deploy")
    assert done.authority == "NONE, observed only"
    assert "would be refused: permission: deploy is IRREVERSIBLE" in done.outcome
    assert "rate: deploy was already called 1 times" in done.outcome


async def test_a_budget_binds_an_observe_only_run() -> None:
    opening = Harness.open(
        None, "r", tools=[deploy], bounds=Bounds(tool_calls=1), observe_only=True
    )
    async with opening as harness:
        await harness.execute("deploy", {"to": "a"})
        with pytest.raises(BudgetExhausted):
            await harness.execute("deploy", {"to": "b"})


async def test_an_agents_result_says_what_would_have_been_refused_it() -> None:
    model = ScriptedModel(
        {"ops": [tool_call_reply(("deploy", {"to": "production"})), text_reply("done")]}
    )
    async with Harness.open(None, "r", model=model, observe_only=True) as harness:
        result = await harness.run(Agent("ops", tools=[deploy]), "deploy")
    assert result.status == "ok"
    assert [ruling.split(": ")[1:] for ruling in result.observed] == [
        ["approval", "deploy cannot be undone"]
    ]
    shown = str(model.requests[1].messages[-1])
    assert "[guard: not refused, since this run only observes: approval: " in shown


@pytest.mark.either_loop
async def test_base_cannot_make_a_review_observe_only(tmp_path: Path) -> None:
    for name in ("tools", "guards", "defaults"):
        place = f".diffcourt/config/{name}.yaml"
        repo = change(tmp_path / name, {place: "observe_only: true\n"}, {"a.py": "X = 1\n"})
        with pytest.raises(ConfigError, match="unknown key 'observe_only'"):
            await review(repo)
