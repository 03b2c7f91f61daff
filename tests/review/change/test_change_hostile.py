"""A checkout that somebody else prepared: none of its programs ever runs, and none of its names
leads out."""

import os
from pathlib import Path

import pytest

from orchestrator.code_review.change import history
from orchestrator.code_review.change.change_construction import from_refs, from_worktree
from orchestrator.code_review.change.change_from_patch import from_patch
from orchestrator.code_review.change.contents import Contents
from orchestrator.errors import InputError
from tests.review.change.conftest import Repo, diff_text, new_blob

pytestmark = pytest.mark.attack("settings, hooks and filters of a hostile repository")


@pytest.fixture
def anyio_backend():
    """One event loop: this is about what git is asked and says; the other files run on both."""
    return "asyncio"


@pytest.fixture
def trapped(repo, tmp_path):
    """A repository in which every way of naming a program names one that leaves a file behind."""
    trap = tmp_path / "trap"
    trap.write_text(f'#!/bin/sh\necho "$0 $@" >> {tmp_path}/canary\ncat 2>/dev/null\nexit 0\n')
    trap.chmod(0o755)
    repo.commit(
        {
            ".gitattributes": "*.py filter=evil diff=evil\n*.txt filter=e=v.il\n*.md filter=proc\n",
            "a.py": "a = 1\n",
            "b.txt": "b\n",
            "c.md": "c\n",
        }
    )
    repo.commit({"a.py": "a = 2\n"})
    hooks = repo.root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "reference-transaction", "pre-commit", "fsmonitor-watchman"):
        (hooks / hook).symlink_to(trap)
    extra = repo.write(".git/extra", f'[filter "proc"]\n\tprocess = {trap}\n\trequired = true\n')
    for key, value in {
        "core.fsmonitor": str(trap),
        "core.hooksPath": str(hooks),
        "core.pager": str(trap),
        "core.editor": str(trap),
        "core.sshCommand": str(trap),
        "core.gitProxy": str(trap),
        "core.alternateRefsCommand": str(trap),
        "core.askPass": str(trap),
        "core.untrackedCache": "true",
        "credential.helper": str(trap),
        "diff.external": str(trap),
        "diff.evil.command": str(trap),
        "diff.evil.textconv": str(trap),
        "filter.evil.clean": str(trap),
        "filter.evil.smudge": str(trap),
        "filter.evil.required": "true",
        "filter.e=v.il.clean": str(trap),
        "filter.e=v.il.process": str(trap),
        "gpg.program": str(trap),
        "log.showSignature": "true",
        "interactive.diffFilter": str(trap),
        "pager.log": str(trap),
        "pager.diff": str(trap),
        "pager.blame": str(trap),
        "alias.diff-tree": f"!{trap}",
        "include.path": str(extra),
        "protocol.allow": "always",
        "protocol.file.allow": "always",
        "protocol.ext.allow": "always",
    }.items():
        repo.git("config", "--add", key, value)
    signed = repo.git("cat-file", "commit", "HEAD").replace(
        b"\n\n",
        b"\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n",
        1,
    )
    oid = repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=signed).decode().strip()
    repo.write(".git/refs/heads/main", f"{oid}\n")
    (tmp_path / "canary").unlink(missing_ok=True)
    return repo


async def test_the_traps_work(trapped, tmp_path):
    trapped.write("a.py", "a = 3\n")
    for arguments in (("log", "-1"), ("diff",), ("add", "a.py"), ("blame", "a.py")):
        (tmp_path / "canary").unlink(missing_ok=True)
        trapped.git(*arguments, check=False)
        assert (tmp_path / "canary").exists(), arguments


async def test_nothing_runs_for_two_commits(trapped, tmp_path):
    trapped.write("a.py", "a = 3\n")
    change = await from_refs(trapped.root, None, None)
    assert [(f.path, f.added) for f in change.files] == [("a.py", (1,))]
    assert any("--worktree" in note for note in change.notes)
    assert "+1: a = 2" in await diff_text(change)
    assert "a commit" in await history.log(change, "a.py")
    assert "a = 2" in await history.blame(change, "a.py", 1, 1)
    async with Contents(change) as contents:
        listed = await contents.paths("head")
        await contents.export("head", {p: b for p, (_, b) in listed.items()}, tmp_path / "out")
    assert (tmp_path / "out" / "a.py").read_text() == "a = 2\n"
    assert not (tmp_path / "canary").exists()


async def test_nothing_runs_for_a_work_tree(trapped, tmp_path):
    for name, text in (("a.py", "a = 3\n"), ("b.txt", "b2\n"), ("c.md", "c2\n"), ("n.py", "n\n")):
        trapped.write(name, text)
    os.utime(trapped.root / ".gitattributes", (1, 1))
    change = await from_worktree(trapped.root, None, tmp_path / "scratch")
    assert [f.path for f in change.files] == ["a.py", "b.txt", "c.md", "n.py"]
    async with Contents(change) as contents:
        assert await contents.read(new_blob(change.files[0])) == b"a = 3\n"
    assert "+1: a = 3" in await diff_text(change, "a.py")
    assert "a = 3" in await history.blame(change, "a.py", 1, 1)
    assert not (tmp_path / "canary").exists()


async def test_nothing_runs_for_a_patch(trapped, tmp_path):
    patch = b"--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n a = 2\n+b = 3  \n"
    trapped.git("config", "apply.whitespace", "fix")
    change = await from_patch(patch, "x.diff", trapped.root, None, tmp_path / "scratch")
    assert [(f.path, f.added) for f in change.files] == [("a.py", (2,))]
    async with Contents(change) as contents:
        assert await contents.read(new_blob(change.files[0])) == b"a = 2\nb = 3  \n"
    assert not (tmp_path / "canary").exists()


async def test_a_submodule_of_the_checkout_runs_nothing(repo, make_repo, tmp_path):
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/canary\ncat\n")
    trap.chmod(0o755)
    inner = make_repo(repo.root / "inner")
    inner.commit({"f.py": "f\n", ".gitattributes": "*.py filter=inner\n"})
    repo.commit()
    inner.commit({"f.py": "f2\n"})
    inner.write("f.py", "f3\n")
    for key in ("filter.inner.clean", "core.fsmonitor", "diff.external"):
        inner.git("config", key, str(trap))
    change = await from_worktree(repo.root, None, tmp_path / "scratch")
    assert [f.kind for f in change.files] == ["submodule"]
    assert not (tmp_path / "canary").exists()


async def test_a_missing_object_is_never_fetched(trapped, tmp_path):
    blob = trapped.oid("HEAD:a.py")
    gone = trapped.root / ".git" / "objects" / blob[:2] / blob[2:]
    gone.chmod(0o600)
    gone.unlink()
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"file://{trapped.root}",
        "remote.origin.uploadpack": str(tmp_path / "trap"),
        "remote.origin.vcs": "evil",
    }.items():
        trapped.git("config", key, value)
    with pytest.raises(InputError) as caught:
        await from_refs(trapped.root, None, None)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "canary").exists()


async def test_attributes_of_the_change_do_not_hide_its_lines(repo):
    repo.commit({"a.py": "a = 1\n", "m.py": "m\n"})
    repo.write(".git/info/attributes", "m.py -diff\n")
    repo.commit(
        {
            ".gitattributes": "*.py -diff linguist-generated\n* binary\n",
            "a.py": "a = 1\nb = 2\n",
            "m.py": "m\nn\n",
        }
    )
    change = await from_refs(repo.root, None, None)
    known = {f.path: (f.kind, f.skip, f.added) for f in change.files}
    assert known["a.py"] == ("text", None, (2,))
    assert known["m.py"] == ("text", None, (2,))


def tree(repo: Repo, entries: list[tuple[str, bytes, str]]) -> str:
    """A tree object with names that git would not write itself."""
    raw = b"".join(
        b"%s %s\0%s" % (mode.encode(), name, bytes.fromhex(oid)) for mode, name, oid in entries
    )
    oid = repo.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw)
    return oid.decode().strip()


def blob(repo: Repo, data: bytes) -> str:
    return repo.git("hash-object", "-w", "--stdin", stdin=data).decode().strip()


async def test_names_that_lead_out_of_the_export_are_refused(repo, tmp_path):
    repo.commit({"a.py": "a\n"})
    evil = blob(repo, b"evil\n")
    up = tree(repo, [("100644", b"escaped", evil)])
    names = [
        ("40000", b"..", up),
        ("40000", b".GIT", tree(repo, [("100644", b"config", evil)])),
        ("100644", b".git", evil),
        ("100644", b"ok.py", evil),
        ("120000", b"link", blob(repo, str(tmp_path).encode())),
        ("100644", b"x" * 300, evil),
    ]
    bad = repo.git("commit-tree", tree(repo, names), "-p", "HEAD", "-m", "x").decode().strip()
    with pytest.raises(InputError, match="is not a valid path"):
        await from_refs(repo.root, "main", bad)
    names.insert(0, ("100644", b"#new", evil))
    worse = repo.git("commit-tree", tree(repo, names), "-p", bad, "-m", "x").decode().strip()
    change = await from_refs(repo.root, bad, worse)
    assert [f.path for f in change.files] == ["#new"]
    root = tmp_path / "export" / "head"
    async with Contents(change) as contents:
        listed = await contents.paths("head")
        refused = await contents.export("head", {p: b for p, (_, b) in listed.items()}, root)
    assert set(refused) == set(listed) - {"ok.py", "#new"}
    assert refused["link"] == "it is not a regular file"
    assert "file name" in refused["x" * 300].lower()
    written = [p for p in (tmp_path / "export").rglob("*") if p.is_file()]
    assert sorted(written) == [root / "#new", root / "ok.py"]


async def test_an_export_follows_no_link(repo, tmp_path):
    repo.commit({"d/f.py": "new\n", "g.py": "new\n", "h.py": "new\n"})
    change = await from_refs(repo.root, None, None)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f.py").write_text("old")
    (outside / "g.py").write_text("old")
    root = tmp_path / "root"
    root.mkdir()
    (root / "d").symlink_to(outside)
    (root / "g.py").symlink_to(outside / "g.py")
    (root / "h.py").hardlink_to(outside / "f.py")
    async with Contents(change) as contents:
        listed = await contents.paths("head")
        refused = await contents.export("head", {p: b for p, (_, b) in listed.items()}, root)
    assert list(refused) == ["d/f.py"]
    assert {p.name: p.read_text() for p in outside.iterdir()} == {"f.py": "old", "g.py": "old"}
    assert (root / "g.py").read_text() == "new\n"
    assert not (root / "g.py").is_symlink()


@pytest.mark.parametrize(
    "name", ["../x", ".git/config", "a/../../x", "/etc/passwd", ".GIT/hooks/x"]
)
@pytest.mark.parametrize("with_repo", [True, False])
async def test_a_patch_that_leads_out_is_refused(repo, tmp_path, name, with_repo):
    repo.commit({"a.py": "a\n"})
    patch = f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n".encode()
    where = repo.root if with_repo else None
    with pytest.raises(InputError, match=r"x\.diff:1: "):
        await from_patch(patch, "x.diff", where, None, tmp_path / "scratch")


async def test_arguments_of_tools_are_never_options(repo, tmp_path):
    repo.commit({"a.py": "a\n"})
    repo.commit({"a.py": "b\n", "--output=x": "c\n", ":(top)a": "d\n", "*": "e\n"})
    change = await from_refs(repo.root, None, None)
    assert "+1: c" in await diff_text(change, "--output=x")
    assert "+1: d" in await diff_text(change, ":(top)a")
    star = await diff_text(change, "*")
    assert "+1: e" in star
    assert "+1: c" not in star
    assert await diff_text(change, "absent") == ""
    assert "a commit" in await history.log(change, "--output=x", 5)
    assert "c" in await history.blame(change, "--output=x", 1, 1)
    assert await history.log(change, "--all") == ""
    with pytest.raises(InputError):
        await history.blame(change, "--help", 1, 1)
    with pytest.raises(InputError, match="not a range"):
        await history.blame(change, "a.py", 3, 2)
    with pytest.raises(InputError, match="NUL"):
        await diff_text(change, "a\0b")
    assert not (Path(change.git_dir) / "x").exists()
