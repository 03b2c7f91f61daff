"""A repository whose files lie: about history, about what an object holds, about the work tree."""

import hashlib
import os
import random
import struct
import zlib

import pytest

from orchestrator.code_review.change import worktree_snapshot
from orchestrator.code_review.change.change_construction import from_refs, from_worktree
from orchestrator.code_review.change.contents import SIDES, Contents
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.git.objects import Commits, Objects
from orchestrator.errors import InputError
from tests.review.change.conftest import Repo

pytestmark = pytest.mark.attack("forged git objects")


@pytest.fixture
def anyio_backend():
    """One event loop: this is about what git is asked and says; the other files run on both."""
    return "asyncio"


def forge(repo: Repo, oid: str, kind: str, data: bytes) -> None:
    """Put a well-formed object with other contents at the place of an object."""
    path = repo.root / ".git" / "objects" / oid[:2] / oid[2:]
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(zlib.compress(f"{kind} {len(data)}\0".encode() + data))


@pytest.fixture
def feature(repo):
    """A branch with a malicious commit in the middle, and main beside it."""
    repo.commit({"a.py": "a = 1\n"})
    start = repo.commit({"b.py": "b = 1\n"})
    repo.git("checkout", "-q", "-b", "feature")
    repo.commit({"evil.py": "import os\nos.system(input())\n"})
    repo.commit({"c.py": "c = 1\n"})
    repo.git("checkout", "-q", "main")
    repo.commit({"a.py": "a = 2\n"})
    assert repo.oid("feature~2") == start
    return repo


def poison_commit_graph(repo: Repo) -> None:
    """Say in the commit-graph that the malicious commit is the parent of main."""
    repo.git("commit-graph", "write", "--reachable")
    path = repo.root / ".git" / "objects" / "info" / "commit-graph"
    data = bytearray(path.read_bytes()[:-20])
    table = [struct.unpack(">4sQ", data[8 + 12 * n : 20 + 12 * n]) for n in range(data[6])]
    chunks = dict(table)
    oids = repo.git("rev-list", "--all").decode().split()
    place = {oid: n for n, oid in enumerate(sorted(oids))}
    commit = chunks[b"CDAT"] + 36 * place[repo.oid("main")]
    data[commit + 20 : commit + 24] = struct.pack(">I", place[repo.oid("feature~1")])
    path.chmod(0o644)
    path.write_bytes(bytes(data) + hashlib.sha1(bytes(data)).digest())


async def test_a_poisoned_commit_graph_does_not_hide_a_commit(feature):
    repo = feature
    tip = repo.commit({"d.py": "d = 1\n"})  # git itself reads the parents of named tips
    repo.git("update-ref", "refs/heads/main", f"{tip}~1")
    poison_commit_graph(repo)
    repo.git("update-ref", "refs/heads/main", tip)
    for base in ("main", None):
        change = await from_refs(repo.root, base, "feature")
        assert {f.path for f in change.files} == {"evil.py", "c.py"}


@pytest.mark.parametrize("lie", ["shallow", "info/grafts", "replace"])
async def test_no_file_of_the_clone_cuts_or_replaces_history(feature, lie):
    repo = feature
    first, evil = repo.oid("feature~2"), repo.oid("feature~1")
    if lie == "shallow":
        repo.write(".git/shallow", f"{evil}\n{first}\n")
    elif lie == "info/grafts":
        repo.write(".git/info/grafts", f"{repo.oid('main')} {evil}\n")
    else:
        text = repo.git("cat-file", "commit", "main").replace(first.encode(), evil.encode())
        other = repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=text).decode()
        repo.git("replace", "main", other.strip())
    change = await from_refs(repo.root, "main", "feature")
    assert {f.path for f in change.files} == {"evil.py", "c.py"}


async def test_a_forged_commit_of_history_is_refused(feature):
    repo = feature
    tip, evil, first = repo.oid("main"), repo.oid("feature~1"), repo.oid("feature~2")
    text = repo.git("cat-file", "commit", "main").replace(first.encode(), evil.encode())
    repo.commit({"d.py": "d = 1\n"})
    forge(repo, tip, "commit", text)
    with pytest.raises(InputError, match=f"{tip[:12]} does not match its id") as caught:
        await from_refs(repo.root, "main", "feature")
    assert "\n" not in str(caught.value)


async def test_merge_bases_are_those_of_git_whatever_the_dates(repo):
    chance = random.Random(7)
    tree = repo.git("mktree", stdin=b"").decode().strip()
    commits: list[str] = []
    for n in range(40):
        parents = chance.sample(commits[-6:], min(len(commits), chance.choice((1, 1, 2))))
        said = "".join(f"parent {parent}\n" for parent in parents)
        who = f"Ann <a@example.org> {1_700_000_000 + chance.randrange(3)} +0000"
        text = f"tree {tree}\n{said}author {who}\ncommitter {who}\n\n{n}\n".encode()
        oid = repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=text)
        commits.append(oid.decode().strip())
    async with Objects(await Git.open(repo.root)) as objects:
        for _ in range(60):
            one, other = chance.sample(commits, 2)
            best = repo.git("merge-base", "--all", one, other, check=False).decode().split()
            found = await Commits(objects).merge_base(one, other)
            assert found in best if best else found is None


@pytest.mark.parametrize("hashing", ["sha1", "sha256"])
@pytest.mark.parametrize("what", ["blob", "base blob", "tree", "commit"])
async def test_an_object_with_contents_of_another_is_refused(tmp_path, what, hashing):
    root = tmp_path / "repo"
    root.mkdir()
    repo = Repo(root)
    repo.git("init", "-q", "--initial-branch=main", "--template=", f"--object-format={hashing}")
    repo.commit({"p/a.py": "a = 1\n", "q.py": "q = 1\n"})
    benign = repo.commit({"p/a.py": "a = 2\n"})
    repo.git("reset", "-q", "--hard", "HEAD~1")
    repo.commit({"p/a.py": "eval(input())\n"})
    name = {"blob": "HEAD:p/a.py", "base blob": "HEAD~1:p/a.py", "tree": "HEAD:p", "commit": "HEAD"}
    kind = what.split()[-1]
    other = {"blob": f"{benign}:p/a.py", "tree": f"{benign}:p", "commit": benign}[kind]
    oid = repo.oid(name[what])
    forge(repo, oid, kind, repo.git("cat-file", kind, other))
    git_says = "|is not a (readable )?commit" if what == "commit" else ""
    with pytest.raises(InputError, match=f"{oid[:12]} does not match its id{git_says}"):
        await from_refs(repo.root, "HEAD~1", "HEAD")


async def test_a_listing_hashes_what_the_change_did_not_touch(repo):
    repo.commit({"p/a.py": "a = 1\n", "p/b.py": "b = 1\n", "q.py": "q = 1\n"})
    repo.commit({"q.py": "q = 2\n"})
    oid = repo.oid("HEAD:p")
    forge(repo, oid, "tree", b"")
    change = await from_refs(repo.root, "HEAD~1", "HEAD")
    async with Contents(change) as contents:
        with pytest.raises(InputError, match=f"{oid[:12]} does not match its id"):
            await contents.paths("head")


async def test_an_object_swapped_between_two_reviews_of_a_process_hides_nothing(repo, tmp_path):
    repo.commit({"p/a.py": "a = 1\n", "p/b.py": "b = 1\n", "q.py": "q = 1\n"})
    listed = []
    for number, text in enumerate(("q = 2\n", "q = 3\n")):
        repo.write("q.py", text)
        change = await from_worktree(repo.root, None, tmp_path / str(number))
        async with Contents(change) as contents:
            sides = [await contents.paths(side) for side in SIDES]
            assert await contents.read(sides[1]["q.py"][1]) == text.encode()
        listed.append(sides)
        forge(repo, repo.oid("HEAD:p"), "tree", b"")
    assert listed[0][0] == listed[1][0]
    assert {path: listed[1][1][path] for path in ("p/a.py", "p/b.py")} == {
        path: listed[0][0][path] for path in ("p/a.py", "p/b.py")
    }
    repo.write("p/a.py", "a = 2\n")  # now git compares the tree itself
    with pytest.raises(InputError, match="does not match its id"):
        await from_worktree(repo.root, None, tmp_path / "last")


async def test_a_pack_index_that_names_another_object_is_refused(repo):
    repo.commit({"a.py": "a = 1\n", "z.py": "a = 2\n"})
    repo.commit({"a.py": "eval(input())\n"})
    evil, benign = repo.oid("HEAD:a.py"), repo.oid("HEAD:z.py")
    repo.git("repack", "-adq")
    (path,) = (repo.root / ".git" / "objects" / "pack").glob("*.idx")
    data = bytearray(path.read_bytes()[:-20])
    count = struct.unpack(">I", data[8 + 255 * 4 : 8 + 256 * 4])[0]
    names = 8 + 256 * 4
    oids = [data[names + 20 * n : names + 20 * n + 20].hex() for n in range(count)]
    offsets = names + 24 * count
    one, other = (offsets + 4 * oids.index(oid) for oid in (evil, benign))
    data[one : one + 4] = data[other : other + 4]
    path.chmod(0o644)
    path.write_bytes(bytes(data) + hashlib.sha1(bytes(data)).digest())
    with pytest.raises(InputError, match=f"{evil[:12]} does not match its id"):
        await from_refs(repo.root, "HEAD~1", "HEAD")


def tree_bomb(repo: Repo, levels: int, *, leaf: bytes = b"x = 1\n") -> str:
    """A commit of a tree in which each tree names the one below twice."""
    oid = repo.git("hash-object", "-w", "--stdin", stdin=leaf).decode().strip()
    entries = f"100644 blob {oid}\ta.py\n100644 blob {oid}\tb.py\n"
    for _ in range(levels):
        tree = repo.git("mktree", stdin=entries.encode()).decode().strip()
        entries = f"040000 tree {tree}\ta\n040000 tree {tree}\tb\n"
    tree = repo.git("mktree", stdin=entries.encode()).decode().strip()
    return repo.git("commit-tree", "-p", "HEAD", "-m", "bomb", tree).decode().strip()


async def test_a_tree_of_a_trillion_paths_is_refused_at_once(repo):
    repo.commit({"a.py": "a = 1\n"})
    bomb = tree_bomb(repo, 40)
    with pytest.raises(InputError, match="more than 200,000 paths") as caught:
        await from_refs(repo.root, "HEAD", bomb)
    assert "\n" not in str(caught.value)


async def test_a_bomb_in_head_does_not_reach_the_index_of_a_work_tree(repo, tmp_path):
    repo.commit({"a.py": "x = 1\n"})
    repo.git("update-ref", "HEAD", tree_bomb(repo, 40))
    with pytest.raises(InputError, match="paths"):
        await from_worktree(repo.root, None, tmp_path / "scratch")


async def test_a_bomb_that_base_holds_already_is_refused_when_it_is_listed(repo):
    repo.commit({"a.py": "a = 1\n"})
    bomb = tree_bomb(repo, 40)
    tree = repo.git("ls-tree", bomb).decode() + repo.git("ls-tree", "HEAD").decode()
    tree = repo.git("mktree", stdin=tree.encode()).decode().strip()
    head = repo.git("commit-tree", "-p", bomb, "-m", "more", tree).decode().strip()
    change = await from_refs(repo.root, bomb, head)
    assert [f.path for f in change.files] == ["a.py"]
    async with Contents(change) as contents:
        with pytest.raises(InputError, match="more than"):
            await contents.paths("head")


@pytest.mark.parametrize("hidden", ["assume-unchanged", "skip-worktree", "stat", "index"])
async def test_the_work_tree_is_what_is_on_disk(repo, tmp_path, hidden):
    target = repo.write("a.py", "a = 1\n")
    os.utime(target, (1, 1))
    repo.commit()
    if hidden == "stat":
        repo.git("config", "core.checkStat", "minimal")
        repo.git("config", "core.trustctime", "false")
    elif hidden != "index":
        repo.git("update-index", f"--{hidden}", "a.py")
    target.write_text("b = 2\n")
    os.utime(target, (1, 1))
    if hidden == "index":
        forge_index(repo, "a.py")
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert [f.path for f in change.files] == ["a.py"]
    committed = await from_refs(repo.root, None, None)
    assert any("changes that are not committed" in note for note in committed.notes)


async def test_a_work_tree_too_large_to_compare_is_not_called_clean(repo, monkeypatch):
    repo.commit({"a.py": "a = 1\n"})
    monkeypatch.setattr(worktree_snapshot, "NOTE_SECONDS", 0)
    notes = (await from_refs(repo.root, None, None)).notes
    assert any("could not be compared" in note for note in notes)


async def test_an_unchanged_work_tree_gets_no_note_whatever_its_files_times_say(repo, tmp_path):
    future = repo.write("a.py", "a = 1\n")
    repo.write("b.sh", "#!/bin/sh\n").chmod(0o755)
    repo.write(".gitattributes", "*.txt text eol=crlf\n")
    repo.write("c.txt", "c\n")
    (repo.root / "link").symlink_to("a.py")
    repo.commit()
    (repo.root / "c.txt").unlink()
    repo.git("checkout", "c.txt")  # with a carriage return, which its blob does not hold
    assert (repo.root / "c.txt").read_bytes() == b"c\r\n"
    os.utime(future, (4_000_000_000, 4_000_000_000))
    assert not any("work tree" in n for n in (await from_refs(repo.root, None, None)).notes)
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert [file.path for file in change.files] == ["c.txt"]


def forge_index(repo: Repo, path: str) -> None:
    """Make the index say that the file on disk, as it is, is the one of HEAD."""
    now = repo.git("hash-object", path).decode().strip()
    repo.git("add", path)
    index = repo.root / ".git" / "index"
    data = index.read_bytes()[:-20]
    data = data.replace(bytes.fromhex(now), bytes.fromhex(repo.oid(f"HEAD:{path}")))
    index.write_bytes(data + hashlib.sha1(data).digest())
    later = index.stat().st_mtime + 10
    os.utime(index, (later, later))


async def test_an_unchanged_file_of_git_lfs_is_no_change(repo, tmp_path):
    data = b"\0" * 2000
    digest = hashlib.sha256(data).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 2000\n"
    repo.commit({".gitattributes": "*.bin filter=lfs\n", "x.bin": pointer, "y.bin": pointer})
    repo.write("x.bin", data)
    repo.write("y.bin", data + b"1")
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert [f.path for f in change.files] == ["y.bin"]
