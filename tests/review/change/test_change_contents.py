"""Reading and exporting: many callers, cancelled callers, and nothing left running."""

import os
import stat
from pathlib import Path

import anyio
import pytest

from diffchecks.check_io import decode_text
from orchestrator.code_review.change import contents as module
from orchestrator.code_review.change.change_construction import from_refs
from orchestrator.code_review.change.contents import Contents, FilePacking, known_of
from orchestrator.code_review.change.git.objects import MAX_BLOB, Objects
from orchestrator.errors import InputError, StoreError
from tests.review.change.conftest import new_blob


@pytest.fixture
def many(repo):
    for n in range(60):
        repo.write(f"pkg{n % 7}/m{n}.py", f"# {n}\n" * (n * 50))
    repo.commit()
    return repo


def children() -> set[str]:
    """Ids of the git processes below this one."""
    found = [str(os.getpid())]
    for pid in found:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += (task / "children").read_text().split()
    return {pid for pid in found if b"cat-file" in Path(f"/proc/{pid}/cmdline").read_bytes()}


async def test_many_callers_at_once_get_their_own_bytes(many):
    change = await from_refs(many.root, None, None)
    got = {}
    async with Contents(change) as contents, anyio.create_task_group() as group:

        async def one(path, blob):
            got[path] = decode_text(await contents.read(blob))

        for path, (_, blob) in (await contents.paths("head")).items():
            group.start_soon(one, path, blob)
    assert len(got) == 60
    for path, text in got.items():
        n = int(path.rpartition("/m")[2].removesuffix(".py"))
        assert text == f"# {n}\n" * (n * 50)


async def test_trees_that_both_sides_share_are_read_once(many, monkeypatch):
    many.write("pkg3/m3.py", "# new\n")
    many.commit()
    change = await from_refs(many.root, "HEAD~1", "HEAD")
    read = []
    each = Objects.each

    async def counted(objects, oids, *rest, **named):
        read.extend(oids)
        await each(objects, oids, *rest, **named)

    monkeypatch.setattr(Objects, "each", counted)
    async with Contents(change) as contents:
        base, head = await contents.paths("base"), await contents.paths("head")
    assert [path for path in head if head[path] != base[path]] == ["pkg3/m3.py"]
    assert len(read) == len(set(read)) == 1 + 7 + 2  # of head only its root and pkg3


async def test_of_what_was_packed_the_last_is_known_to_the_next_review(many, monkeypatch, tmp_path):
    """What a process keeps of a repository begins anew when it is too much."""
    monkeypatch.setattr(module, "MAX_KNOWN_BYTES", 9_000)
    change = await from_refs(many.root, None, None)
    async with Contents(change) as contents:
        listed = await contents.paths("head")
        for paths in ([*listed][:30], [*listed][30:55], [*listed][55:]):
            await FilePacking(contents, tmp_path).add("head", paths)
    known = known_of(Path(contents.objects.git.git_dir))
    kept = known.blobs
    assert known.size == sum(map(len, kept.values()))
    assert {listed[path][1] for path in [*listed][55:]} <= kept.keys()
    assert listed[next(iter(listed))][1] not in kept


async def test_a_cancelled_read_leaves_no_answer_for_the_next(repo):
    repo.commit({"big.txt": b"x" * 4_000_000, "small.txt": "small\n"})
    change = await from_refs(repo.root, None, None)
    blobs = {file.path: new_blob(file) for file in change.files}
    async with Contents(change) as contents:
        for steps in range(12):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(contents.read, blobs["big.txt"])
                    for _ in range(steps):
                        await anyio.lowlevel.checkpoint()
                    scope.cancel()
            assert decode_text(await contents.read(blobs["small.txt"])) == "small\n"
        assert len(await contents.read(blobs["big.txt"])) == 4_000_000


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
async def test_its_process_ends_with_it(repo):
    repo.commit({"a": "a\n"})
    change = await from_refs(repo.root, None, None)
    before = children()
    async with Contents(change) as contents:
        await contents.read(new_blob(change.files[0]))
        assert len(children() - before) == 1
    assert children() <= before

    async def fails():
        async with Contents(change) as contents:
            await contents.read(new_blob(change.files[0]))
            await contents.read("nothing")

    with pytest.raises(InputError, match="not an object id"):
        await fails()
    assert children() <= before


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
async def test_a_killed_process_is_one_clear_line_and_then_replaced(repo):
    repo.commit({"a": "a\n"})
    change = await from_refs(repo.root, None, None)
    before = children()
    async with Contents(change) as contents:
        blob = new_blob(change.files[0])
        await contents.read(blob)
        (pid,) = children() - before
        os.kill(int(pid), 9)
        with pytest.raises(InputError, match="git could not read"):
            await contents.read(blob)
        assert await contents.read(blob) == b"a\n"


async def test_an_object_that_is_not_a_blob_is_refused(repo):
    repo.commit({"a": "a\n"})
    change = await from_refs(repo.root, None, None)
    async with Contents(change) as contents:
        for bad in ("", "HEAD:a", "--help", f"{change.files[0].new_blob}\nHEAD", "A" * 40):
            with pytest.raises(InputError, match="not an object id"):
                await contents.read(bad)
        for absent in ("0" * 40, change.head_tree):
            with pytest.raises(InputError, match="not in this clone"):
                await contents.read(absent)
        assert await contents.read(new_blob(change.files[0])) == b"a\n"


async def test_an_oversized_object_is_refused(repo):
    repo.write("huge", b"\0" * (MAX_BLOB + 1))
    repo.commit()
    change = await from_refs(repo.root, None, None)
    skip = change.files[0].skip
    assert skip is not None
    assert skip.startswith("too large: 67.1 MB")
    async with Contents(change) as contents:
        with pytest.raises(InputError, match="more than 67108864"):
            await contents.read(new_blob(change.files[0]))


async def test_exported_files_are_plain_and_complete(many, tmp_path):
    (many.root / "pkg0" / "m0.py").chmod(0o755)
    (many.root / "link").symlink_to("pkg0/m0.py")
    many.commit({"same1": "s\n", "same2": "s\n"})
    change = await from_refs(many.root, None, None)
    old = os.umask(0o077)
    try:
        async with Contents(change) as contents:
            listed = await contents.paths("head")
            entries = {path: blob for path, (_, blob) in listed.items()}
            refused = await contents.export("head", entries, tmp_path / "a" / "head")
            assert (
                await contents.export("head", {"same1": entries["same1"]}, tmp_path / "a" / "head")
                == {}
            )
            await contents.export("base", {"pkg1/m1.py": entries["pkg1/m1.py"]}, tmp_path / "b")
    finally:
        os.umask(old)
    assert refused == {"link": "it is not a regular file"}
    files = [path for path in (tmp_path / "a" / "head").rglob("*") if path.is_file()]
    assert len(files) == 62
    for path in files:
        assert (
            path.read_bytes()
            == (many.root / path.relative_to(tmp_path / "a" / "head")).read_bytes()
        )
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert (tmp_path / "b" / "pkg1" / "m1.py").read_text() == "# 1\n" * 50


async def test_an_export_into_a_file_is_refused(repo, tmp_path):
    repo.commit({"a": "a\n"})
    change = await from_refs(repo.root, None, None)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("")
    async with Contents(change) as contents:
        for root in (tmp_path / "link", tmp_path / "file"):
            with pytest.raises(StoreError, match="cannot be written"):
                await contents.export("head", {"a": new_blob(change.files[0])}, root)
    assert list((tmp_path / "real").iterdir()) == []


async def test_a_directory_in_the_way_is_reported(repo, tmp_path):
    repo.commit({"a": "a\n", "b/c": "c\n"})
    change = await from_refs(repo.root, None, None)
    (tmp_path / "out" / "a").mkdir(parents=True)
    (tmp_path / "out" / "b").write_text("in the way")
    async with Contents(change) as contents:
        entries = {file.path: new_blob(file) for file in change.files}
        refused = await contents.export("head", entries, tmp_path / "out")
    assert set(refused) == {"a", "b/c"}
    assert all(
        why.startswith("it cannot be written on this file system") for why in refused.values()
    )
