"""An attempt whose reply was lost may have been billed: it is booked at its worst case."""

import json

import pytest

from orchestrator.engine.journal import open_journal
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.types import Request, Usage
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.model_server.server_script import Refuse
from tests.providers.provider_kit import (
    PROVIDERS,
    Search,
    open_memory_run,
    open_session,
    run_test_agent,
)
from tests.scripted_model import text_reply
from tests.server_replies import cut, garble

pytestmark = pytest.mark.either_loop

USED = Usage(1000, 100)
DONE = text_reply(json.dumps({"summary": "", "score": 1, "places": []}), usage=USED)
LOST = cut(20, DONE)


@pytest.mark.parametrize(
    ("name", "lines", "lost", "status"),
    [
        ("anthropic", [LOST, LOST, DONE], 2, "ok"),
        ("openai", [LOST, Refuse(429), DONE], 1, "ok"),
        ("openai-compatible", [Refuse(500), Refuse(503), DONE], 0, "ok"),
        ("anthropic", [LOST, LOST, LOST], 3, "failed"),
        ("openai", [LOST, Refuse(422)], 1, "failed"),
        ("anthropic", [LOST, garble(7, DONE)], 2, "failed"),
    ],
)
async def test_a_lost_attempt_is_booked_at_its_worst_case(monkeypatch, name, lines, lost, status):
    store = MemoryStore(SystemClock())
    await store.create("run1", 0.0, {})
    async with open_session(name, lines) as used:
        requests: list[Request] = []
        worst_of = used.model.worst_case

        def worst_case(request: Request) -> Usage:
            requests.append(request)
            return worst_of(request)

        monkeypatch.setattr(used.model, "worst_case", worst_case)
        async with open_journal("run1", store, SystemClock(), holder="a test") as journal:
            result = await run_test_agent(used, journal, Search())
            used.server.finish()
        worst = worst_of(requests[0])
    assert result.status == status
    usual = USED.tokens if status == "ok" else 0
    assert journal.spent("qa").tokens == lost * worst.tokens + usual
    assert journal.spent("qa").turns == 1
    unanswered = lost - (status == "failed" and not isinstance(lines[-1], Refuse))
    assert journal.unseen().usd == pytest.approx(unanswered * worst.usd)
    async with open_journal("run1", store, SystemClock(), holder="a test") as again:
        assert again.spent() == journal.spent()
        assert again.unseen() == journal.unseen()


@pytest.mark.parametrize("name", PROVIDERS[:2])
async def test_no_attempt_follows_a_lost_one_that_leaves_no_budget(name):
    async with open_session(name, [LOST, DONE, DONE]) as used:
        async with open_memory_run() as journal:
            await run_test_agent(used, journal, Search(), usd=1)
            whole = journal.unseen().usd
        async with open_memory_run() as journal:
            used.server._script = {"qa": [LOST, DONE]}
            result = await run_test_agent(used, journal, Search(), usd=1.5 * whole)
            assert len(used.server.requests) == 3
            assert "does not cover another attempt" in result.detail
            assert result.status == "failed"
            assert journal.spent().usd == pytest.approx(whole)
