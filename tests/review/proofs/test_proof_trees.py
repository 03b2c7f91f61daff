"""The trees in which tests of findings run: written once, and as they were before each run."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio

from orchestrator.code_review.analyzers.run_tests import SideFiles
from orchestrator.code_review.tools.proof_trees import ProofTree

FILES = {"app.py": b"A = 1\n", "lib/deep/shop.py": b"B = 1\n", "run": b"#!/bin/sh\n"}
MORE = {"tests/test_claim.py": b"import app\n", "lib/deep/shop.py": b"B = 0\n"}


def side(root: Path) -> ProofTree:
    for path, data in FILES.items():
        (root / "head" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "head" / path).write_bytes(data)
    (root / "trees").mkdir()
    parts = [SideFiles(root / "head", [*FILES, "never written"], ["run"])]
    return ProofTree(parts, root / "trees", "report")


def found(tree: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(tree)): file.read_bytes() for file in tree.rglob("*") if file.is_file()
    }


def names(tree: Path) -> list[str]:
    return sorted(path.name for path in tree.rglob("*"))


def marks_everywhere(outside: Path, tree: Path) -> None:
    (tree / "report").write_text("passed")
    (tree / "never written").write_text("a mark")
    (tree / "lib/__pycache__").mkdir()
    (tree / "lib/__pycache__/shop.pyc").write_bytes(b"0")
    (tree / "lib/link").symlink_to(outside, target_is_directory=True)
    (tree / "dangling").symlink_to(outside.parent / "nowhere")
    deep = os.open(tree, os.O_RDONLY)
    for _ in range(1500):  # deeper than a path may be
        os.mkdir("d", dir_fd=deep)
        below = os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)


async def test_what_a_run_leaves_is_gone_before_the_next_and_its_files_are_not_written_again(
    tmp_path: Path,
) -> None:
    trees, outside = side(tmp_path), tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")

    async def leave(tree: Path) -> os.stat_result:
        assert found(tree) == {**FILES, **MORE}
        marks_everywhere(outside, tree)
        return (tree / "app.py").stat()

    async def look(tree: Path) -> os.stat_result:
        assert found(tree) == FILES
        assert names(tree) == ["app.py", "deep", "lib", "run", "shop.py"]
        assert os.access(tree / "run", os.X_OK)
        return (tree / "app.py").stat()

    first, edited = await trees.run(MORE, leave)
    again, _ = await trees.run({}, look)
    assert edited == ""
    assert (again.st_ino, again.st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    assert (outside / "kept.txt").read_text() == "kept"


async def test_a_tree_that_a_run_changed_or_did_not_give_back_is_made_again(tmp_path: Path) -> None:
    def point_elsewhere(tree: Path) -> None:
        (tree / "run").unlink()
        (tree / "run").symlink_to(tree / "app.py")

    trees = side(tmp_path)
    changes: dict[str, Callable[[Path], object]] = {
        "app.py": lambda tree: (tree / "app.py").write_text("A = 2\n"),
        "lib/deep/shop.py": lambda tree: (tree / "lib").rename(tree / "other"),
        "run": point_elsewhere,
    }

    async def cut_off(tree: Path) -> None:
        (tree / "app.py").unlink()
        raise TimeoutError

    async def look(tree: Path) -> dict[str, bytes]:
        return found(tree)

    for path, change in changes.items():

        async def alter(tree: Path, change: Callable[[Path], object] = change) -> None:
            change(tree)

        assert await trees.run(MORE, alter) == (None, path)
        assert await trees.run({}, look) == (FILES, "")
    with suppress(TimeoutError):
        await trees.run(MORE, cut_off)
    assert await trees.run(MORE, look) == ({**FILES, **MORE}, "")
    assert len([*(tmp_path / "trees").iterdir()]) == 1


async def test_two_tests_at_a_time_each_have_the_tree_for_themselves(tmp_path: Path) -> None:
    trees, seen = side(tmp_path), dict[str, bool]()

    async def prove(name: str) -> None:
        async def test(tree: Path) -> bool:
            await anyio.wait_all_tasks_blocked()
            (tree / f"left by {name}").write_text("")
            await anyio.wait_all_tasks_blocked()
            return found(tree) == {**FILES, name: b"", f"left by {name}": b""}

        ran, edited = await trees.run({name: b""}, test)
        seen[name] = ran and not edited

    async with anyio.create_task_group() as tasks:
        for name in "abc":
            tasks.start_soon(prove, name)
    assert seen == dict.fromkeys("abc", True)
