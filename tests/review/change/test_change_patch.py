"""A patch becomes a change: on a commit where a repository is, on its own where none is."""

import os

import pytest

from diffchecks.check_io import decode_text
from orchestrator.code_review.change import history
from orchestrator.code_review.change.change_construction import from_refs
from orchestrator.code_review.change.change_from_patch import from_patch
from orchestrator.code_review.change.contents import Contents
from orchestrator.errors import InputError
from tests.review.change.conftest import diff_text, new_blob, old_blob


@pytest.fixture
def full(repo):
    """Two commits with one of everything between them."""
    text = "".join(f"line {n}\n" for n in range(1, 41))
    repo.write(b"latin-\xe9.txt", b"caf\xe9\n")
    repo.commit(
        {
            "m.py": text,
            "gone.py": "1\n2\n",
            "old name.py": text,
            "pure.py": text.replace("line", "pure"),
            "run.sh": "#!/bin/sh\n",
            "crlf.txt": b"a\r\nb\r\nc\r\n",
            "i.png": b"\x89PNG\0\0",
            "type": "was a file\n",
            'quo"te\n.py': "q\n",
        }
    )
    for old, new in (("old name.py", "new name.py"), ("pure.py", "moved/pure.py")):
        (repo.root / new).parent.mkdir(exist_ok=True)
        (repo.root / old).rename(repo.root / new)
    (repo.root / "run.sh").chmod(0o755)
    (repo.root / "gone.py").unlink()
    (repo.root / "type").unlink()
    (repo.root / "type").symlink_to("elsewhere")
    repo.write(b"latin-\xe9.txt", b"caf\xe9\nth\xe9\n")
    repo.commit(
        {
            "m.py": text.replace("line 3\n", "").replace("line 30\n", "thirty\nand\n"),
            "new name.py": text + "end",
            "crlf.txt": b"a\r\nB\r\nc\r\n",
            "i.png": b"\x89PNG\0\0\1",
            "new.py": "n = 1\n",
            "empty.py": "",
            'quo"te\n.py': "q\nr\n",
        }
    )
    inner = "160000,0123456789abcdef0123456789abcdef01234567,lib"
    repo.git("update-index", "--add", "--cacheinfo", inner)
    repo.git("commit", "-qm", "lib")
    return repo


def brief(change):
    return {
        f.path: (f.status, f.kind, f.old_path, f.added, f.removed, f.skip) for f in change.files
    }


@pytest.mark.parametrize("options", [(), ("-M",), ("-U0",), ("-U10", "--binary"), ("--no-prefix",)])
async def test_applied_it_is_the_change_it_was_made_from(full, tmp_path, options):
    diff = full.git("diff", "--binary", "--full-index", *options, "HEAD~2", "HEAD^{tree}")
    change = await from_patch(diff, "x.diff", full.root, "HEAD~2", tmp_path / "scratch")
    assert change.head_tree == full.oid("HEAD^{tree}")
    assert change.head == "x.diff"
    assert change.base == change.policy_commit == full.oid("HEAD~2")
    direct = await from_refs(full.root, "HEAD~2", "HEAD")
    assert change.files == direct.files


async def test_the_repository_is_not_touched(full, tmp_path):
    before = {p: p.stat().st_mtime_ns for p in (full.root / ".git").rglob("*") if p.is_file()}
    diff = b"--- /dev/null\n+++ b/added.py\n@@ -0,0 +1 @@\n+x = 1\n"
    change = await from_patch(diff, "x.diff", full.root, None, tmp_path / "scratch")
    assert [(f.path, f.status) for f in change.files] == [("added.py", "added")]
    async with Contents(change) as contents:
        assert decode_text(await contents.read(new_blob(change.files[0]))) == "x = 1\n"
    after = {p: p.stat().st_mtime_ns for p in (full.root / ".git").rglob("*") if p.is_file()}
    assert after == before
    assert not (full.root / "added.py").exists()


async def test_alone_it_has_the_lines_it_tells_of(full, tmp_path):
    diff = full.git("diff", "-M", "--full-index", "HEAD~2", "HEAD")
    change = await from_patch(diff, "x.diff", None, None, tmp_path / "scratch")
    direct = {f.path: f for f in (await from_refs(full.root, "HEAD~2", "HEAD")).files}
    assert not change.has_tree
    assert change.policy_commit is None
    assert "only the lines in the patch are known" in change.notes[0]
    alone = {f.path: f for f in change.files}
    assert set(alone) == set(direct)
    for path, file in alone.items():
        other = direct[path]
        for name in ("status", "kind", "old_path", "added", "removed", "old_mode", "new_mode"):
            assert getattr(file, name) == getattr(other, name), (path, name)
    assert {path for path, file in alone.items() if file.whole} == {
        "new.py", "empty.py", "gone.py", "type", "lib",
    }  # fmt: skip
    assert "the patch says that it differs and holds no contents" in (alone["i.png"].skip or "")
    assert alone["lib"].skip == "submodule ..0123456789ab"
    assert alone["type"].skip == "symbolic link to elsewhere"
    async with Contents(change) as contents:
        head = decode_text(await contents.read(new_blob(alone["m.py"]))).split("\n")
        full_text = full.git("show", "HEAD:m.py").decode().split("\n")
        for number in alone["m.py"].added:
            assert head[number - 1] == full_text[number - 1]
        assert head[14] == ""
        assert await contents.read(new_blob(alone["crlf.txt"])) == b"a\r\nB\r\nc\r\n"
        latin = alone[os.fsdecode(b"latin-\xe9.txt")]
        assert await contents.read(new_blob(latin)) == b"caf\xe9\nth\xe9\n"
        assert await contents.read(old_blob(alone["gone.py"])) == b"1\n2\n"
        assert (
            await contents.export("head", {"new.py": new_blob(alone["new.py"])}, tmp_path / "o")
            == {}
        )
    assert "+29: thirty" in await diff_text(change, "m.py")
    for ask in (history.log(change, "m.py"), history.blame(change, "m.py", 1, 1)):
        with pytest.raises(InputError, match="has no history"):
            await ask


async def test_alone_and_plain(tmp_path):
    diff = (
        b"diff -ruN old/x.py new/x.py\n"
        b"--- old/x.py\t2024-01-01 00:00:00.000000000 +0000\n+++ new/x.py\t2024-01-02\n"
        b"@@ -10,2 +10,3 @@\n a\n+b\n c\n"
        b"diff -ruN old/sub/n.py new/sub/n.py\n"
        b"--- old/sub/n.py\t1970-01-01 00:00:00.000000000 +0000\n+++ new/sub/n.py\t2024-01-02\n"
        b"@@ -0,0 +1 @@\n+x\n"
        b"Binary files old/i.png and new/i.png differ\n"
    )
    change = await from_patch(diff, "x.diff", None, None, tmp_path / "scratch")
    assert {path: (b[0], b[3]) for path, b in brief(change).items()} == {
        "i.png": ("modified", ()),
        "sub/n.py": ("added", (1,)),
        "x.py": ("modified", (11,)),
    }


async def test_alone_and_bad_at_names(tmp_path):
    def of(name):
        return b"--- a/%s\n+++ b/%s\n@@ -1 +1 @@\n-a\n+b\n" % (name, name)

    twice = of(b"x") + of(b"x")
    with pytest.raises(InputError, match="is in it twice"):
        await from_patch(twice, "x.diff", None, None, tmp_path / "s1")
    with pytest.raises(InputError, match="a file and a directory at once"):
        await from_patch(of(b"x") + of(b"x/y"), "x.diff", None, None, tmp_path / "s2")
    odd = (
        of(b'"q')
        .replace(b'a/"q', b'"a/\\"q\\303\\274\\n"')
        .replace(b'b/"q', b'"b/\\"q\\303\\274\\n"')
    )
    change = await from_patch(odd, "x.diff", None, None, tmp_path / "s3")
    assert [f.path for f in change.files] == ['"qü\n']


async def test_carriage_returns_everywhere(repo, tmp_path):
    repo.commit({"unix.py": "a\nb\n", "dos.py": b"a\r\nb\r\n"})
    for name in ("unix.py", "dos.py"):
        patch = f"--- a/{name}\n+++ b/{name}\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n".encode()
        patch = patch.replace(b"\n", b"\r\n")
        change = await from_patch(patch, "x.diff", repo.root, None, tmp_path / name)
        assert [(f.path, f.added, f.removed) for f in change.files] == [(name, (2,), (2,))]
    alone = await from_patch(patch, "x.diff", None, None, tmp_path / "alone")
    assert any("CR LF" in note for note in alone.notes)


@pytest.mark.parametrize("with_repo", [True, False])
async def test_an_empty_patch_is_a_change_with_a_note(repo, tmp_path, with_repo):
    repo.commit({"a": "a"})
    for n, patch in enumerate((b"", b"\n\n")):
        where = repo.root if with_repo else None
        change = await from_patch(patch, "x.diff", where, None, tmp_path / str(n))
        assert change.files == ()
        assert "the patch is empty" in change.notes
        assert change.base_tree == change.head_tree
        async with Contents(change) as contents:
            assert set(await contents.paths("head")) == ({"a"} if with_repo else set())


@pytest.mark.parametrize("with_repo", [True, False])
async def test_a_cut_patch_is_refused_with_its_line(repo, tmp_path, with_repo):
    repo.commit({"x.py": "a\nb\n"})
    patch = b"--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,3 @@\n a\n+c\n"
    with pytest.raises(InputError, match=r"^odd\\nname:5: the patch was cut short"):
        await from_patch(
            patch, "odd\nname", repo.root if with_repo else None, None, tmp_path / "scratch"
        )


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        (b"--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n z\n-b\n+c\n", "does not apply at x.py:1 on"),
        (b"--- a/no.py\n+++ b/no.py\n@@ -1 +1 @@\n-b\n+c\n", "does not apply to no.py (does not"),
        (b"--- a/\xef\n+++ b/\xef\n@@ -1 +1 @@\n-b\n+c\n", r"does not apply to \xef (does not"),
        (b"--- /dev/null\n+++ b/x.py\n@@ -0,0 +1 @@\n+c\n", "to x.py (already exists in index)"),
    ],
)
async def test_a_patch_that_does_not_apply(repo, tmp_path, patch, told):
    repo.commit({"x.py": "a\nb\n"})
    with pytest.raises(InputError) as caught:
        await from_patch(patch, "x.diff", repo.root, None, tmp_path / "scratch")
    assert told in str(caught.value)
    assert str(caught.value).endswith("name the commit it was made from with --base")


async def test_a_base_is_taken_as_named(repo, tmp_path):
    repo.commit({"x.py": "a\n"})
    repo.git("checkout", "-q", "-b", "side")
    repo.commit({"x.py": "b\n"})
    repo.git("checkout", "-q", "main")
    patch = b"--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-b\n+c\n"
    change = await from_patch(patch, "x.diff", repo.root, "side", tmp_path / "scratch")
    assert change.base == repo.oid("side")
    with pytest.raises(InputError, match="unknown revision"):
        await from_patch(patch, "x.diff", repo.root, "nowhere", tmp_path / "scratch")


async def test_binary_files_without_their_data(repo, tmp_path):
    repo.commit({"i.png": b"\0\1", "x.py": "a\n"})
    repo.write("i.png", b"\0\2")
    only = repo.git("diff")
    change = await from_patch(only, "x.diff", repo.root, None, tmp_path / "s1")
    assert [(f.path, f.kind, f.whole) for f in change.files] == [("i.png", "binary", False)]
    assert change.notes == ()
    repo.write("x.py", "b\n")
    both = await from_patch(repo.git("diff"), "x.diff", repo.root, None, tmp_path / "s2")
    assert [f.path for f in both.files] == ["i.png", "x.py"]


async def test_text_that_the_change_calls_binary_in_its_attributes_is_a_gap(repo, tmp_path):
    names = ("evil.py", "gone.py", "i.png", "tool")
    repo.commit(dict.fromkeys(names, "a\n"))
    base = repo.oid("HEAD")
    (repo.root / "gone.py").unlink()
    repo.commit({".gitattributes": "* -diff\n"} | dict.fromkeys(set(names) - {"gone.py"}, "b\n"))
    seen = {}
    for form in ("", "--binary"):
        for root in (repo.root, None):
            diff = repo.git("diff", "--full-index", *form.split(), base, "HEAD")
            scratch = tmp_path / f"{form}{root is None}"
            change = await from_patch(diff, "x.diff", root, base if root else None, scratch)
            seen[form, root is None] = {f.path for f in change.files if f.gap}
    text_is_unseen = {".gitattributes", "evil.py", "tool"}
    assert seen == {
        ("", False): text_is_unseen,
        ("", True): text_is_unseen,
        ("--binary", False): set(),
        ("--binary", True): text_is_unseen,
    }


async def test_a_series_of_patches_to_one_file(repo, tmp_path):
    repo.commit({"x.py": "a\n"})
    repo.commit({"x.py": "a\nb\n"})
    repo.commit({"x.py": "a\nb\nc\n"})
    series = repo.git("format-patch", "--stdout", "HEAD~2")
    change = await from_patch(series, "x.mbox", repo.root, "HEAD~2", tmp_path / "scratch")
    assert change.head_tree == repo.oid("HEAD^{tree}")
    assert change.files[0].added == (2, 3)


async def test_a_bare_repository_will_do(repo, tmp_path):
    repo.commit({"x.py": "a\n"})
    bare = repo.clone(tmp_path / "bare.git", "--bare")
    patch = b"--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
    change = await from_patch(patch, "x.diff", bare.root, None, tmp_path / "scratch")
    assert [f.added for f in change.files] == [(1,)]
