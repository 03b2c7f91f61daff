"""A journal that came with the checkout: what it says is never taken for what was done."""

import sqlite3
from pathlib import Path

import anyio
import pytest

from orchestrator.app import state_directory
from orchestrator.app.run_review import run_review
from orchestrator.app.state_directory import make_scratch_dir
from orchestrator.engine.journal import EffectResult, open_journal
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.ports import SystemClock
from orchestrator.errors import StoreError
from orchestrator.stores.sqlite_journal import SqliteStore
from tests.review.review_kit import change, options


async def leave_rows(place: Path) -> None:
    """Rows of the run that will be the first one, with an intake of somebody else's choice."""

    async def perform() -> EffectResult:
        return EffectResult({"base": "innocent"})

    store, clock = SqliteStore(place), SystemClock()
    await store.create("elsewhere", clock.now(), {})
    async with open_journal("elsewhere", store, clock, holder="x") as journal:
        await journal.effect("intake", {}, perform)
    store.close()
    db = sqlite3.connect(place)
    db.execute("DELETE FROM runs")
    db.commit()
    db.close()


def test_a_new_run_believes_no_rows_that_stood_there_before_it(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {}, {"app.py": "eval(input())\n"})
    folder = state_directory.state_dir(repo.path)
    anyio.run(leave_rows, folder / state_directory.JOURNAL)
    with pytest.raises(StoreError, match="has rows of a run that has not started"):
        run_review(options(repo.path, provider="offline"), ignore_event)


def test_a_link_in_place_of_the_runs_directory_is_named_in_one_line(tmp_path):
    (tmp_path / "runs").symlink_to(tmp_path)
    with pytest.raises(StoreError, match="remove any link in its path") as caught:
        make_scratch_dir(tmp_path, "some-run")
    assert "\n" not in str(caught.value)
