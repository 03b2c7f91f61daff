"""Taking a run's writes back from the command line."""

import json
from pathlib import Path

import anyio
import pytest

from orchestrator.app.runs.rollback import make_rollback
from orchestrator.cli.main import main
from orchestrator.stores.sqlite_journal import SqliteStore
from tests.review.review_kit import Repo, change, options

RUN = "20260101-000000-feedface"
FIRST, SECOND = "1/act/a/turn1/tool1/write", "1/act/a/turn2/tool1/write"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository in which a run's writing tool has changed two files, in two calls."""
    repo = change(tmp_path / "repo", {"b.py": "B = 1\n"}, {"a.py": "A = 1\n"})
    folder = repo.path / ".diffcourt/state"
    folder.mkdir(parents=True)

    async def begin() -> None:
        store = SqliteStore(folder / "journal.db")
        await store.create(RUN, 1.0, {"options": options(repo.path).as_meta()})
        store.close()
        files = make_rollback(repo.path, folder, RUN)
        for call, name in ((FIRST, "a.py"), (SECOND, "b.py")):
            await files.begin(call)
            (repo.path / name).write_text("changed\n")
            await files.commit(call)

    anyio.run(begin)
    return repo


def texts(repo: Repo) -> tuple[str, str]:
    return (repo.path / "a.py").read_text(), (repo.path / "b.py").read_text()


def test_one_call_is_taken_back_and_the_audit_says_by_whom(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rollback", RUN, SECOND, "--repo", str(repo.path)]) == 0
    assert "b.py" in capsys.readouterr().out
    assert texts(repo) == ("changed\n", "B = 1\n")
    assert main(["audit", "show", RUN, "--repo", str(repo.path), "--json"]) == 0
    assert "rollback/1/" in json.dumps(json.loads(capsys.readouterr().out)["entries"])


def test_all_calls_are_taken_back(repo: Repo) -> None:
    assert main(["rollback", "latest", "--repo", str(repo.path)]) == 0
    assert texts(repo) == ("A = 1\n", "B = 1\n")
    assert main(["rollback", "latest", "--repo", str(repo.path)]) == 2


def test_later_work_is_kept_unless_it_is_named(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    (repo.path / "a.py").write_text("mine\n")
    assert main(["rollback", RUN, "--repo", str(repo.path)]) == 3
    assert "a.py  (changed since the call, kept" in capsys.readouterr().out
    assert texts(repo) == ("mine\n", "B = 1\n")
    assert main(["rollback", RUN, "--force", "a.py", "--repo", str(repo.path)]) == 2
    assert "name the call" in capsys.readouterr().err
    assert main(["rollback", RUN, FIRST, "--force", "a.py", "--repo", str(repo.path)]) == 0
    assert texts(repo) == ("A = 1\n", "B = 1\n")


def test_a_call_that_is_not_there_is_one_line(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rollback", RUN, "nosuch", "--repo", str(repo.path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
