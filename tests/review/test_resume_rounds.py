"""A review of several rounds is gone on with where it stood, and takes the same way again."""

from pathlib import Path

import pytest

from orchestrator.engine.ports import SystemClock
from orchestrator.errors import ModelError
from orchestrator.stores.memory import MemoryStore
from orchestrator.testing.scripted_model import ScriptedModel
from tests.review.review_kit import change, review
from tests.review.team_kit import TEAM, plan, report, script

pytestmark = pytest.mark.anyio


async def test_what_a_later_round_recorded_does_not_change_an_earlier_decision(
    tmp_path: Path,
) -> None:
    repo = change(tmp_path, {}, {"app.py": '"""An app."""\n\nNAME = "app"\n'})
    store = MemoryStore(SystemClock())
    await store.create("run", 1.0, {})
    failing = script(lead=[plan(*TEAM), plan("docs")], docs=[ModelError("once"), report()])
    first = await review(repo, ScriptedModel(failing), store=store)
    again = await review(repo, ScriptedModel({}), store=store)
    assert [iteration.number for iteration in again.iterations] == [1, 2]
    assert again.digest == first.digest
