"""Files put back as they were: on failure, after a crash in the middle, and once more later."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from orchestrator.engine.tool_registry import ToolPolicy
from orchestrator.engine.types import Level, Observation, ToolCall
from orchestrator.errors import InputError, NotPermitted
from orchestrator.sandbox import file_rollback
from orchestrator.sandbox.file_rollback import FileRollback
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.engine.engine_kit import Echo, account, created, make_runtime, open_memory_journal, spec
from tests.scripted_model import ScriptedModel

pytestmark = pytest.mark.either_loop
CALL = "1/act/a/turn1/tool1/write"


def picture(root: Path) -> dict[str, object]:
    """Everything below a folder: kind, mode and content."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("folder", path.stat().st_mode)
        else:
            found[name] = ("file", path.stat().st_mode, path.read_bytes())
    return found


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    place = tmp_path / "outside"
    place.mkdir()
    (place / "secret").write_text("ours")
    return place


@pytest.fixture
def root(tmp_path: Path, outside: Path) -> Path:
    root = tmp_path / "root"
    (root / "pkg/deep").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "pkg/a.py").write_text("A = 1\n")
    (root / "pkg/deep/run.sh").write_text("true\n")
    (root / "pkg/deep/run.sh").chmod(0o755)
    (root / "way out").symlink_to(outside)
    (root / "caf\udce9").write_bytes(b"\xff")
    (root / ".git").mkdir()
    (root / ".git/HEAD").write_text("ref: x\n")
    return root


@pytest.fixture
def scopes(root: Path, tmp_path: Path) -> FileRollback:
    return FileRollback(root, tmp_path / "vault")


def havoc(root: Path) -> None:
    """Every kind of change, some of them to the kind of a file."""
    (root / "pkg/a.py").write_text("A = 2\n")
    (root / "new").mkdir()
    (root / "new/b.py").write_text("B = 1\n")
    (root / "pkg/deep/run.sh").unlink()
    (root / "pkg/deep").rmdir()
    (root / "pkg/deep").symlink_to(root.parent / "outside")
    (root / "way out").unlink()
    (root / "way out").write_text("a file now")
    (root / "empty").rmdir()
    (root / "empty").write_text("a file, too")
    (root / "caf\udce9").chmod(0o600)


async def test_undo_puts_everything_back_and_touches_nothing_else(
    root: Path, outside: Path, scopes: FileRollback
) -> None:
    before, beyond = picture(root), picture(outside)
    await scopes.begin(CALL)
    havoc(root)
    (root / ".git/HEAD").write_text("ref: y\n")
    await scopes.undo(CALL)
    (root / ".git/HEAD").write_text("ref: x\n")  # left out: it was not put back
    assert picture(root) == before
    assert picture(outside) == beyond
    await scopes.undo(CALL)
    assert picture(root) == before


async def test_a_committed_call_can_be_taken_back_once_more(
    root: Path, scopes: FileRollback
) -> None:
    before = picture(root)
    await scopes.begin(CALL)
    havoc(root)
    await scopes.commit(CALL)
    (root / "later.py").write_text("not its business\n")
    assert "pkg/a.py" in scopes.restore(CALL).paths
    (root / "later.py").unlink()
    assert picture(root) == before


async def test_files_that_others_changed_since_are_named_and_kept(
    root: Path, scopes: FileRollback
) -> None:
    await scopes.begin(CALL)
    (root / "pkg/a.py").write_text("A = 2\n")
    (root / "log").write_text("begun\n")  # by another program, while the call runs
    (root / "pkg/deep/run.sh").write_text("false\n")
    await scopes.commit(CALL)
    (root / "pkg/a.py").write_text("A = 3\n")
    (root / "log").write_text("begun\nended\n")
    (root / "unrelated").write_text("mine\n")
    restored = scopes.restore(CALL)
    assert (restored.paths, restored.kept) == (("pkg/deep/run.sh",), ("log", "pkg/a.py"))
    assert (root / "pkg/deep/run.sh").read_text() == "true\n"
    assert (root / "pkg/a.py").read_text() == "A = 3\n"
    with pytest.raises(InputError, match="unrelated was not changed by"):
        scopes.restore(CALL, force=["unrelated"])
    with pytest.raises(InputError, match=f"no call x changed files in this run; .*: {CALL}$"):
        scopes.restore("x")
    again = scopes.restore(CALL, force=["pkg/a.py"])
    assert (again.paths, again.kept) == (("pkg/a.py",), ("log",))
    assert (root / "pkg/a.py").read_text() == "A = 1\n"
    assert (root / "log").read_text() == "begun\nended\n"
    assert (root / "unrelated").read_text() == "mine\n"


async def test_a_folder_of_the_call_with_somebody_elses_file_is_kept(
    root: Path, scopes: FileRollback
) -> None:
    await scopes.begin(CALL)
    (root / "new").mkdir()
    (root / "new/own").write_text("of the call\n")
    (root / "pkg/deep/run.sh").unlink()
    await scopes.commit(CALL)
    (root / "new/other").write_text("mine\n")
    shutil.rmtree(root / "pkg/deep")
    restored = scopes.restore(CALL)
    assert (restored.paths, restored.kept) == (("new/own",), ("new", "pkg/deep/run.sh"))
    assert (root / "new/other").read_text() == "mine\n"


async def test_files_that_an_undo_overwrites_are_saved(root: Path, scopes: FileRollback) -> None:
    await scopes.begin(CALL)
    (root / "pkg/a.py").write_text("an edit of a person while the call ran\n")
    await scopes.undo(CALL)
    assert (root / "pkg/a.py").read_text() == "A = 1\n"
    (one,) = scopes.snapshots()
    lost = json.loads((one.directory / "overwritten.json").read_bytes())
    saved = one.directory / "files" / lost["pkg/a.py"][2]
    assert saved.read_text() == "an edit of a person while the call ran\n"


async def test_an_undo_that_is_cut_off_anywhere_is_finished_by_the_next(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = picture(root)
    saved = tmp_path / "saved"
    shutil.copytree(root, saved, symlinks=True)

    class Cut(BaseException):
        pass

    for step in range(40):
        scopes = FileRollback(root, tmp_path / f"vault{step}")
        await scopes.begin(CALL)
        havoc(root)
        left = [step]

        def cutting(real: Callable[..., object], left: list[int] = left) -> Callable[..., object]:
            def run(*arguments: object, **more: object) -> object:
                left[0] -= 1
                if left[0] < 0:
                    raise Cut
                return real(*arguments, **more)

            return run

        with monkeypatch.context() as patched:
            patched.setattr(file_rollback, "_make", cutting(file_rollback._make))
            patched.setattr(file_rollback, "_write", cutting(file_rollback._write))
            patched.setattr(os, "unlink", cutting(os.unlink))
            patched.setattr(os, "rmdir", cutting(os.rmdir))
            try:
                await scopes.undo(CALL)
            except Cut:
                pass
            else:
                assert step > 5
                break
        await FileRollback(root, tmp_path / f"vault{step}").undo(CALL)
        assert picture(root) == before
    else:
        raise AssertionError("never got through")
    assert picture(root) == before


async def test_an_incomplete_snapshot_is_made_again(root: Path, tmp_path: Path) -> None:
    before = picture(root)
    scopes = FileRollback(root, tmp_path / "vault")
    part = scopes._place(CALL).with_suffix(".part")
    (part / "files").mkdir(parents=True)
    await scopes.undo(CALL)  # the call never ran
    assert picture(root) == before
    await scopes.begin(CALL)
    havoc(root)
    await scopes.undo(CALL)
    assert picture(root) == before


async def test_special_files_are_removed_with_the_rest(root: Path, scopes: FileRollback) -> None:
    before = picture(root)
    await scopes.begin(CALL)
    havoc(root)
    os.mkfifo(root / "pkg/pipe")
    await scopes.undo(CALL)
    assert picture(root) == before


async def test_folders_that_were_closed_are_put_back_with_what_is_in_them(
    root: Path, scopes: FileRollback
) -> None:
    (root / "pkg/deep").chmod(0o555)
    before = picture(root)
    await scopes.begin(CALL)
    (root / "pkg/deep").chmod(0o755)
    (root / "pkg/deep/run.sh").write_text("false\n")
    (root / "pkg/deep").chmod(0o500)
    await scopes.undo(CALL)
    assert picture(root) == before


async def test_a_refused_snapshot_lets_the_next_call_in(root: Path, scopes: FileRollback) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(NotPermitted):
        await scopes.begin(CALL)
    (root / "pipe").unlink()
    with anyio.fail_after(30):
        await scopes.begin(CALL)


async def test_a_call_whose_files_could_not_be_restored_is_refused(
    root: Path, scopes: FileRollback
) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(NotPermitted, match="pipe is not a regular file"):
        await scopes.begin(CALL)


@pytest.mark.parametrize(("fails", "after"), [(True, "A = 1\n"), (False, "A = 2\n")])
async def test_through_the_executor_a_failed_write_leaves_nothing(
    root: Path, scopes: FileRollback, fails: bool, after: str
) -> None:
    def write(arguments: object, context: object) -> Observation:
        (root / "pkg/a.py").write_text("A = 2\n")
        if fails:
            raise ValueError("half way")
        return Observation("done")

    store: MemoryStore = await created()
    async with open_memory_journal(store) as journal:
        runtime = make_runtime(
            journal,
            ScriptedModel({}),
            Echo("write", level=Level.WRITE, run=write),
            policy=ToolPolicy(max_level=Level.WRITE),
            rollback=scopes,
        )
        wish = ToolCall("c", "write", {"text": "x"})
        result = await runtime.executor.call(spec("a", "write"), wish, CALL, account())
    assert result.ok is not fails
    assert (root / "pkg/a.py").read_text() == after
    assert [kept.state for kept in scopes.snapshots()] == ["undone" if fails else "committed"]
