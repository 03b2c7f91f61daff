"""The work tree as one side of a change, with the repository left as it was."""

import errno
import hashlib
import os
import shutil
from itertools import product
from pathlib import Path

import pytest

from diffchecks.check_io import decode_text
from orchestrator.code_review.change import history
from orchestrator.code_review.change.change_construction import from_refs, from_worktree
from orchestrator.code_review.change.contents import Contents
from orchestrator.code_review.change.file_export import write_files
from orchestrator.errors import InputError, StoreError
from tests.review.change.conftest import new_blob


def photograph(root: Path) -> dict[str, str]:
    """Every file of a git directory and a digest of what it holds."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


def known(change):
    return {file.path: file for file in change.files}


@pytest.fixture
def full(repo):
    repo.write("run.sh", "#!/bin/sh\n")
    repo.commit(
        {
            ".gitignore": "*.log\nbuild/\n",
            "staged.py": "a = 1\n",
            "unstaged.py": "a = 1\n",
            "both.py": "a = 1\n",
            "deleted.py": "a = 1\n",
            "unlinked.py": "a = 1\n",
            "touched.py": "a = 1\n",
            "dir/inner.py": "a = 1\n",
            "becomes_dir": "x\n",
            "kept.py": "k\n",
        }
    )
    repo.write("staged.py", "a = 2\n")
    repo.write("both.py", "a = 2\n")
    repo.git("add", "staged.py", "both.py")
    repo.write("both.py", "a = 3\n")
    repo.write("unstaged.py", "a = 2\n")
    repo.git("rm", "-q", "deleted.py")
    (repo.root / "unlinked.py").unlink()
    os.utime(repo.root / "touched.py", (1_000_000_000, 1_000_000_000))
    (repo.root / "run.sh").chmod(0o755)
    (repo.root / "dir" / "inner.py").unlink()
    (repo.root / "dir").rmdir()
    (repo.root / "dir").symlink_to("elsewhere")
    (repo.root / "becomes_dir").unlink()
    repo.write("becomes_dir/file.py", "x\n")
    repo.write("new file.py", "n\n")
    repo.write("note.log", "ignored\n")
    repo.write("build/out.py", "ignored\n")
    repo.write(".diffcourt/state/journal.db", "ours\n")
    repo.write(".diffcourt/config.yaml", "theirs: 1\n")
    return repo


async def test_every_sort_of_change_and_nothing_touched(full, tmp_path):
    before = photograph(full.root / ".git")
    change = await from_worktree(full.root, None, tmp_path / "scratch")
    assert photograph(full.root / ".git") == before
    files = known(change)
    assert {path: file.status for path, file in files.items()} == {
        ".diffcourt/config.yaml": "added",
        "becomes_dir/file.py": "renamed",
        "both.py": "modified",
        "deleted.py": "deleted",
        "dir": "added",
        "dir/inner.py": "deleted",
        "new file.py": "added",
        "run.sh": "mode",
        "staged.py": "modified",
        "unlinked.py": "deleted",
        "unstaged.py": "modified",
    }
    assert files["dir"].kind == "symlink"
    assert (change.head, change.base) == ("worktree", full.oid("HEAD"))
    assert change.policy_commit == full.oid("HEAD")
    assert change.notes == ("run.sh is executable now",)
    async with Contents(change) as contents:
        assert decode_text(await contents.read(files["both.py"].new_blob)) == "a = 3\n"
        listed = await contents.paths("head")
        assert listed["kept.py"] == (await contents.paths("base"))["kept.py"]


async def test_it_is_the_tree_that_git_add_would_make(full, tmp_path):
    change = await from_worktree(full.root, None, tmp_path / "scratch")
    full.git("add", "--all", "--", ".", ":!.diffcourt/state")
    assert change.head_tree == full.git("write-tree").decode().strip()


async def test_resumed_in_another_process_it_reads_the_same(full, tmp_path):
    one = await from_worktree(full.root, None, tmp_path / "one")
    two = await from_worktree(full.root, None, tmp_path / "two")
    assert one.head_tree == two.head_tree
    assert one.files == two.files
    again = await from_worktree(full.root, None, tmp_path / "one")
    assert again == one


async def test_only_what_differs_from_head_is_written(repo, tmp_path):
    repo.commit({f"part{number}/sub/file.py": f"x = {number}\n" for number in range(20)})
    repo.write("part3/sub/file.py", "x = 'new'\n")
    (repo.root / "part4/sub/file.py").unlink()
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert {path: file.status for path, file in known(change).items()} == {
        "part3/sub/file.py": "modified",
        "part4/sub/file.py": "deleted",
    }
    written = list((tmp_path / "scratch").glob("**/objects/??/*"))
    assert len(written) == 4  # the blob, and the trees above it


async def test_a_clean_work_tree_is_an_empty_change(repo, tmp_path):
    repo.commit({"a.py": "a\n"})
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert change.files == ()
    assert change.notes[0].endswith("and worktree")


async def test_a_named_base_includes_the_commits_since(repo, tmp_path):
    repo.commit({"a.py": "a\n"})
    repo.git("checkout", "-q", "-b", "topic")
    repo.commit({"b.py": "b\n"})
    repo.write("c.py", "c\n")
    change = await from_worktree(repo.root, "main", tmp_path / "scratch")
    assert set(known(change)) == {"b.py", "c.py"}
    assert change.policy_commit == repo.oid("main")


async def test_before_the_first_commit(repo, tmp_path):
    repo.write("a.py", "a\n")
    repo.write("b.py", "b\n")
    repo.git("add", "a.py")
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert set(known(change)) == {"a.py", "b.py"}
    assert change.policy_commit is None
    assert "no commit yet" in change.notes[0]


HIDING = """
[core]
	autocrlf = true
	safecrlf = true
	eol = crlf
	symlinks = false
	bigFileThreshold = 1
	ignoreStat = true
[filter "hide"]
	clean = cat /dev/null
	process = false
	required = true
"""
HIDDEN = b'v = "$Id: "; import os; os.system(input()); w = "$"\r\n\xff\xfea\0'


@pytest.mark.attack("attributes and settings that show git other bytes than those on disk")
@pytest.mark.parametrize(
    ("place", "attributes"),
    [
        *(("tracked", attributes) for attributes in (
            "ident", "text eol=crlf", "text eol=lf", "text=auto", "crlf=input", "export-subst",
            "working-tree-encoding=UTF-16", "working-tree-encoding=SHIFT-JIS", "filter=hide", "binary",
        )),
        *product(("info", "config", "global"), ("ident", "text eol=crlf", "filter=hide")),
        ("info", "working-tree-encoding=UTF-16"),
    ],
)  # fmt: skip
async def test_the_bytes_on_disk_are_reviewed_whatever_attributes_say(
    repo, tmp_path, monkeypatch, place, attributes
):
    data = HIDDEN if "encoding" not in attributes else HIDDEN.decode("latin-1").encode("utf-16")
    plain = b'v = "$Id$"\n\xff\xfea\0'
    repo.commit({"a.py": plain, "b.py": b"b = 1\n", "moved.py": plain, "same.py": b"s = 1\n"})
    with (repo.root / ".git/config").open("a") as config:
        config.write(HIDING)
    line = f"* {attributes}\n"
    if place == "tracked":
        repo.write(".gitattributes", line)
    elif place == "info":
        repo.write(".git/info/attributes", line)
    else:
        (tmp_path / "attributes").write_text(line)
        if place == "config":
            repo.git("config", "core.attributesFile", str(tmp_path / "attributes"))
        else:
            monkeypatch.setenv("HOME", str(tmp_path))
            (tmp_path / ".gitconfig").write_text(
                f"[core]\n\tattributesFile = {tmp_path}/attributes\n"
            )
    for name in ("a.py", "b.py", "new.py"):
        repo.write(name, data)
    (repo.root / "moved.py").unlink()
    (repo.root / "moved.py").symlink_to(os.fsdecode(b"a.py\r\n"))
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    files = known(change)
    assert files.keys() - {".gitattributes"} == {"a.py", "b.py", "new.py", "moved.py"}
    async with Contents(change) as contents:
        for name in ("a.py", "b.py", "new.py"):
            assert await contents.read(files[name].new_blob) == data
        assert await contents.read(files["moved.py"].new_blob) == b"a.py\r\n"
    committed = await from_refs(repo.root, None, None)
    assert any("changes that are not committed" in note for note in committed.notes)


async def test_line_ends_that_differ_from_what_is_committed_are_reviewed_and_named(repo, tmp_path):
    repo.commit({"run.bat": "a\nb\n", "both.bat": "a\n", ".gitattributes": "*.bat eol=crlf\n"})
    repo.write("run.bat", b"a\r\nb\r\n")
    assert not any("work tree" in n for n in (await from_refs(repo.root, None, None)).notes)
    repo.write("both.bat", b"a\r\nc\r\n")
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert known(change)["run.bat"].added == (1, 2)
    assert known(change).keys() == {"run.bat", "both.bat"}
    note = "on disk, lines end in CR LF instead of LF, which is the only change: run.bat"
    assert note in change.notes


async def test_where_a_file_system_keeps_no_modes_none_has_changed(repo, tmp_path):
    repo.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    repo.commit({"a.py": "a = 1\n"})
    repo.git("config", "core.fileMode", "false")
    (repo.root / "run.sh").chmod(0o644)
    for name, text in (("a.py", "a = 1\n"), ("new.py", "n = 1\n")):
        repo.write(name, text).chmod(0o755)
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert {path: file.new_mode for path, file in known(change).items()} == {"new.py": "100644"}


async def test_a_work_tree_with_ids_of_sha_256(make_repo, tmp_path):
    repo = make_repo(tmp_path / "other")
    shutil.rmtree(repo.root / ".git")
    repo.git("init", "-q", "-b", "main", "--object-format=sha256")
    repo.commit({"a.py": "a = 1\n", "gone.py": "g\n", "same.py": "s\n"})
    repo.write("a.py", "a = 2\n")
    (repo.root / "gone.py").unlink()
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert {p: f.status for p, f in known(change).items()} == {
        "a.py": "modified",
        "gone.py": "deleted",
    }


async def test_an_unfinished_merge(repo, tmp_path):
    repo.commit({"a.py": "a = 0\n", "d.py": "d = 0\n"})
    repo.git("checkout", "-q", "-b", "topic")
    repo.commit({"a.py": "a = 1\n", "d.py": "d = 1\n"})
    repo.git("checkout", "-q", "main")
    (repo.root / "d.py").unlink()
    repo.commit({"a.py": "a = 2\n"})
    repo.git("merge", "topic", check=False)
    (repo.root / "d.py").unlink()
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert set(known(change)) == {"a.py"}
    async with Contents(change) as contents:
        assert "<<<<<<< HEAD" in decode_text(await contents.read(known(change)["a.py"].new_blob))


async def test_submodules_at_another_commit(repo, make_repo, tmp_path):
    inner = make_repo(repo.root / "lib")
    first = inner.commit({"f": "1\n"})
    repo.commit()
    second = inner.commit({"f": "2\n"})
    inner.write("f", "dirty\n")
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert [file.skip for file in change.files] == [f"submodule {first[:12]}..{second[:12]}"]


async def test_a_nested_repository_is_reported(repo, make_repo, tmp_path):
    repo.commit({"a": "a\n"})
    make_repo(repo.root / "inner").commit({"f": "1\n"})
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert change.files == ()
    assert "inner/ is a repository of its own" in " ".join(change.notes)


async def test_a_pipe_in_place_of_a_file_does_not_hang(repo, tmp_path):
    repo.commit({"a.py": "a\n", "b.py": "b\n"})
    (repo.root / "a.py").unlink()
    os.mkfifo(repo.root / "a.py")
    os.mkfifo(repo.root / "new")
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert [(f.path, f.status) for f in change.files] == [("a.py", "deleted")]
    assert "a.py is neither a file nor a link" in change.notes[0]


async def test_files_outside_of_a_sparse_checkout_are_no_change(repo, tmp_path):
    repo.commit({"skipped.py": "a\n", "meant.py": "a\n"})
    repo.git("update-index", "--skip-worktree", "skipped.py")
    (repo.root / "skipped.py").unlink()
    repo.write("intended.py", "i\n")
    repo.git("add", "--intent-to-add", "intended.py")
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert {p: f.status for p, f in known(change).items()} == {"intended.py": "added"}
    assert known(change)["intended.py"].added == (1,)


async def test_a_change_within_the_index_files_own_second_is_seen(repo, tmp_path):
    target = repo.write("a.py", "a = 1\n")
    repo.commit()
    when = os.stat(repo.root / ".git" / "index").st_mtime_ns
    target.write_bytes(b"a = 2\n")  # the same size, and no newer than the index
    os.utime(target, ns=(when, when))
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert set(known(change)) == {"a.py"}


async def test_a_split_index_and_a_linked_work_tree(repo, tmp_path):
    repo.commit({"a.py": "a\n", "b.py": "b\n"})
    repo.git("update-index", "--split-index")
    repo.write("a.py", "a2\n")
    assert set(known(await from_worktree(repo.root, None, tmp_path / "s1"))) == {"a.py"}
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "linked")
    (tmp_path / "linked" / "b.py").write_text("b2\n")
    change = await from_worktree(tmp_path / "linked", None, tmp_path / "s2")
    assert set(known(change)) == {"b.py"}


async def test_odd_places(make_repo, tmp_path):
    odd = make_repo(tmp_path / 'a:b"c\nd e')
    odd.commit({"a.py": "a\n"})
    odd.write(b"n\nl \xe9.py", "x\n")
    change = await from_worktree(odd.root, None, tmp_path / 's:x"y z')
    assert [os.fsencode(f.path) for f in change.files] == [b"n\nl \xe9.py"]
    async with Contents(change) as contents:
        assert decode_text(await contents.read(new_blob(change.files[0]))) == "x\n"
        assert len(await contents.paths("head")) == 2


async def test_a_bare_repository_has_no_work_tree(repo, tmp_path):
    repo.commit({"a": "a"})
    bare = repo.clone(tmp_path / "bare.git", "--bare")
    for place in (bare.root, repo.root / ".git"):
        with pytest.raises(InputError, match="not in a work tree; name two commits"):
            await from_worktree(place, None, tmp_path / "scratch")


async def test_a_scratch_that_cannot_be_written(repo, tmp_path):
    repo.commit({"a": "a"})
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written: Not a directory"):
        await from_worktree(repo.root, None, tmp_path / "file" / "scratch")


@pytest.mark.usefixtures("file_modes_hold")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # starts programs in its own thread
async def test_a_file_that_cannot_be_read(repo, tmp_path):
    repo.commit({"a": "a"})
    repo.write("b", "b").chmod(0)
    with pytest.raises(InputError, match="make it readable"):
        await from_worktree(repo.root, None, tmp_path / "scratch")


async def test_history_of_what_is_not_committed(repo, tmp_path):
    repo.commit({"a.py": "a = 1\n"})
    repo.write("a.py", "a = 1\nb = 2\n")
    before = photograph(repo.root / ".git")
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    lines = (await history.blame(change, "a.py", 1, 2)).splitlines()
    assert "(Ann " in lines[0]
    assert "2024-05-06 1) a = 1" in lines[0]
    assert "not committed" in lines[1]
    told = (await history.log(change, "a.py")).splitlines()
    assert [line.split(": ")[1] for line in told] == ["not committed yet", "a commit"]
    assert photograph(repo.root / ".git") == before


def test_a_full_disk_is_reported(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full)
    with pytest.raises(StoreError, match="the disk is full"):
        write_files(tmp_path / "out", [("a", b"x")])


async def test_a_git_error_on_a_full_disk_is_reported(repo, tmp_path, monkeypatch):
    repo.commit({"a": "a"})
    repo.write("a", "b")
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    real = next(p for d in os.environ["PATH"].split(":") if (p := Path(d) / "git").exists())
    fake.write_text(
        "#!/bin/sh\n"
        'case "$*" in *update-index*) echo "error: No space left on device" >&2; exit 128;; esac\n'
        f'exec {real} "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    with pytest.raises(StoreError, match="the disk is full"):
        await from_worktree(repo.root, None, tmp_path / "scratch")
