"""A checkout made to show the review something else than what is there."""

import os

import pytest

from orchestrator.code_review.change.change_construction import from_refs, from_worktree
from orchestrator.errors import InputError
from tests.review.change.conftest import Repo


@pytest.fixture
def anyio_backend():
    """One event loop: this is about what git is asked and says."""
    return "asyncio"


def twice(repo: Repo, path: bytes, contents: list[bytes]) -> str:
    """A commit whose tree has one path several times, which git itself never writes."""
    raw = b""
    for content in contents:
        oid = repo.git("hash-object", "-w", "--stdin", stdin=content).decode().strip()
        raw += b"100644 " + path + b"\0" + bytes.fromhex(oid)
    tree = repo.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw)
    commit = repo.git("commit-tree", tree.decode().strip(), "-p", "HEAD", "-m", "x")
    return commit.decode().strip()


async def test_a_tree_that_each_reader_understands_in_another_way_is_refused(repo):
    repo.commit({"a.py": "a = 1\n"})
    for contents in ([b"eval(x)\n", b"a\n"], [b"a\n", b"eval(x)\n"]):
        head = twice(repo, b"a.py", contents)
        with pytest.raises(InputError, match=r"a\.py appears twice in the tree"):
            await from_refs(repo.root, "main", head)


@pytest.mark.parametrize("path", [".diffcourt/state/journal.db", ".Diffcourt/state"])
async def test_a_change_may_not_bring_what_we_recorded(repo, path):
    repo.commit({"a.py": "a = 1\n"})
    repo.commit({path: "rows\n"})
    with pytest.raises(InputError, match="which no change may bring; git rm --cached it"):
        await from_refs(repo.root, "HEAD~1", None)
    repo.git("rm", "-q", path)
    repo.git("commit", "-q", "-m", "gone")
    assert (await from_refs(repo.root, "HEAD~1", None)).files[0].status == "deleted"


async def test_a_work_tree_that_its_configuration_puts_elsewhere_is_not_read(repo, tmp_path):
    repo.commit({"a.py": "a = 1\n"})
    home = tmp_path / "home"
    home.mkdir()
    (home / "diary.txt").write_text("private\n")
    repo.git("config", "core.worktree", str(home))
    with pytest.raises(InputError, match=r"unset core\.worktree there"):
        await from_worktree(repo.root, None, tmp_path / "scratch")


async def test_a_git_of_the_checkout_is_not_asked(repo, monkeypatch, tmp_path):
    repo.commit({"a.py": "a = 1\n"})
    fake = repo.write("bin/git", f"#!/bin/sh\ntouch {tmp_path}/canary\n")
    fake.chmod(0o755)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "git").symlink_to(fake)
    for folder in (repo.root / "bin", tmp_path / "linked"):
        monkeypatch.setenv("PATH", f"{folder}:{os.defpath}")
        for base in (None, ""):  # "" is asked for by more than one call
            with pytest.raises(InputError, match="is in the repository under review"):
                await from_refs(repo.root, base, None)
    assert not (tmp_path / "canary").exists()
