"""A run whose rows were damaged on the disk keeps neither other runs nor new reviews back."""

import sqlite3
from pathlib import Path

import pytest

from orchestrator.app.run_review import run_review
from orchestrator.app.runs.stored_runs import list_runs, show_run
from orchestrator.app.runs.verdict_recording import VERDICT
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import InputError
from tests.review.review_kit import change, options


def test_a_damaged_verdict_is_listed_and_named_and_a_new_review_runs(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {"a.py": "x = 1\n"}, {"a.py": "x = 2\n"})
    damaged = run_review(options(repo.path), ignore_event)
    with sqlite3.connect(repo.path / ".diffcourt/state/journal.db") as db:
        altered = db.execute("UPDATE journal SET body = ? WHERE key = ?", (b'{"a": \xff', VERDICT))
        assert altered.rowcount == 1
    db.close()
    repo.commit({"a.py": "x = 3\n"})
    again = run_review(options(repo.path), ignore_event)
    assert again.previous is None
    states = {run.run_id: run.state for run in list_runs(repo.path)}
    assert states == {damaged.run_id: "unreadable", again.run_id: "finished"}
    with pytest.raises(InputError, match=f"diffcourt audit verify {damaged.run_id}"):
        show_run(repo.path, damaged.run_id)
