"""What a person names becomes the two commits they mean."""

import hashlib
import os
import shlex
import shutil
import stat
from pathlib import Path

import pytest

from orchestrator.code_review.change.change_construction import from_refs, open_repository
from orchestrator.code_review.change.git.commands import Git
from orchestrator.errors import InputError

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@pytest.fixture(scope="module")
def template(tmp_path_factory, make_repo):
    """main: a, b (main only); topic from a: t1, t2."""
    repo = make_repo(tmp_path_factory.mktemp("template"))
    repo.commit({"a.py": "a = 1\n"})
    repo.git("checkout", "--quiet", "-b", "topic")
    repo.commit({"t.py": "t = 1\n"})
    repo.commit({"t.py": "t = 2\n"})
    repo.git("checkout", "--quiet", "main")
    repo.commit({"b.py": "b = 1\n"})
    repo.git("checkout", "--quiet", "topic")
    return repo


@pytest.fixture
def branched(template, tmp_path):
    return template.copy(tmp_path / "repo")


def paths(change):
    return [file.path for file in change.files]


async def test_a_branch_is_compared_with_its_merge_base(branched):
    change = await from_refs(branched.root, None, None)
    assert change.head == branched.oid("topic")
    assert change.base == branched.oid("main~1")
    assert change.base_tree == branched.oid("main~1^{tree}")
    assert paths(change) == ["t.py"]
    assert change.notes == ()
    assert change.object_dir is None


async def test_a_directory_inside_the_checkout_will_do(branched):
    branched.write("sub/dir/x", "")
    change = await from_refs(branched.root / "sub" / "dir", None, None)
    assert paths(change) == ["t.py"]


async def test_a_named_base_is_used_by_its_merge_base(branched):
    change = await from_refs(branched.root, "main", "topic")
    assert change.base == branched.oid("main~1")
    assert paths(change) == ["t.py"]


@pytest.mark.parametrize("base", [None, "main", "main^0"])
async def test_policy_is_that_of_the_tip_since_the_author_chose_where_to_branch_off(branched, base):
    change = await from_refs(branched.root, base, None)
    assert change.base == branched.oid("main~1")
    assert change.policy_commit == branched.oid("main")


async def test_origin_head_is_the_default_branch(branched, tmp_path):
    branched.git("branch", "-m", "main", "trunk")
    branched.git("checkout", "--quiet", "trunk")
    clone = branched.clone(tmp_path / "clone")
    clone.git("checkout", "--quiet", "-b", "work", "origin/topic")
    change = await from_refs(clone.root, None, None)
    assert change.base == branched.oid("trunk~1")


async def test_the_tip_of_the_default_branch_is_reviewed_as_one_commit(branched):
    change = await from_refs(branched.root, None, "main")
    assert change.base == branched.oid("main~1")
    assert paths(change) == ["b.py"]
    assert "is already on main" in change.notes[0]


async def test_a_local_default_branch_that_is_behind_is_not_the_base(branched, tmp_path):
    clone = branched.clone(tmp_path / "clone", "--branch=topic")
    clone.git("branch", "main", "origin/main~1")
    clone.git("update-ref", "-d", "refs/remotes/origin/HEAD")
    clone.git("checkout", "-q", "-b", "later", "origin/main")
    clone.commit({"later.py": "x = 1\n"})
    assert paths(await from_refs(clone.root, None, None)) == ["later.py"]


async def test_without_a_default_branch_a_base_must_be_named(branched):
    branched.git("branch", "-D", "main")
    with pytest.raises(InputError, match="no default branch .* --base HEAD~1 for one commit$"):
        await from_refs(branched.root, None, None)
    change = await from_refs(branched.root, "HEAD~1", None)
    assert change.base == branched.oid("topic~1")


async def test_a_shallow_clone_of_one_commit_without_a_default_branch_needs_a_base(
    branched, tmp_path
):
    clone = branched.clone(tmp_path / "shallow", "--depth=1", "--branch=topic")
    clone.git("update-ref", "-d", "refs/remotes/origin/HEAD")
    with pytest.raises(InputError, match="no default branch"):
        await from_refs(clone.root, None, None)


async def test_the_first_commit_of_any_branch_is_the_whole_tree(repo):
    repo.commit({"a.py": "a = 1\n"})
    repo.git("branch", "--move", "trunk")
    change = await from_refs(repo.root, None, None)
    assert change.base_tree == EMPTY_TREE
    assert paths(change) == ["a.py"]


async def test_unrelated_histories_are_compared_directly_when_named(branched):
    branched.git("checkout", "--quiet", "--orphan", "island")
    branched.git("rm", "-rfq", ".")
    branched.commit({"i.py": "i = 1\n"})
    change = await from_refs(branched.root, "main", "island")
    assert change.base == branched.oid("main")
    assert paths(change) == ["a.py", "b.py", "i.py"]
    assert "have no common commit at all" in change.notes[0]
    alone = await from_refs(branched.root, None, "island")
    assert paths(alone) == ["i.py"]
    assert alone.base_tree == EMPTY_TREE


async def test_the_first_commit_is_the_whole_tree(repo):
    first = repo.commit({"a.py": "a = 1\nb = 2\n"})
    change = await from_refs(repo.root, None, None)
    assert change.base == "empty tree"
    assert change.base_tree == EMPTY_TREE
    assert change.policy_commit is None
    assert change.files[0].added == (1, 2)
    assert change.notes == (
        f"{first[:12]} is the first commit; the whole tree is reviewed as one change",
    )


async def test_a_clone_without_a_parent_says_so(branched, tmp_path):
    branched.git("checkout", "--quiet", "main")
    clone = branched.clone(tmp_path / "shallow", "--depth=1")
    change = await from_refs(clone.root, None, None)
    head = branched.oid("main")
    assert change.base_tree == EMPTY_TREE
    assert paths(change) == ["a.py", "b.py"]
    assert change.notes == (
        f"this clone holds no parent of {head[:12]}; the whole tree is reviewed as one change",
    )


async def test_a_clone_without_a_merge_base_says_so(branched, tmp_path):
    clone = branched.clone(tmp_path / "shallow", "--depth=1", "--no-single-branch")
    clone.git("checkout", "--quiet", "-B", "topic", "origin/topic")
    clone.git("remote", "set-head", "origin", "main")
    change = await from_refs(clone.root, None, None)
    assert change.base_tree == EMPTY_TREE
    assert "this clone holds no merge base of" in change.notes[0]
    direct = await from_refs(clone.root, "origin/main", None)
    assert paths(direct) == ["b.py", "t.py"]
    assert "in this shallow clone; they are compared directly" in direct.notes[0]


async def test_a_depth_of_two_is_enough_for_the_newest_commit(branched, tmp_path):
    branched.git("checkout", "--quiet", "main")
    clone = branched.clone(tmp_path / "shallow", "--depth=2")
    change = await from_refs(clone.root, None, None)
    assert paths(change) == ["b.py"]


async def test_an_empty_diff_is_a_change_with_a_note(branched):
    change = await from_refs(branched.root, "topic", "topic")
    assert change.files == ()
    assert change.base_tree == change.head_tree
    assert change.notes[0].startswith("there are no differences between ")


async def test_a_head_that_is_in_base_already_is_reported_as_behind(repo):
    old = repo.commit({"a.py": "a = 1\n"})
    new = repo.commit({"a.py": "a = 2\n"})
    change = await from_refs(repo.root, new, old)
    assert change.files == ()
    assert change.notes == (
        f"{new[:12]} already contains all of {old[:12]}; there is nothing to review",
    )


async def test_uncommitted_changes_are_reported(branched):
    branched.write("t.py", "t = 3\n")
    change = await from_refs(branched.root, None, None)
    assert any("--worktree" in note for note in change.notes)
    branched.git("add", "t.py")
    staged = await from_refs(branched.root, None, None)
    assert any("--worktree" in note for note in staged.notes)


async def test_staged_changes_are_reported_although_the_file_is_unchanged(branched):
    branched.write("t.py", "t = 3\n")
    branched.git("add", "t.py")
    branched.write("t.py", "t = 2\n")
    change = await from_refs(branched.root, None, None)
    assert any("--worktree" in note for note in change.notes)


async def test_another_commit_of_a_submodule_is_an_uncommitted_change(repo, make_repo):
    inner = make_repo(repo.root / "inner")
    inner.commit({"f": "1\n"})
    repo.commit({"a.py": "a\n"})
    assert not any("--worktree" in note for note in (await from_refs(repo.root, None, None)).notes)
    inner.write("f", "2\n")
    assert not any("--worktree" in note for note in (await from_refs(repo.root, None, None)).notes)
    inner.commit()
    assert any("--worktree" in note for note in (await from_refs(repo.root, None, None)).notes)


async def test_a_touched_file_is_no_uncommitted_change(branched):
    os.utime(branched.root / "t.py", (1_000_000_000, 1_000_000_000))
    branched.write("untracked.txt", "x")
    index = (branched.root / ".git" / "index").read_bytes()
    change = await from_refs(branched.root, None, None)
    assert change.notes == ()
    assert (branched.root / ".git" / "index").read_bytes() == index


async def test_a_detached_head_and_a_linked_work_tree(branched, tmp_path):
    branched.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"), "topic")
    change = await from_refs(tmp_path / "linked", None, None)
    assert change.head == branched.oid("topic")
    assert paths(change) == ["t.py"]


async def test_a_bare_repository(branched, tmp_path):
    bare = branched.clone(tmp_path / "bare.git", "--bare")
    change = await from_refs(bare.root, "main", "topic")
    assert paths(change) == ["t.py"]


async def test_a_repository_in_sha256(tmp_path, repo):
    root = tmp_path / "wide"
    root.mkdir()
    wide = type(repo)(root)
    wide.git("init", "--quiet", "--initial-branch=main", "--object-format=sha256")
    wide.commit({"a.py": "a = 1\n"})
    wide.commit({"a.py": "a = 2\n", "vendor/x": "v\n", ".gitattributes": "*.py text\n"})
    change = await from_refs(root, None, None)
    assert len(change.base_tree) == 64
    assert [(f.path, f.added) for f in change.files][1] == ("a.py", (1,))
    first = await from_refs(root, None, "HEAD~1")
    assert paths(first) == ["a.py"]


BAD_REFS = [
    ("nowhere", "unknown revision"),
    ("-h", "not the name of a commit"),
    ("--output=x", "not the name of a commit"),
    ("", "not the name of a commit"),
    ("a\0b", "NUL"),
    ("\ud800", "cannot be looked up"),
    ("main..topic", "names a range"),
    ("main...topic", "names a range"),
    ("^main", "unknown revision"),
    ("HEAD:t.py", "is not a commit;"),
    ("HEAD^{tree}", "is not a commit;"),
    ("HEAD~99", "unknown revision"),
    ("line\nbreak", "unknown revision"),
    ("twice", "ambiguous"),
]


async def test_a_ref_that_cannot_be_used_is_one_clear_line(branched):
    branched.git("branch", "twice")
    branched.git("tag", "twice", "main")
    git = await Git.open(branched.root)
    for ref, told in BAD_REFS:
        with pytest.raises(InputError, match=told) as caught:
            await git.commit(ref)
        assert "\n" not in str(caught.value)
    for base, head in (("twice", None), (None, "twice")):
        with pytest.raises(InputError, match="ambiguous"):
            await from_refs(branched.root, base, head)


NAMES = ["main", "HEAD~1", "tagged", "main~1", "@{0}", "topic^0", "HEAD"]


async def test_one_batched_call_gives_the_same_answers_as_single_git_calls(branched):
    branched.git("tag", "-a", "-m", "a tag", "tagged", "main")
    branched.git("commit", "--quiet", "--allow-empty", "-m", "another")
    branched.git("merge", "--quiet", "-m", "a merge", "main")
    git = await Git.open(branched.root)
    for base in NAMES:
        for head in (None, "main", "topic~1"):
            known = await open_repository(branched.root, base, head)
            tip, other = await git.commit(head or "HEAD"), await git.commit(base)
            assert (known.git, known.head) == (git, tip)
            assert known.top == (branched.root if head is None else None)
            assert known.base == other
            start = (await from_refs(branched.root, base, head)).base
            assert start == branched.git("merge-base", other, tip).decode().strip()


async def test_what_is_no_plain_name_is_left_to_be_asked_by_itself(branched):
    branched.git("branch", "twice")
    branched.git("tag", "twice", "main")
    for name in [ref for ref, _ in BAD_REFS] + ["HEAD^!", "HEAD^@", "HEAD^-", "^HEAD", ":/a", "--"]:
        for base, head in ((name, "main"), ("main", name), (None, name)):
            assert (await open_repository(branched.root, base, head)).head is None


async def test_a_repository_in_a_folder_of_an_odd_name(branched, tmp_path):
    odd = branched.copy(tmp_path / f"x\n{branched.oid('main')}")
    change = await from_refs(odd.root, "main", None)
    assert Path(change.git_dir) == odd.root / ".git"
    assert paths(change) == ["t.py"]


async def test_a_short_id_that_is_ambiguous(branched):
    known: dict[str, bytes] = {}
    for number in range(100_000):
        data = b"%d" % number
        start = hashlib.sha1(b"blob %d\0%s" % (len(data), data)).hexdigest()[:4]
        if start in known:
            break
        known[start] = data
    for blob in (data, known[start]):
        branched.git("hash-object", "-w", "--stdin", stdin=blob)
    with pytest.raises(InputError, match="is ambiguous; name it in full"):
        await from_refs(branched.root, None, start)


async def test_an_unknown_ref_in_a_shallow_clone_says_what_to_do(branched, tmp_path):
    for number, base in enumerate((branched.oid("main~1"), "origin/main")):
        clone = branched.clone(tmp_path / str(number), "--depth=1")
        with pytest.raises(InputError, match="not in this shallow clone; run: ") as refused:
            await from_refs(clone.root, base, None)
        clone.git(*shlex.split(str(refused.value).partition("run: ")[2])[1:])
        assert (await from_refs(clone.root, base, None)).base


async def test_a_partial_clone_says_what_to_do(repo, tmp_path):
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.commit({"a.py": "a = 1\n" * 9, "b.py": "b = 1\n"})
    repo.commit({"a.py": "a = 1\n" * 8, "b.py": "b = 2\n"})
    clone = repo.clone(tmp_path / "partial", "--filter=blob:none")
    with pytest.raises(InputError, match="this partial clone lacks objects"):
        await from_refs(clone.root, "HEAD~1", None)


async def test_a_commit_that_is_lost_is_not_taken_for_none_at_all(repo):
    lost = repo.commit({"a.py": "a = 1\n"})
    (repo.root / f".git/objects/{lost[:2]}/{lost[2:]}").unlink()
    with pytest.raises(InputError, match=f"'HEAD' is {lost[:12]}, which is missing here; git fsck"):
        await from_refs(repo.root, None, None)


async def test_no_repository_no_directory_no_commit(tmp_path, repo):
    plain = tmp_path / "plain"
    plain.mkdir()
    with pytest.raises(InputError, match=r"is not a git repository, or may not be read$"):
        await from_refs(plain, None, None)
    with pytest.raises(InputError, match="is not a directory"):
        await from_refs(tmp_path / "absent", None, None)
    file = tmp_path / "file\nname"
    file.write_text("")
    with pytest.raises(InputError, match="is not a directory") as caught:
        await from_refs(file, None, None)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="no commit yet"):
        await from_refs(repo.root, None, None)


async def test_git_is_missing(repo, monkeypatch, tmp_path):
    repo.commit({"a": "a"})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="git is not installed or not on PATH"):
        await from_refs(repo.root, None, None)


async def test_git_is_not_taken_from_the_current_directory(repo, monkeypatch, tmp_path):
    repo.commit({"a": "a"})
    fake = repo.write("git", f"#!/bin/sh\ntouch {tmp_path}/canary\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.chdir(repo.root)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    await from_refs(repo.root, None, None)
    assert not (tmp_path / "canary").exists()


async def test_an_old_git_is_refused(repo, monkeypatch, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    fake = folder / "git"
    fake.write_text("#!/bin/sh\necho git version 2.17.1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(InputError, match=r"git 2\.17 is too old; install git 2\.31 or later"):
        await from_refs(repo.root, None, None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_a_checkout_of_another_user(branched):
    for path in [branched.root, *branched.root.rglob("*")]:
        os.lchown(path, 12345, 12345)
    assert paths(await from_refs(branched.root, None, None)) == ["t.py"]


async def test_a_broken_repository_is_one_clear_line(branched):
    shutil.rmtree(branched.root / ".git" / "objects")
    (branched.root / ".git" / "objects").mkdir()
    with pytest.raises(InputError) as caught:
        await from_refs(branched.root, None, None)
    assert "\n" not in str(caught.value)


async def test_nothing_of_the_environment_reaches_git(branched, monkeypatch, tmp_path):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    change = await from_refs(branched.root, None, None)
    assert Path(change.git_dir) == branched.root / ".git"


async def test_replacements_of_objects_are_not_believed(branched):
    branched.git("replace", branched.oid("topic"), branched.oid("main"))
    change = await from_refs(branched.root, None, "topic")
    assert paths(change) == ["t.py"]


async def test_a_repeated_file_header_is_the_same_change(branched):
    one = await from_refs(branched.root, None, None)
    assert await from_refs(branched.root, None, None) == one
    assert Git.of(one).git_dir == branched.root / ".git"
