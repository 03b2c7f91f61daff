"""An estimate of a work tree or a patch has git write: confined, and only in our own directory."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.app.cost_estimate import estimate_cost
from orchestrator.sandbox import bubblewrap, scratch_directory
from orchestrator.sandbox.level_and_launchers import SANDBOX
from tests.review.review_kit import Repo, change, options

FIND = bubblewrap.find_bwrap  # before the suite runs without
pytestmark = pytest.mark.skipif(FIND() is None, reason="bubblewrap is not installed")


@pytest.fixture(autouse=True)
def namespaces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Bubblewrap, without which the rest of the suite runs."""
    SANDBOX.close()
    monkeypatch.setattr(bubblewrap, "find_bwrap", FIND)
    SANDBOX.use("bubblewrap")
    yield
    SANDBOX.use("auto")
    SANDBOX.close()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = change(tmp_path / "repo", {"a.py": "A = 1\n"}, {"a.py": "A = 2\n"})
    made.write({"a.py": "A = 3\n", "new.py": "B = 1\n"})
    return made


def everything(repo: Repo) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in repo.path.rglob("*") if p.is_file()}


@pytest.mark.parametrize("what", ["worktree", "diff"])
def test_an_estimate_is_made_in_namespaces_and_leaves_nothing(repo: Repo, what: str) -> None:
    diff = subprocess.run(
        ["git", "-C", str(repo.path), "diff", "HEAD~1"], capture_output=True, check=True
    ).stdout
    asked = {"worktree": True} if what == "worktree" else {"diff": diff}
    before = everything(repo)
    kept = set(scratch_directory.work_directory().iterdir())  # of other tests in this process
    estimate = estimate_cost(options(repo.path, provider="anthropic", **asked))
    assert estimate.shares
    assert SANDBOX.level == "bubblewrap"
    assert everything(repo) == before
    assert set(scratch_directory.work_directory().iterdir()) == kept
