"""A checkout made to show the review something else than what is there."""

import os
import shutil

import pytest

from orchestrator.app.runs.state_directory import repo_root, state_dir
from orchestrator.code_review.change.change_construction import from_refs, from_worktree
from orchestrator.code_review.change.git.commands import Git
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


@pytest.mark.attack("a directory that is a git directory, whose work tree is the home")
async def test_a_bare_layout_with_a_work_tree_elsewhere_is_not_read(make_repo, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "notes.py").write_text("PRIVATE = 1\n")
    source = make_repo(tmp_path / "source")
    source.commit({"notes.py": "x = 1\n"})
    source.commit({"notes.py": "x = 2\n"})
    evil = tmp_path / "evil"
    (source.root / ".git").rename(evil)
    for key, value in {"core.bare": "false", "core.worktree": str(home)}.items():
        Repo(evil).git("config", key, value)
    with pytest.raises(InputError, match="not in a work tree"):
        await from_worktree(evil, None, tmp_path / "scratch")
    change = await from_refs(evil, "HEAD~1", None)  # two commits are compared, and nothing else
    assert [file.path for file in change.files] == ["notes.py"]
    assert not any("work tree" in note for note in change.notes)
    with pytest.raises(InputError, match="is not a git repository"):
        await from_refs(evil / "refs", "HEAD~1", None)


@pytest.mark.attack("core.worktree as an oracle on the files of the home")
async def test_a_work_tree_elsewhere_is_not_compared_for_a_note(repo, tmp_path):
    repo.commit({"a.py": "a = 1\n"})
    home = tmp_path / "home"
    home.mkdir()
    (home / "a.py").write_text("private\n")
    repo.git("config", "core.worktree", str(home))
    assert not any("work tree" in n for n in (await from_refs(repo.root, None, None)).notes)


@pytest.mark.attack("a bare repository among the files of a change")
@pytest.mark.parametrize("below", ["", "refs/heads"])
async def test_a_bare_layout_inside_a_work_tree_is_never_followed(repo, make_repo, tmp_path, below):
    repo.commit({"a.py": "a = 1\n", "lib/b.py": "b = 1\n"})
    planted = make_repo(tmp_path / "planted")
    planted.commit({"theirs.py": "x = 1\n"})
    shutil.copytree(planted.root / ".git", repo.root / "lib", dirs_exist_ok=True)
    repo.write("lib/.diffcourt/state/journal.db", "forged\n")
    place = repo.root / "lib" / below
    git = await Git.open(place)
    assert git.git_dir == repo.root / ".git"
    assert repo_root(place) == repo.root
    assert state_dir(place) == repo.root / ".diffcourt/state"
    repo.write("a.py", "a = 2\n")
    assert "a.py" in {f.path for f in (await from_worktree(place, None, tmp_path / "s")).files}


@pytest.mark.attack("a .git that names the repository of another directory")
@pytest.mark.parametrize(
    "how", ["file", "link", "worktree", "commondir", "own commondir", "bare", "other tree"]
)
async def test_the_repository_of_another_directory_is_not_opened(repo, make_repo, tmp_path, how):
    private = make_repo(tmp_path / "private")
    private.commit({"secret.py": "s = 1\n"})
    theirs = private.root / ".git"
    place = tmp_path / "archive"
    place.mkdir()
    (place / "secret.py").write_text("")
    if how == "link":
        (place / ".git").symlink_to(theirs)
    elif how == "worktree":
        private.git("worktree", "add", "-q", str(tmp_path / "linked"))
        (place / ".git").write_text(f"gitdir: {theirs}/worktrees/linked\n")
    elif how == "file":
        (place / ".git").write_text("gitdir: ../private/.git\n")
    elif how in {"bare", "other tree"}:
        private.git("clone", "-q", "--bare", ".", str(tmp_path / "private.git"))
        if how == "other tree":
            settings = Repo(tmp_path / "private.git")
            settings.git("config", "core.bare", "false")
            settings.git("config", "core.worktree", str(private.root))
        (place / ".git").write_text(f"gitdir: {tmp_path}/private.git\n")
    else:
        below = ".git" if how == "own commondir" else "meta/worktrees/x"
        git_dir = place / below
        git_dir.mkdir(parents=True)
        (git_dir / "HEAD").write_text("ref: refs/heads/main\n")
        (git_dir / "commondir").write_text(f"{theirs}\n")
        (git_dir / "gitdir").write_text(f"{place}/.git\n")
        if below != ".git":
            (place / ".git").write_text(f"gitdir: {below}\n")
    with pytest.raises(InputError, match="is the repository of another directory"):
        await from_worktree(place, None, tmp_path / "scratch")
    with pytest.raises(InputError, match="is the repository of another directory"):
        await from_refs(place, None, "HEAD")


async def test_work_trees_that_git_itself_makes_are_reviewed(repo, make_repo, tmp_path):
    repo.commit({"a.py": "a = 1\n"})
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    repo.git("clone", "-q", "--bare", ".", str(tmp_path / "hub/.bare"))
    (tmp_path / "hub/.git").write_text("gitdir: ./.bare\n")
    Repo(tmp_path / "hub").git("worktree", "add", "-q", "feature")
    other = tmp_path / "separate"
    repo.git("clone", "-q", f"--separate-git-dir={tmp_path}/elsewhere", ".", str(other))
    outer = make_repo(tmp_path / "outer")
    outer.git("submodule", "add", "-q", str(repo.root), "lib")
    outer.commit()
    for number, place in enumerate(
        (tmp_path / "linked", tmp_path / "hub/feature", other, outer.root / "lib")
    ):
        (place / "a.py").write_text("a = 2\n")
        change = await from_worktree(place, None, tmp_path / f"s{number}")
        assert [file.path for file in change.files] == ["a.py"]
    assert (await from_refs(tmp_path / "hub", None, "HEAD")).files
    with pytest.raises(InputError, match="not in a work tree"):
        await from_worktree(tmp_path / "hub", None, tmp_path / "bare")


@pytest.mark.attack("GIT_DIR and GIT_WORK_TREE of the environment")
async def test_variables_of_git_name_no_other_repository(repo, make_repo, tmp_path, monkeypatch):
    repo.commit({"a.py": "a = 1\n"})
    other = make_repo(tmp_path / "other")
    other.commit({"b.py": "b = 1\n"})
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.root))
    monkeypatch.setenv("GIT_COMMON_DIR", str(other.root / ".git"))
    repo.write("a.py", "a = 2\n")
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert [file.path for file in change.files] == ["a.py"]


async def test_a_git_of_the_checkout_is_not_asked(repo, monkeypatch, tmp_path):
    repo.commit({"a.py": "a = 1\n"})
    fake = repo.write("bin/git", f"#!/bin/sh\ntouch {tmp_path}/canary\n")
    fake.chmod(0o755)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "git").symlink_to(fake)
    for folder in (repo.root / "bin", tmp_path / "linked"):
        monkeypatch.setenv("PATH", str(folder))
        for base in (None, ""):  # "" is asked for by more than one call
            with pytest.raises(InputError, match="is in the repository under review"):
                await from_refs(repo.root, base, None)
        monkeypatch.setenv("PATH", f"{folder}:{os.defpath}")
        assert await from_refs(repo.root, "HEAD", None)
    assert not (tmp_path / "canary").exists()
