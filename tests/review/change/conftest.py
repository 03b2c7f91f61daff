"""Real repositories to review."""

import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from diffchecks.jobs import ChangedFile
from orchestrator.code_review.change import history
from orchestrator.code_review.change.types import Change
from tests.review import first_commits
from tests.review.review_kit import SHORT_LIVED, empty_repository

GIT_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
    "GIT_AUTHOR_DATE": "2024-05-06T07:08:09Z",
    "GIT_COMMITTER_DATE": "2024-05-06T07:08:09Z",
}


def old_blob(file: ChangedFile) -> str:
    assert file.old_blob is not None
    return file.old_blob


def new_blob(file: ChangedFile) -> str:
    assert file.new_blob is not None
    return file.new_blob


async def diff_text(change: Change, path: str | None = None) -> str:
    """The change as the tool shows it."""
    return "\n".join(line for part in await history.diff(change, path) for line in part.lines)


class Repo:
    """A git checkout for a test to fill."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def git(self, *arguments: str, stdin: bytes = b"", check: bool = True) -> bytes:
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *SHORT_LIVED, *arguments],
            cwd=self.root,
            env=GIT_ENV,
            input=stdin,
            capture_output=True,
            check=False,
        )
        assert not (check and done.returncode), done.stderr.decode("utf-8", "replace")
        return done.stdout

    def write(self, path: str | bytes, data: bytes | str) -> Path:
        target = self.root / os.fsdecode(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.encode() if isinstance(data, str) else data)
        return target

    def commit(self, files: dict[str, bytes | str] | None = None) -> str:
        """Write the files and commit everything in the checkout."""
        commits = [("a commit", files or {})]
        is_first = self._is_unborn() and first_commits.can_commit(self.root, commits)
        for path, data in (files or {}).items():
            self.write(path, data)
        if is_first:
            first_commits.commit(self.root, commits, "Ann <ann@example.org>", 1_714_979_289)
        else:
            self.git("add", "--all")
            self.git("commit", "--quiet", "--allow-empty", "-m", "a commit")
        return self.oid("HEAD")

    def _is_unborn(self) -> bool:
        """Whether this is an empty repository as it was made, without settings of its own."""
        git, empty = self.root / ".git", empty_repository()
        return (
            git.is_dir()
            and sorted(os.listdir(git)) == sorted(os.listdir(empty))
            and (git / "config").read_bytes() == (empty / "config").read_bytes()
            and not any(git.glob("refs/heads/*"))
        )

    def oid(self, ref: str) -> str:
        with suppress(OSError):  # without a process where it is that of a branch
            name = (self.root / ".git/HEAD").read_text().strip().removeprefix("ref: ")
            if ref == "HEAD":
                return (self.root / ".git" / name).read_text().strip()
        return self.git("rev-parse", ref).decode().strip()

    def copy(self, target: Path) -> "Repo":
        shutil.copytree(self.root, target, symlinks=True)
        return Repo(target)

    def clone(self, target: Path, *options: str) -> "Repo":
        self.git("clone", "--quiet", *options, f"file://{self.root}", str(target))
        return Repo(target)


@pytest.fixture(scope="session")
def make_repo() -> Callable[[Path], Repo]:
    """Make an empty repository at a place."""

    def make(root: Path) -> Repo:
        root.mkdir(exist_ok=True)
        shutil.copytree(empty_repository(), root / ".git")
        return Repo(root)

    return make


@pytest.fixture
def repo(make_repo: Callable[[Path], Repo], tmp_path: Path) -> Repo:
    return make_repo(tmp_path / "repo")
