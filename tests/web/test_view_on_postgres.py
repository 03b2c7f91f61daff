"""The pages over runs that are on a PostgreSQL server."""

from pathlib import Path

import pytest

from orchestrator.app.human_decisions.run_decisions import record_feedback
from orchestrator.app.run_review import run_review
from orchestrator.app.runs.run_index import CachedRunIndex
from orchestrator.app.runs.state_directory import state_dir
from orchestrator.engine.observer_events import ignore_event
from orchestrator.web.access import Access
from orchestrator.web.runs import make_runs_part
from orchestrator.web.site import Site, running
from tests.review.review_kit import change, options
from tests.stores.postgres_server import Server
from tests.web.view_kit import SHELL, Person


def test_runs_on_a_server_are_listed_shown_and_decided_about_and_each_change_is_noticed(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFCOURT_STORE", postgres.fresh("view"))
    repo = change(tmp_path / "shop", {}, {"app.py": SHELL}).path
    index, seen = CachedRunIndex([repo]), []

    def has_changed() -> bool:
        seen.append(index.mark())
        return seen[-1] not in seen[:-1]

    assert has_changed()
    assert not has_changed()
    run_id = run_review(options(repo, provider="offline"), ignore_event).run_id
    assert has_changed()
    with running(Site(Access("dana"), [make_runs_part([repo])])) as site:
        person = Person(site)
        assert f"/runs/{run_id}" in person.get("/").text
        assert "Shell command built" in person.get(f"/runs/{run_id}/findings").text
        assert "hash chain of" in person.get(f"/runs/{run_id}/journal").text
        done = person.post(f"/runs/{run_id}/override", verdict="merge", reason="Known.")
        assert "Overridden to merge" in done.text
        assert has_changed()
        # Somebody else, in another process: the page does not keep what it read before.
        record_feedback(repo, run_id, "F1", "useful")
        assert has_changed()
        assert not has_changed()
        assert "Useful, says" in person.get(f"/runs/{run_id}/findings").text
        person.http.close()
    assert not (state_dir(repo) / "journal.db").exists()
