"""The change with a patch is what git would make of it."""

import difflib
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given

from diffchecks.fixes.patches import find_replacements, read_patch, write_patch
from diffchecks.jobs import ChangedFile
from orchestrator.code_review.tools.prove_fixes import PatchedFile, _with_patch, with_patches
from tests.review.review_kit import change, workspace_of

LINES = st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=9)


def numbers(old: list[str], new: list[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Added lines of new, removed lines of old."""
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    added = [n + 1 for tag, _, _, a, b in blocks if tag != "equal" for n in range(a, b)]
    removed = [n + 1 for tag, a, b, _, _ in blocks if tag != "equal" for n in range(a, b)]
    return tuple(added), tuple(removed)


def patched(head: bytes, after: bytes) -> PatchedFile:
    (file,) = read_patch(write_patch({"f": head}, {"f": after}))
    return PatchedFile(head, tuple(find_replacements(file, head)))


@given(LINES, LINES, LINES)
def test_unchanged_lines_are_the_same_on_both_sides_of_a_patch(
    base: list[str], head: list[str], after: list[str]
) -> None:
    if head == after:
        return
    added, removed = numbers(base, head)
    data = ["".join(f"{line}\n" for line in side).encode() for side in (head, after)]
    file = patched(*data)
    assert file.data == data[1]
    found = _with_patch(ChangedFile("f", "modified", added=added, removed=removed), file, "blob", 1)
    kept = [line for n, line in enumerate(after, 1) if n not in found.added]
    assert kept == [line for n, line in enumerate(base, 1) if n not in found.removed]
    assert set(found.removed) >= set(removed)


async def test_both_sides_read_as_git_would_store_them(tmp_path: Path) -> None:
    repo = change(tmp_path, {"a.py": "x = 1\n", "b.py": "y = 1\n"}, {"a.py": "x = 2\n"})
    async with workspace_of(repo) as workspace:
        files = {
            "a.py": patched(b"x = 2\n", b"x = 3\n"),
            "b.py": patched(b"y = 1\n", b"y = 2\nz = 3\n"),
        }
        found, contents = await with_patches(workspace.change, workspace.contents, files)
        listed = await contents.paths("head")
        for path, file in files.items():
            (tmp_path / path).write_bytes(file.data)
            assert listed[path] == ("100644", repo.git("hash-object", path))
            assert await contents.read(listed[path][1]) == file.data
        assert [(f.path, f.added, f.removed) for f in found.files] == [
            ("a.py", (1,), (1,)),
            ("b.py", (1, 2), (1,)),
        ]
        exported = tmp_path / "out"
        blobs = {path: blob for path, (_, blob) in listed.items()}
        assert await contents.export("head", blobs, exported) == {}
        assert (exported / "b.py").read_bytes() == files["b.py"].data
        assert (exported / "README.md").exists()


async def test_a_file_that_is_as_in_base_with_its_patch_is_none_of_the_change(
    tmp_path: Path,
) -> None:
    repo = change(tmp_path, {"a.py": "x = 1\n"}, {"a.py": "x = 2\n", "c.py": "c = 1\n"})
    async with workspace_of(repo) as workspace:
        back = {"a.py": patched(b"x = 2\n", b"x = 1\n")}
        found, _ = await with_patches(workspace.change, workspace.contents, back)
    assert [file.path for file in found.files] == ["c.py"]
