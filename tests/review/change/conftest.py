"""Real repositories to review."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.code_review.change import history
from orchestrator.code_review.change.types import Change, ChangedFile
from tests.review.review_kit import SHORT_LIVED

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
        for path, data in (files or {}).items():
            self.write(path, data)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "a commit")
        return self.oid("HEAD")

    def oid(self, ref: str) -> str:
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
        repo = Repo(root)
        repo.git("init", "--quiet", "--initial-branch=main", "--template=")
        return repo

    return make


@pytest.fixture
def repo(make_repo: Callable[[Path], Repo], tmp_path: Path) -> Repo:
    return make_repo(tmp_path / "repo")
