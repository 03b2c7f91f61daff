"""Verified patches as files: git applies each, all of them together, and never a forged name."""

import hashlib
import subprocess
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace

from diffchecks.fixes.patches import (
    LineReplacement,
    apply_replacements,
    find_replacements,
    read_patch,
    write_patch,
)
from diffchecks.unified_diff import PatchRefused
from orchestrator.app.run_review import run_review
from orchestrator.app.runs.run_archive import export_run, import_run
from orchestrator.app.runs.stored_runs import prune_runs
from orchestrator.code_review.fixes.patch_files import join_patches, patch_files
from orchestrator.engine.observer_events import ignore_event
from tests.report.verdict_samples import PATCH, finding, fixed, verdict
from tests.review.review_kit import change, options

HEAD = "import os\nimport sys\n\n\ndef f() -> int:\n    return 1\n"
PATHS = ("a.py", "with space.py")


def applied(folder: Path, files: dict[str, bytes], patch: bytes) -> dict[str, bytes]:
    """What ``git apply`` makes of files."""
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    subprocess.run(["git", "apply", "-"], input=patch, cwd=folder, check=True, timeout=60)
    return {name: (folder / name).read_bytes() for name in files}


def test_git_applies_the_patches_of_a_run_and_they_go_where_the_run_goes(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {}, {"src/a.py": HEAD, "b.py": "import re\n"})
    found = run_review(options(repo.path), ignore_event)
    run = repo.path / ".diffcourt/state/runs" / found.run_id
    kept = [one for one in found.artifacts if one.path.startswith("fixes/")]
    assert [one.path for one in kept] == [f"fixes/{n}.patch" for n in ("F1", "F2", "F3", "all")]
    for one in kept:
        data = (run / one.path).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (one.sha256, one.bytes)
        assert one.tool_call.endswith("/prove_fixes") == (one.name != "all")
        repo.git("apply", str(run / one.path))
        assert repo.git("diff", "--stat")
        if one.name != "all":
            repo.git("reset", "-q", "--hard")
    assert (repo.path / "src/a.py").read_text() == "\n\ndef f() -> int:\n    return 1\n"
    assert (repo.path / "b.py").read_text() == ""

    export_run(repo.path, found.run_id, tmp_path / "exported")
    for one in kept:
        there = tmp_path / "exported" / one.path
        assert there.read_bytes() == (run / one.path).read_bytes()
    other = change(tmp_path / "other", {}, {"src/a.py": HEAD})
    import_run(other.path, tmp_path / "exported")
    # Who made the export says that they are proven; `diffcourt fix` proves them there.
    assert not (other.path / ".diffcourt/state/runs" / found.run_id / "fixes").exists()
    prune_runs(repo.path, 0, None)
    assert not run.exists()


@given(st.data())
def test_patches_of_one_tree_join_to_what_all_of_them_make(data: st.DataObject) -> None:
    lines = data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=30))
    end = data.draw(st.sampled_from(["", "\n"]))
    before = ("\n".join(lines) + end).encode()
    patches, parts = list[str](), list[LineReplacement]()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(lines) - 1))
        cut = data.draw(st.integers(0, 2))
        new = data.draw(st.lists(st.sampled_from("abxy"), max_size=2))
        after = ("\n".join([*lines[:start], *new, *lines[start + cut :]]) + end).encode()
        patch = write_patch({"a": before}, {"a": after})
        if patch:
            patches.append(patch)
            parts += find_replacements(read_patch(patch)[0], before)
    read = [read_patch(patch) for patch in patches]
    try:
        expected = apply_replacements(before, parts)
    except PatchRefused:
        with pytest.raises(PatchRefused):
            join_patches(read)
        return
    joined = join_patches(read).decode()
    if read:
        (file,) = read_patch(joined)
        assert apply_replacements(before, find_replacements(file, before)) == expected


def test_git_applies_the_joined_patch(tmp_path: Path) -> None:
    before = {name: "".join(f"{n}\n" for n in range(20)).encode() + b"end" for name in PATHS}
    changes = [
        {"a.py": before["a.py"].replace(b"4\n", b"four\n", 1)},
        {"a.py": before["a.py"].replace(b"\n6\n", b"\n6\nsix\n")},
        {"a.py": before["a.py"].replace(b"17\n", b""), "with space.py": b"new\n" + before["a.py"]},
        {"with space.py": before["a.py"].replace(b"end", b"END")},
        {"a.py": before["a.py"].replace(b"4\n", b"four\n", 1)},
    ]
    patches = [write_patch({name: before[name] for name in one}, one) for one in changes]
    made = applied(tmp_path / "work", before, join_patches(map(read_patch, patches)))
    assert made["a.py"].split(b"\n") == [
        *(b"%d" % n for n in range(4)), b"four", b"5", b"6", b"six",
        *(b"%d" % n for n in range(7, 17)), b"18", b"19", b"end",
    ]  # fmt: skip
    assert made["with space.py"] == b"new\n" + before["a.py"].replace(b"end", b"END")


def test_a_conflicting_patch_is_left_out_and_an_unproven_one_has_no_file() -> None:
    other = PATCH.replace("['convert', name]", "['magick', name]")
    excluded = fixed(2, patch=other)
    assert excluded.fix
    given = verdict(
        findings=(
            fixed(1),
            replace(excluded, fix=replace(excluded.fix, excludes=("F1",))),
            fixed(3, patch=other),
            fixed(4, state="applies"),
            replace(fixed(5), state="waived"),
            finding(6),
        )
    )
    files = patch_files(given)
    assert list(files) == ["F1", "F2", "F3", "all"]
    assert files["all"] == files["F1"] == PATCH.encode()


@pytest.mark.parametrize("name", ["../../x", "F1/../../x", "/tmp/x", "all", ""])
def test_a_forged_id_of_a_finding_names_no_file(name: str) -> None:
    assert patch_files(verdict(findings=(replace(fixed(1), id=name),))) == {}


def test_a_forged_patch_makes_no_file() -> None:
    assert patch_files(verdict(findings=(fixed(1, patch="\ud800"), fixed(2, patch="x")))) == {}
