"""Patches as agents write them: which apply, and why the others are refused."""

import subprocess
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from diffchecks.check_io import Edit
from diffchecks.fixes.patches import (
    MAX_CHANGED_LINES,
    apply_edits,
    apply_replacements,
    find_replacements,
    read_patch,
    write_patch,
)
from diffchecks.unified_diff import PatchRefused

APP = b"import os\n\n\ndef f(x):\n    return os.system(x)\n\n\ndef g(x):\n    return x\n"
HEADER = "--- a/app.py\n+++ b/app.py\n"
CALL = "-    return os.system(x)\n+    return run(x)\n"


def patched(patch: str, data: bytes = APP) -> bytes:
    (file,) = read_patch(patch)
    return apply_replacements(data, find_replacements(file, data))


@pytest.mark.parametrize(
    "patch",
    [
        f"{HEADER}@@ -4,2 +4,2 @@\n def f(x):\n{CALL}",
        f"diff --git a/app.py b/app.py\n{HEADER}@@ -4,2 +4,2 @@ def f\n def f(x):\n{CALL}",
        f"{HEADER}@@ -400,9 +2,77 @@\n def f(x):\n{CALL}",
        f"{HEADER}@@\n def f(x):\n{CALL}",
        f"{HEADER}@@ -1 +1 @@\n def f(x):\n{CALL.rstrip()}",
        f"```diff\n{HEADER}@@ -4,2 +4,2 @@\n def f(x):\n{CALL}```\n",
        f"--- app.py\n+++ app.py\n@@ -4,2 +4,2 @@\n def f(x):\n{CALL}",
    ],
    ids=["plain", "git", "wrong-numbers", "no-numbers", "no-last-end", "fenced", "no-prefix"],
)
def test_a_patch_applies_where_its_lines_stand(patch: str) -> None:
    assert patched(patch) == APP.replace(b"os.system(x)", b"run(x)")


def test_hunks_whose_numbers_run_backward_apply_where_their_lines_stand() -> None:
    second = "@@ -2,1 +2,1 @@\n def g(x):\n-    return x\n+    return -x\n"
    result = patched(f"{HEADER}@@ -40,2 +40,2 @@\n def f(x):\n{CALL}{second}")
    assert result == APP.replace(b"os.system(x)", b"run(x)").replace(b"return x", b"return -x")


REFUSED = {
    "absolute": (
        "--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n",
        "leads out of the tree",
    ),
    "parent": ("--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n", "leads out of the tree"),
    "git": ("--- a/.git/config\n+++ b/.git/config\n@@ -1 +1 @@\n-a\n+b\n", ".git"),
    "link": (
        "diff --git a/l b/l\nindex 1234567..89abcde 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-a\n+b\n",
        "not a regular file",
    ),
    "binary": ("diff --git a/x b/x\nGIT binary patch\nliteral 1\nIcmZ?\n\n", "binary"),
    "creates": ("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n", "creates x"),
    "deletes": ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n", "deletes x"),
    "renames": (
        "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n",
        "renames y",
    ),
    "mode": ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "mode"),
    "no hunk": (HEADER, "without a hunk"),
    "nothing": ("", "empty"),
    "prose": ("Use a list instead.", "not a unified diff"),
    "no change": (f"{HEADER}@@ -1 +1 @@\n import os\n", "changes nothing"),
    "twice": (2 * f"{HEADER}@@ -1 +1 @@\n-import os\n+import sys\n", "twice"),
    "large": (f"{HEADER}@@ -1 +1 @@\n-a\n+{'b' * (10 << 20)}\n", "larger than 64 KiB"),
    "long": (
        HEADER + "@@ -1,1 +1,9 @@\n import os\n" + "+x = 1\n" * (MAX_CHANGED_LINES + 1),
        "changes 61 lines, more than 60",
    ),
    "fuzz": (
        f"{HEADER}@@ -4,2 +4,2 @@\n def f(y):\n{CALL}",
        "are not in app.py from this one on: def f(y):",
    ),
    "behind the end": (
        f"{HEADER}@@ -8,3 +8,3 @@\n def g(x):\n-    return x\n+    return 2\n \n",
        "are not in app.py from this one on: an empty line",
    ),
    "several": (f"{HEADER}@@ -7,2 +7,2 @@\n \n-\n+x = 1\n", "are at 2 places in app.py"),
    "crlf": (
        f"{HEADER}@@ -4,2 +4,2 @@\n def f(x):\r\n{CALL}".replace("(x)\n", "(x)\r\n"),
        "the line ends of the patch differ from those of app.py",
    ),
    "no place": (f"{HEADER}@@ -4,0 +4,1 @@\n+x = 1\n", "no context line of app.py"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_invalid_patch_is_refused_in_one_line(name: str) -> None:
    patch, why = REFUSED[name]
    with pytest.raises(PatchRefused) as refusal:
        patched(patch)
    assert why in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 300


def test_a_patch_of_binary_contents_is_refused() -> None:
    with pytest.raises(PatchRefused, match=r"app\.py is binary"):
        patched(f"{HEADER}@@ -1 +1 @@\n-import os\n+import sys\n", b"import os\n\0")


def test_a_patch_in_windows_line_ends_fits_a_file_in_either() -> None:
    patch = f"{HEADER}@@ -4,2 +4,2 @@\n def f(x):\n{CALL}".replace("\n", "\r\n")
    for data in (APP, APP.replace(b"\n", b"\r\n")):
        assert patched(patch, data) == data.replace(b"os.system(x)", b"run(x)")


def test_patches_next_to_each_other_apply_together_and_overlapping_ones_do_not() -> None:
    first = f"{HEADER}@@ -1,2 +1,1 @@\n-import os\n \n"
    second = f"{HEADER}@@ -1,2 +1,3 @@\n import os\n+import sys\n \n"
    third = f"{HEADER}@@ -1,2 +1,2 @@\n-import os\n+import re\n \n"
    parts = {
        name: find_replacements(read_patch(patch)[0], APP)
        for name, patch in (("first", first), ("second", second), ("third", third))
    }
    together = apply_replacements(APP, [*parts["first"], *parts["second"], *parts["second"]])
    assert together == APP.replace(b"import os", b"import sys")
    with pytest.raises(PatchRefused, match="another patch changes the same lines"):
        apply_replacements(APP, [*parts["first"], *parts["third"]])


TEXT = st.lists(st.sampled_from(["a", "b", "", "é", "x\r", "\f"]), max_size=8).map("\n".join)


@given(TEXT, TEXT, st.booleans(), st.booleans())
def test_a_written_patch_leads_from_one_text_to_the_other(
    old: str, new: str, old_end: bool, new_end: bool
) -> None:
    before, after = (
        (text + "\n" * (end and bool(text))).encode()
        for text, end in ((old, old_end), (new, new_end))
    )
    if before == after or b"\n" not in before or not before.endswith(b"\n"):
        return
    patch = write_patch({"f": before}, {"f": after})
    if not after.endswith(b"\n"):
        return  # whether a file ends in a line end is no change of lines
    (file,) = read_patch(patch)
    if all(not [text for marker, text in hunk.lines if marker != b"+"] for hunk in file.hunks):
        return
    assert apply_replacements(before, find_replacements(file, before)) == after


def test_git_applies_written_patches(tmp_path: Path) -> None:
    before = "é = 1\nb\nc".encode()
    after = "é = 2\nb\nc\nd".encode()
    (tmp_path / "a b.py").write_bytes(before)
    patch = write_patch({"a b.py": before}, {"a b.py": after})
    subprocess.run(["git", "apply"], cwd=tmp_path, input=patch.encode(), check=True)
    assert (tmp_path / "a b.py").read_bytes() == after


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "a\tb"])
def test_a_name_that_a_patch_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(PatchRefused, match="a patch cannot name"):
        write_patch({name: b"a\n"}, {name: b"b\n"})


def test_edits_replace_insert_and_delete_by_characters() -> None:
    text = "é = f(x)\nend"
    edits = [Edit(1, 5, 1, 6, "gg"), Edit(1, 1, 1, 1, "# "), Edit(2, 1, 2, 4, "")]
    assert apply_edits(text, [*edits, edits[0]]) == "# é = gg(x)\n"
    assert apply_edits("a\nb\n", [Edit(1, 1, 2, 1, "")]) == "b\n"
    assert apply_edits("a\nb", [Edit(2, 2, 2, 2, "\nc")]) == "a\nb\nc"


@pytest.mark.parametrize(
    "edits",
    [
        [Edit(1, 1, 1, 3, ""), Edit(1, 2, 1, 4, "")],
        [Edit(9, 1, 9, 1, "x")],
        [Edit(1, 9, 1, 9, "x")],
        [Edit(0, 1, 1, 1, "x")],
        [Edit(1, 0, 1, 1, "x")],
        [Edit(2, 1, 1, 1, "x")],
    ],
)
def test_edits_that_overlap_or_lie_outside_are_refused(edits: list[Edit]) -> None:
    with pytest.raises(PatchRefused):
        apply_edits("abcd\nef\n", edits)


def test_a_byte_order_mark_stays_first_and_no_patch_has_to_know_it() -> None:
    mark = b"\xef\xbb\xbf"
    first = f"{HEADER}@@ -1 +1,2 @@\n-import os\n+import os\n+import ast\n"
    expected = mark + APP.replace(b"import os\n", b"import os\nimport ast\n")
    assert patched(first, mark + APP) == expected
    written = write_patch({"app.py": mark + APP}, {"app.py": expected})
    assert patched(written, mark + APP) == expected
