"""A whole review whose journal is on a PostgreSQL server: killed, listed, resumed, carried over."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.app.run_review import resume_review, run_review
from orchestrator.app.runs import run_archive, state_directory, stored_runs
from orchestrator.app.statistics.all_runs import collect
from orchestrator.cli.main import main
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import RunNotFound
from orchestrator.stores.sql_store import RunStore
from tests.review.review_kit import Repo, change, options
from tests.stores.postgres_server import Server
from tests.torture.session import CutAt, CutStore, Desk, template

SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return change(tmp_path / "repo", {}, {"app.py": SHELL})


def test_runs_are_kept_on_the_server_and_not_in_the_repository(
    repo: Repo, postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFCOURT_STORE", postgres.fresh("review"))
    verdict = run_review(options(repo.path, provider="offline"), ignore_event)
    assert verdict.verdict == "needs_changes"
    assert not (state_directory.state_dir(repo.path) / "journal.db").exists()
    assert [run.run_id for run in stored_runs.list_runs(repo.path)] == [verdict.run_id]
    assert resume_review(repo.path, "latest", ignore_event) == verdict
    # The same run, from the server into the repository's own journal.
    run_archive.export_run(repo.path, "latest", tmp_path / "run")
    monkeypatch.delenv("DIFFCOURT_STORE")
    run_archive.import_run(repo.path, tmp_path / "run")
    assert resume_review(repo.path, "latest", ignore_event) == verdict


def test_two_repositories_in_one_schema_do_not_see_or_prune_each_others_runs(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFCOURT_STORE", postgres.fresh("shared"))
    shop, blog = (change(tmp_path / name, {}, {"a.md": "# A\n"}) for name in ("shop", "blog"))
    shop.git("remote", "add", "origin", "https://job:token@git.example.org/team/shop.git")
    blog.git("remote", "add", "origin", "git@git.example.org:team/blog.git")
    first, second = (run_review(options(each.path), ignore_event) for each in (shop, blog))
    assert [run.run_id for run in stored_runs.list_runs(shop.path)] == [first.run_id]
    assert [run.run_id for run in collect([shop.path]).runs] == [first.run_id]
    everything = collect([shop.path], all_repositories=True).runs
    assert [run.run_id for run in everything] == [first.run_id, second.run_id]
    assert stored_runs.show_run(shop.path, "latest").info.run_id == first.run_id
    assert resume_review(shop.path, "latest", ignore_event) == first
    with pytest.raises(RunNotFound):
        stored_runs.show_run(shop.path, second.run_id)
    assert stored_runs.prune_runs(shop.path, 1, None) == []
    assert len(stored_runs.prune_runs(shop.path, None, 0)) == 1
    assert [run.run_id for run in stored_runs.list_runs(blog.path)] == [second.run_id]
    # A fresh clone by another address is the same repository.
    clone = Repo(tmp_path / "clone")
    clone.git("remote", "add", "origin", "https://git.example.org/team/blog")
    assert [run.run_id for run in stored_runs.list_runs(clone.path)] == [second.run_id]


@dataclass(frozen=True)
class On:
    """Says, in the process of a session, where its store is."""

    address: str

    def __call__(self) -> None:
        os.environ["DIFFCOURT_STORE"] = self.address


def test_a_review_killed_on_the_server_is_resumed_to_the_same_digest(
    postgres: Server, tmp_path: Path
) -> None:
    source, on = template(tmp_path / "source"), On(postgres.fresh("killed"))
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    desk = Desk(source, tmp_path / "there")
    assert desk.sit(CutAt(40), on).killed
    # The lease of the dead process is taken over at once: it was of this machine.
    resumed = desk.sit(prepare=on)
    assert not desk.journal.exists()
    assert resumed.digest
    assert resumed.digest == Desk(source, tmp_path / "here").sit().digest


class Unplugged(CutStore):
    """Loses its connection before a write: the server ends it."""

    def strike(self) -> None:
        import psycopg

        with psycopg.connect(os.environ["DIFFCOURT_STORE"]) as db:
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )


@dataclass(frozen=True)
class UnpluggedAt:
    """Makes one, in the process of a session."""

    at: int

    def __call__(self, store: RunStore) -> Unplugged:
        return Unplugged(store, self.at)


def test_a_review_that_loses_the_server_says_so_in_a_line_and_goes_on_later(
    postgres: Server, tmp_path: Path
) -> None:
    on = On(postgres.fresh("unplugged"))
    desk = Desk(template(tmp_path / "source"), tmp_path / "desk")
    lost = desk.sit(UnpluggedAt(60), on)
    assert re.fullmatch("PostgreSQL at .* cannot be used .*; its contents are kept. .*", lost.line)
    assert desk.sit(prepare=on).digest


@pytest.mark.parametrize(("store", "code", "says"), [
    ("mysql://here", 2, "DIFFCOURT_STORE must start with postgresql://"),
    ("postgresql://me:hunter2@127.0.0.1:1/db", 3, "PostgreSQL at 127.0.0.1 cannot be used"),
])  # fmt: skip
def test_a_store_that_cannot_be_used_is_one_line(
    repo: Repo,
    store: str,
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DIFFCOURT_STORE", store)
    monkeypatch.chdir(repo.path)
    assert main(["review", "--quiet"]) == code
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert "hunter2" not in said
