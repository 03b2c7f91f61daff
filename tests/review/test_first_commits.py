"""The repositories of the suite's reviews are those that git itself would make."""

from collections.abc import Mapping
from pathlib import Path

from tests.review.review_kit import Repo, change

BASE: Mapping[str, str | bytes] = {
    "a.py": "x = 1\n",
    "d/e/f.py": b"\xff\0",
    "d.py": "",
    "d-e/ä ö.txt": "text\n",
    "gone": "y",
}
HEAD: Mapping[str, str | None] = {"a.py": "x = 2\n", "gone": None, "d/g": "new\n"}


def test_commits_without_git_are_those_of_git(tmp_path: Path) -> None:
    past: list[tuple[str, Mapping[str, str | bytes]]] = [
        ("Fix a bug\n\nIt was old.", {"d/old.py": "old\n"})
    ]
    quick = change(tmp_path / "quick", BASE, HEAD, past)
    slow = Repo(tmp_path / "slow")
    for message, files in (*past, ("change", {"README.md": "# A project\n", **BASE})):
        slow.commit(files, message)
    slow.commit(HEAD)
    for arguments in (
        ("log", "--format=%T %an %ae %cn %ce %B"), ("ls-files", "--stage"), ("status", "--short"),
    ):  # fmt: skip
        assert quick.git(*arguments) == slow.git(*arguments)
    assert quick.git("fsck", "--strict") == ""
    assert quick.git("diff-files") == ""  # the index knows the files
    assert quick.head == quick.git("rev-parse", "HEAD")


def test_what_git_would_leave_out_is_left_to_git(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {".gitignore": "*.log\n"}, {"a.log": "", "b.txt": ""})
    assert repo.git("ls-files").split() == [".gitignore", "README.md", "b.txt"]
