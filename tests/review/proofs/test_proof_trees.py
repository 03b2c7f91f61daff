"""The trees in which tests of findings run: written once, and as they were before each run."""

import os
from pathlib import Path

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


def test_what_a_run_leaves_is_gone_before_the_next_and_its_files_are_not_written_again(
    tmp_path: Path,
) -> None:
    trees, outside = side(tmp_path), tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")
    tree = trees.prepare(MORE)
    assert found(tree) == {**FILES, **MORE}
    first = (tree / "app.py").stat()
    (tree / "report").write_text("passed")
    (tree / "never written").write_text("a mark")
    (tree / "lib/__pycache__").mkdir()
    (tree / "lib/__pycache__/shop.pyc").write_bytes(b"0")
    (tree / "lib/link").symlink_to(outside, target_is_directory=True)
    (tree / "dangling").symlink_to(tmp_path / "nowhere")
    deep = os.open(tree, os.O_RDONLY)
    for _ in range(1500):  # deeper than a path may be
        os.mkdir("d", dir_fd=deep)
        below = os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)
    assert trees.put_back() == ""
    assert found(tree) == FILES
    assert sorted(path.name for path in tree.rglob("*")) == [
        "app.py",
        "deep",
        "lib",
        "run",
        "shop.py",
    ]
    again = trees.prepare({})
    now = (again / "app.py").stat()
    assert (again, now.st_ino, now.st_mtime_ns) == (tree, first.st_ino, first.st_mtime_ns)
    assert os.access(again / "run", os.X_OK)
    assert (outside / "kept.txt").read_text() == "kept"


def test_a_tree_that_a_run_changed_or_did_not_give_back_is_made_again(tmp_path: Path) -> None:
    trees = side(tmp_path)
    changes = {
        "app.py": lambda tree: (tree / "app.py").write_text("A = 2\n"),
        "lib/deep/shop.py": lambda tree: (tree / "lib").rename(tree / "other"),
        "run": lambda tree: ((tree / "run").unlink(), (tree / "run").symlink_to(tree / "app.py")),
    }
    for path, change in changes.items():
        tree = trees.prepare(MORE)
        change(tree)
        assert trees.put_back() == path
        assert found(trees.prepare({})) == FILES
    assert found(trees.prepare(MORE)) == {**FILES, **MORE}  # the run before was cut off
    assert len([*(tmp_path / "trees").iterdir()]) == 1
