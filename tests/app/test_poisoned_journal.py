"""A journal that came with the checkout: what it says is never taken for what was done."""

import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from orchestrator.app.run_review import run_review
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.state_directory import make_scratch_dir
from orchestrator.app.runs.stored_runs import list_runs
from orchestrator.engine.journal import EffectResult, open_journal
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.ports import SystemClock
from orchestrator.errors import InputError, StoreError
from orchestrator.stores.sqlite_journal import SqliteStore
from tests.review.change.conftest import Repo
from tests.review.review_kit import change, options

pytestmark = pytest.mark.attack("an imported run whose journal was poisoned")


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


def test_rows_that_existed_before_a_new_run_are_not_its_own(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {}, {"app.py": "eval(input())\n"})
    folder = state_directory.state_dir(repo.path)
    anyio.run(leave_rows, folder / state_directory.JOURNAL)
    verdict = run_review(options(repo.path, provider="offline"), ignore_event)
    assert [finding.rule for finding in verdict.findings] == ["security.eval"]


def test_a_new_run_refuses_rows_where_its_own_must_be(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {}, {"app.py": "eval(input())\n"})
    place = state_directory.state_dir(repo.path) / state_directory.JOURNAL
    anyio.run(leave_rows, place)
    with closing(sqlite3.connect(place)) as db, db:
        db.execute("UPDATE journal SET place = place % (1 << 32) + (0x7fffffff << 32)")
        last = "SELECT (0x7ffffffe << 32) + 1, kind, key, at, body, hash FROM journal LIMIT 1"
        db.execute(f"INSERT INTO journal {last}")  # so that the next run has the last number
    with pytest.raises(StoreError, match="has rows of a run that has not started"):
        run_review(options(repo.path, provider="offline"), ignore_event)


@pytest.mark.parametrize("kind", ["plain", "compressed", "split"])
def test_a_journal_from_a_clone_is_refused(tmp_path: Path, kind: str) -> None:
    repo = change(tmp_path / "repo", {".diffcourt/a.md": "a\n"}, {"app.py": "eval(input())\n"})
    origin = Repo(repo.path)
    anyio.run(leave_rows, state_directory.state_dir(origin.root) / state_directory.JOURNAL)
    origin.git("add", "--force", ".diffcourt/state/journal.db")
    origin.git("commit", "-q", "-m", "runs")
    clone = origin.clone(tmp_path / "clone")
    if kind == "split":
        clone.git("update-index", "--split-index")
    elif kind == "compressed":
        clone.git("update-index", "--index-version", "4")
    fix = r"git rm -r --cached \.diffcourt/state"
    with pytest.raises(InputError, match=fix):
        run_review(options(clone.root, provider="offline"), ignore_event)
    with pytest.raises(InputError, match=fix):
        list_runs(clone.root)
    if kind != "split":  # git may keep the path in the shared part
        clone.git("rm", "-r", "-q", ".diffcourt/state")
        assert not list_runs(clone.root)


def test_a_link_in_place_of_the_runs_directory_is_named_in_one_line(tmp_path):
    (tmp_path / "runs").symlink_to(tmp_path)
    with pytest.raises(StoreError, match="remove any link in its path") as caught:
        make_scratch_dir(tmp_path, "some-run")
    assert "\n" not in str(caught.value)
