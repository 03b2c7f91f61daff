"""The assembled context through the real SDKs: what is cached stays, and what is signed stays valid."""

import itertools
import json

import pytest
from msgspec.structs import replace

from orchestrator.app.run_review import resume_review
from orchestrator.cli.main import main
from orchestrator.engine.agent_context import AgentRuntime
from orchestrator.engine.agent_loop import run_agent
from orchestrator.engine.budget import Account
from orchestrator.engine.executor import Executor
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.model_routing import ModelChoice
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.tool_registry import Registry, ToolPolicy
from orchestrator.engine.types import AgentSpec, Bounds, Response, Skill
from tests.model_server.messages_api import MAX_BREAKPOINTS
from tests.model_server.server import BYTES_PER_TOKEN
from tests.providers import whole_kit
from tests.providers.provider_kit import (
    MODELS,
    NONCE,
    PROVIDERS,
    REPORT,
    Search,
    open_memory_run,
    open_session,
    unmarked,
)
from tests.review.review_kit import change
from tests.scripted_model import text_reply, tool_call_reply
from tests.server_replies import thinking_block

pytestmark = pytest.mark.either_loop

REPORTED = text_reply('{"summary": "clean", "score": 0.5, "places": []}')
SKILLS = (
    Skill("close-reading", "Read closely.", "Read every line twice."),
    Skill("counting", "Count.", "Count the lines."),
)


class LongSearch(Search):
    async def run(self, arguments, context):
        found = await super().run(arguments, context)
        return replace(found, content=found.content + " of many" * 60)


def turn(number, *wanted):
    return Response((thinking_block(f"thought {number}"), *tool_call_reply(*wanted).blocks), "end")


async def review(used, window=None, turns=60):
    """A whole agent with skills; its result, and what was left out."""
    spec = AgentSpec(
        "qa",
        "looks for bugs",
        "You look for bugs.",
        ("search",),
        SKILLS,
        bounds=Bounds(turns=turns),
        contract=REPORT,
    )
    choice = ModelChoice(MODELS[used.name], 1000, window=window)
    async with open_memory_run() as journal:
        registry = Registry([LongSearch()])
        executor = Executor(registry, ToolPolicy(), journal, nonce=NONCE, observer=ignore_event)
        runtime = AgentRuntime(
            used.model, executor, journal, ignore_event, choose_model=lambda _: choice
        )
        account = Account("qa", Bounds(usd=10))
        result = await run_agent(spec, "Look at a.py.", runtime, Key("qa"), account)
        return result, journal.notes("qa")


SCRIPT = [*(turn(n, ("search", {"text": text})) for n, text in enumerate("abcd")), REPORTED]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_conversation_begins_with_every_byte_of_the_shorter_one(name):
    async with open_session(name, SCRIPT) as used:
        result, _ = await review(used)
        used.server.finish()
        bodies = [unmarked(body) for body in used.bodies]
    assert result.status == "ok", result.detail
    key = "input" if name == "openai" else "messages"
    assert all("# Skill: counting" in json.dumps(body) for body in bodies)
    for shorter, longer in itertools.pairwise(bodies):
        same = len(json.dumps(shorter[key])) - 1
        assert json.dumps(longer[key])[:same] == json.dumps(shorter[key])[:same]
        assert json.dumps({**longer, key: 0}) == json.dumps({**shorter, key: 0})


async def test_claudes_breakpoints_stand_at_the_end_and_are_found_again():
    async with open_session("anthropic", SCRIPT) as used:
        await review(used)
        used.server.finish()
    for body in used.bodies:
        assert json.dumps(body).count('"cache_control"') <= MAX_BREAKPOINTS
        assert "cache_control" in body["system"][-1]
        *_, last = (m for m in body["messages"] if m["role"] == "user")
        assert "cache_control" in last["content"][-1]


@pytest.mark.either_loop
@pytest.mark.parametrize("name", PROVIDERS)
async def test_omitting_messages_keeps_requests_valid(name):
    """The strict servers know calls without results, and reasoning that was signed over more."""
    script = [*(turn(n, ("search", {"text": str(n)})) for n in range(25)), REPORTED]
    async with open_session(name, script) as used:
        result, notes = await review(used, window=7_000)
        used.server.finish()
        last = json.dumps(used.bodies[-1])
    assert result.status == "ok", result.detail
    assert len(notes) > 1
    assert "Earlier turns of this conversation are left out" in last
    assert "Count the lines" in last
    assert "Look at a.py." in last


def test_a_whole_review_that_outgrows_its_window_keeps_its_prefix_and_replays(
    portal, monkeypatch, tmp_path, capsys
):
    policy = dict(whole_kit.POLICY)
    window = "{default: 38000, models: {claude-sonnet-5-5: 38000}}"
    policy[".diffcourt/config/models.yaml"] += f"windows: {window}\n"
    lines = "".join(f"def long_name_{n}(value):\n    return value + {n}\n\n\n" for n in range(300))
    repo = change(tmp_path, {**policy, "big.py": lines}, whole_kit.HEAD).path
    reads = [
        tool_call_reply(("read_file", {"path": "big.py", "start": at, "end": at + 149}))
        for at in range(1, 1051, 150)
    ]
    last = whole_kit.reports(findings=[whole_kit.FINDING], checked=["app.py"])
    script = {"generalist": [*reads, last], "judge": [whole_kit.judges()]}
    with whole_kit.serving(portal, monkeypatch, "anthropic", script) as server:
        verdict = whole_kit.review(repo, "anthropic", pattern="single")
        server.finish()
    bodies = [unmarked(one.body) for one in server.requests if one.agent == "generalist"]
    openings = [[b["system"], b["tools"], b["messages"][0]["content"][0]] for b in bodies]
    assert openings == openings[:1] * len(bodies)
    sent = [json.dumps(body["messages"]) for body in bodies]
    kept = [b.startswith(a[:-1]) for a, b in itertools.pairwise(sent)]
    assert kept.count(False) == 1  # seldom, and much at once
    assert len(sent[kept.index(False) + 1]) < len(sent[kept.index(False)])
    assert verdict.usage.cached_tokens > len(json.dumps(bodies[0])) / BYTES_PER_TOKEN
    assert verdict.status == "complete"
    # The server is gone: everything comes from the journal.
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    assert resume_review(repo, verdict.run_id, ignore_event).digest == verdict.digest
    assert main(["show", verdict.run_id, "--repo", str(repo)]) == 0
    assert "context compaction" in capsys.readouterr().out
