"""``review --hook`` and ``--staged``: real commits, real pushes, and what pre-commit sets."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from orchestrator.app.review_inputs.git_hooks import find_pushed
from orchestrator.cli.main import main
from orchestrator.code_review.change.change_construction import EMPTY
from orchestrator.errors import InputError
from tests.review.review_kit import GIT, Repo

ROOT = Path(__file__).resolve().parents[2]
GOOD, BAD = "print(1)\n", "x = eval(input())\n"
ENTRY = f"{shlex.quote(sys.executable)} -m orchestrator review --hook --short --quiet"


class Pushed(Repo):
    """A repository with a bare remote, whose hook keeps what git tells it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "repo")
        self.git("init", "-q", "--bare", str(folder / "remote.git"))
        self.git("remote", "add", "origin", str(folder / "remote.git"))
        self.told = folder / "told"
        self.first = self.commit({"a.py": GOOD})
        self.git("push", "-q", "origin", "main")
        self.hook("pre-push", f"cat > {self.told}")

    def hook(self, name: str, command: str) -> None:
        place = self.path / ".git/hooks" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"#!/bin/sh\n{command}\n")
        place.chmod(0o755)

    def push(self, *refs: str) -> list[tuple[str, str]] | None:
        """The changes that a real push sends."""
        self.told.unlink(missing_ok=True)
        self.git("push", "-q", "--force", "--dry-run", "origin", *refs)
        return find_pushed(self.path, self.told.read_text(), {})

    def run(self, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            [*GIT, "-C", str(self.path), *words], capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def repo(tmp_path: Path) -> Pushed:
    return Pushed(tmp_path)


def test_a_push_sends_what_the_remote_does_not_have(repo: Pushed) -> None:
    second = repo.commit({"a.py": BAD})
    assert repo.push("main") == [(repo.first, second)]
    repo.git("checkout", "-q", "-b", "topic")
    third = repo.commit({"b.py": GOOD})
    assert repo.push("topic") == [(repo.first, third)]  # of a new branch, main's commit as well
    assert repo.push("main", "topic") == [(repo.first, second), (repo.first, third)]
    assert repo.push("HEAD:refs/heads/other") == [(repo.first, third)]
    # Rewritten: compared with what the remote has, by their merge base.
    repo.git("push", "-q", "--no-verify", "origin", "topic")
    repo.git("reset", "-q", "--hard", "main")
    fourth = repo.commit({"c.py": BAD})
    assert repo.push("topic") == [(third, fourth)]


def test_a_push_without_new_commits_is_no_change(repo: Pushed) -> None:
    assert repo.push("main") == []
    assert repo.push("main:refs/heads/copy") == []
    repo.git("push", "-q", "--no-verify", "origin", "main:gone")
    assert repo.push(":gone") == []
    repo.git("tag", "v1")
    assert repo.push("v1") == []
    repo.commit({"a.py": BAD})
    repo.git("push", "-q", "--no-verify", "origin", "main")
    assert repo.push(f"{repo.first}:refs/heads/main") == []  # moved back


def test_tags_of_a_push(repo: Pushed) -> None:
    second = repo.commit({"a.py": BAD})
    repo.git("tag", "-a", "-m", "two", "v2")
    assert repo.push("v2") == [(repo.first, second)]
    repo.git("tag", "v0", repo.first)
    repo.commit({"b.py": GOOD})
    assert repo.push("--tags", "main") == [(repo.first, repo.head)]
    repo.git("tag", "key", repo.git("rev-parse", "HEAD:a.py"))
    assert repo.push("key") == []  # a file


def test_a_first_push_sends_everything(repo: Pushed, tmp_path: Path) -> None:
    repo.git("init", "-q", "--bare", str(tmp_path / "empty.git"))
    repo.git("remote", "set-url", "origin", str(tmp_path / "empty.git"))
    repo.git("update-ref", "-d", "refs/remotes/origin/main")
    assert repo.push("main") == [(EMPTY, repo.first)]


def test_a_branch_that_merged_the_remote_starts_at_its_newest_commit(repo: Pushed) -> None:
    repo.git("checkout", "-q", "-b", "topic")
    repo.commit({"b.py": GOOD})
    repo.git("checkout", "-q", "main")
    newer = repo.commit({"a.py": "print(2)\n"})
    repo.git("push", "-q", "--no-verify", "origin", "main")
    repo.git("checkout", "-q", "topic")
    repo.git("merge", "-q", "--no-edit", "main")
    assert repo.push("topic") == [(newer, repo.head)]


def test_what_pre_commit_says_of_a_push(repo: Pushed) -> None:
    second = repo.commit({"a.py": BAD})
    sides = {"PRE_COMMIT_FROM_REF": repo.first, "PRE_COMMIT_TO_REF": second}
    remote = {"PRE_COMMIT_REMOTE_NAME": "origin", "PRE_COMMIT_LOCAL_BRANCH": "refs/heads/main"}
    named: Mapping[str, str]
    for named in (sides, remote, {**sides, **remote}):
        assert find_pushed(repo.path, "", {"PRE_COMMIT": "1", **named}) == [(repo.first, second)]
    assert find_pushed(repo.path, "", {"PRE_COMMIT": "1"}) is None
    assert find_pushed(repo.path, "", {"GIT_INDEX_FILE": ".git/index"}) is None
    # A push that a hook of a commit makes inherits its variables.
    lines = f"refs/heads/main {second} refs/heads/main {repo.first}\n"
    inherited = {"PRE_COMMIT": "1", "GIT_INDEX_FILE": ".git/index"}
    assert find_pushed(repo.path, lines, inherited) == [(repo.first, second)]
    # A manager of hooks that passes nothing on.
    assert find_pushed(repo.path, None, {}) == [(repo.first, second)]


@pytest.mark.parametrize(
    "lines", ["origin main\n", f"refs/heads/a {'1' * 40} refs/heads/a {'0' * 40}\n"]
)
def test_what_git_does_not_say_is_an_error_and_not_an_empty_push(lines: str, repo: Pushed) -> None:
    with pytest.raises(InputError, match="--hook: "):
        find_pushed(repo.path, lines, {})


def test_a_push_of_a_committed_defect_is_stopped_and_named(repo: Pushed) -> None:
    repo.hook("pre-push", f"exec {ENTRY}")
    repo.git("checkout", "-q", "-b", "clean")
    repo.commit({"b.py": "print(2)\n"})
    repo.git("checkout", "-q", "-b", "topic", "main")
    repo.commit({"a.py": BAD})
    repo.write({"a.py": GOOD})  # the work tree says nothing of it
    code, said = repo.run("push", "origin", "clean", "topic")
    assert (code, "a.py:1: medium: " in said, said.count("exit 0")) == (1, True, 1)
    assert repo.run("push", "origin", "main:main")[0] == 0


def test_a_commit_is_reviewed_as_it_is_staged(repo: Pushed) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "diffcourt " + ENTRY.partition(" orchestrator ")[2]
    repo.hook("pre-commit", f"exec {ENTRY}")
    repo.write({"a.py": BAD, "new.py": BAD})
    repo.git("add", "new.py")
    repo.write({"new.py": GOOD})
    code, said = repo.run("commit", "-m", "staged")
    assert (code, "new.py:1: " in said, "a.py:" in said) == (1, True, False)
    repo.git("rm", "-q", "-f", "new.py")
    code, said = repo.run("commit", "-a", "-m", "all")  # git writes another index for it
    assert (code, "a.py:1: " in said) == (1, True)
    assert repo.head == repo.first


def test_staged_is_the_index_alone(repo: Pushed, capsys: pytest.CaptureFixture[str]) -> None:
    repo.write({"a.py": BAD, "untracked.py": BAD, "later.py": BAD})
    repo.git("add", "-N", "later.py")
    words = ("review", "--staged", "--short", "--quiet", "--repo", str(repo.path))
    assert main([*words, "--json", str(repo.told)]) == 0
    assert "no findings" in capsys.readouterr().out
    repo.git("add", "a.py")
    assert main(words) == 1
    assert "a.py:1: " in capsys.readouterr().out
    main(["runs", "--repo", str(repo.path)])
    assert "staged" in capsys.readouterr().out


@pytest.mark.parametrize("more", [["HEAD~1"], ["--base", "HEAD"], ["--worktree"], ["a..b"]])
def test_the_hook_finds_out_what_to_compare(
    more: list[str], repo: Pushed, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["review", "--hook", *more, "--repo", str(repo.path)])
    except SystemExit as stop:
        code = int(str(stop.code))
    assert (code, "--hook" in capsys.readouterr().err) == (2, True)
