"""What a shared store knows a repository by."""

import socket
from pathlib import Path

import pytest

from orchestrator.app.runs.state_directory import repository_identity
from tests.review.review_kit import Repo


@pytest.mark.parametrize(
    ("url", "identity"),
    [
        ("https://git.example.org/team/shop.git", "git.example.org/team/shop"),
        ("https://job:token@Git.Example.org/team/shop/", "git.example.org/team/shop"),
        ("git@git.example.org:team/shop.git", "git.example.org/team/shop"),
        ("ssh://git@git.example.org:2222/team/shop", "git.example.org/team/shop"),
        ("http://localhost:3000/team/shop", "localhost:3000/team/shop"),
    ],
)
def test_a_repository_is_known_by_its_origin_and_no_password(
    tmp_path: Path, url: str, identity: str
) -> None:
    repo = Repo(tmp_path / "repo")
    repo.git("remote", "add", "fork", "https://git.example.org/me/shop")
    repo.git("remote", "add", "origin", url)
    repo.commit({"deep/a.md": "# A\n"})
    assert repository_identity(repo.path / "deep") == identity
    repo.git("worktree", "add", "-q", str(tmp_path / "more"))
    assert repository_identity(tmp_path / "more") == identity


@pytest.mark.parametrize("url", ["", "/srv/git/shop.git", "../shop", "https://[", "C:\\shop"])
def test_without_an_address_elsewhere_a_repository_is_known_by_its_place(
    tmp_path: Path, url: str
) -> None:
    repo = Repo(tmp_path)
    if url:
        repo.git("remote", "add", "origin", url)
    assert repository_identity(repo.path) == f"{socket.gethostname()}:{repo.path / '.git'}"
