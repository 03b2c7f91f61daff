"""A review of several rounds is gone on with where it stood, and takes the same way again."""

from pathlib import Path

import anyio

from orchestrator.engine.ports import SystemClock
from orchestrator.engine.types import Request, Response
from orchestrator.errors import ModelError
from orchestrator.stores.memory import MemoryStore
from orchestrator.testing.scripted_model import ScriptedModel, tool_call_reply
from tests.review.review_kit import change, review
from tests.review.team_kit import TEAM, claim, plan, report, script
from tests.review.test_responses import name_of


async def test_rows_of_a_later_iteration_do_not_change_an_earlier_decision(tmp_path: Path) -> None:
    repo = change(tmp_path, {}, {"app.py": '"""An app."""\n\nNAME = "app"\n'})
    store = MemoryStore(SystemClock())
    await store.create("run", 1.0, {})
    failing = script(lead=[plan(*TEAM), plan("docs")], docs=[ModelError("once"), report()])
    first = await review(repo, ScriptedModel(failing), store=store)
    again = await review(repo, ScriptedModel({}), store=store)
    assert [iteration.number for iteration in again.iterations] == [1, 2]
    assert again.digest == first.digest


async def test_a_report_that_was_sent_back_is_sent_back_again_though_its_evidence_came_later(
    tmp_path: Path,
) -> None:
    repo = change(tmp_path, {}, {"app.py": '"""An app."""\n\nNAME = "app"\n'})
    store = MemoryStore(SystemClock())
    await store.create("run", 1.0, {})
    seen = {"source": "tool", "name": "read_file", "quote": 'NAME = "app"'}
    dispute = {
        "finding": name_of(claim()),
        "action": "dispute",
        "reason": "No.",
        "evidence": [seen],
    }
    said = report(findings=[claim()], responses=[dispute])
    looks = tool_call_reply(("read_file", {"path": "app.py"}))

    with anyio.CancelScope() as run:

        def interrupted(request: Request) -> Response:
            run.cancel()
            return tool_call_reply(("read_file", {"path": "README.md"}))

        await review(repo, ScriptedModel(script(docs=[said, looks, interrupted])), store=store)
    assert run.cancelled_caught
    model = ScriptedModel({**script(), "lead": [plan(*TEAM)], "docs": [said]})
    verdict = await review(repo, model, store=store)
    (docs,) = [agent for agent in verdict.agents if agent.agent == "docs"]
    assert (docs.status, docs.turns) == ("ok", 4)
