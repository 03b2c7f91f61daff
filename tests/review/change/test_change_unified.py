"""The patch reader: everything that diff and git write, and nothing else."""

import difflib
import random

import pytest

from diffchecks.unified_diff import (
    FilePatch,
    PatchRefused,
    Reader,
    parse_header_name,
    parse_opening_names,
    quote,
    strip_level,
    unquote,
)
from orchestrator.code_review.change.change_from_patch import render_side

HEAD = b"--- a/x.py\n+++ b/x.py\n"


BINARY = b"literal 3\nKcmYdfNCp4_i2%g_\n\nliteral 3\nKcmYdfNCE%>hycU@\n\n"


def read(patch: bytes) -> list[FilePatch]:
    return list(Reader(patch, "p.diff").files())


def refused(patch: bytes) -> str:
    with pytest.raises(PatchRefused) as caught:
        read(patch)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_plain_diff():
    (file,) = read(
        b"diff -ru a/x.py b/x.py\n--- a/x.py\t2024-01-01 00:00:00.0 +0000\n+++ b/x.py\t2024\n"
        b"@@ -1,3 +1,4 @@ def f():\n one\n-two\n+2\n+2.5\n three\n"
    )
    assert file.names == (b"a/x.py", b"b/x.py")
    assert (file.line, file.end) == (2, 10)
    assert [m + t for m, t in file.hunks[0].lines] == [
        b" one\n", b"-two\n", b"+2\n", b"+2.5\n", b" three\n",
    ]  # fmt: skip


def test_no_newline_at_the_end():
    (file,) = read(
        HEAD + b"@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"
    )
    assert file.hunks[0].lines == [(b"-", b"a"), (b"+", b"b")]


def test_a_mail_with_a_series():
    mail = (
        b"From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001\n"
        b"From: Ann <a@example.org>\nSubject: [PATCH] x\n\n- a list\n+ of things\n---\n"
        b" x | 2 +-\n 1 file changed\n\n"
        b"diff --git a/x b/x\nindex 1234567..89abcde 100644\n--- a/x\n+++ b/x\n"
        b"@@ -1 +1 @@\n-a\n+b\n-- \n2.39.5\n\n"
    )
    second = mail.replace(b"a/x b/x", b"a/y b/y").replace(b"-- a/x", b"-- a/y")
    files = read(mail + second.replace(b"++ b/x", b"++ b/y"))
    assert [file.names[1] for file in files] == [b"b/x", b"b/y"]


def test_output_of_git_show():
    (file,) = read(
        b"commit 0123456789abcdef0123456789abcdef01234567\nAuthor: A <a@b>\n"
        b"Date:   now\n\n    x\n\n"
        b"diff --git a/x b/x\nindex 1234567..89abcde 100644\n--- a/x\n+++ b/x\n"
        b"@@ -1 +1 @@\n-a\n+b\n"
    )
    assert file.hunks


def test_headers_without_hunks():
    files = read(
        b"diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"
        b"diff --git a/old name b/new name\nsimilarity index 100%\nrename from old name\n"
        b"rename to new name\n"
        b"diff --git a/empty one b/empty one\nnew file mode 100644\nindex 0000000..e69de29\n"
        b"diff --git a/none b/none\ndeleted file mode 100644\nindex e69de29..0000000\n"
        b"diff --git a/i.png b/i.png\nindex 1234567..89abcde 100644\n"
        b"Binary files a/i.png and b/i.png differ\n"
        b"diff --git a/j.png b/j.png\nindex 1234567..89abcde 100644\nGIT binary patch\n" + BINARY
    )
    assert [file.binary for file in files] == [False] * 4 + [True] * 2
    assert [file.created for file in files] == [False, False, True, False, False, False]
    assert files[2].names == (b"a/empty one", b"b/empty one")
    assert files[4].has_data is False


def test_a_stripped_context_line_and_carriage_returns():
    (file,) = read(HEAD + b"@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n")
    assert file.hunks[0].lines[1] == (b" ", b"\n")
    reader = Reader((HEAD + b"@@ -1,2 +1,2 @@\n a\n-b\n+c\n").replace(b"\n", b"\r\n"), "p")
    (file,) = reader.files()
    assert reader.crlf
    assert file.hunks[0].lines == [(b" ", b"a\n"), (b"-", b"b\n"), (b"+", b"c\n")]
    reader = Reader(HEAD + b"@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n", "p")
    (file,) = reader.files()
    assert not reader.crlf
    assert file.hunks[0].lines[0] == (b" ", b"a\r\n")


def test_contents_that_look_like_headers():
    (file,) = read(
        HEAD + b"@@ -1,3 +1,3 @@\n--- a/y\n-diff --git a/z b/z\n-@@ -1 +1 @@\n"
        b"+++ b/y\n+-- \n+commit 0123456789\n"
    )
    assert len(file.hunks[0].lines) == 6


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        (HEAD + b"@@ -1,3 +1,3 @@\n a\n-b\n", ":5: the patch was cut short: the hunk of line 3"),
        (HEAD + b"@@ -1,3 +1,3 @@\n a\n-b\n+c\n d", ":7: the patch was cut short"),
        (HEAD + b"@@ -1,2 +1,2 @@\n a\ndiff --git a/y b/y\n", ":5: the hunk of line 3 is shorter"),
        (HEAD + b"@@ -1 +1 @@\n-a\n+b\n+c\n", ":6: a line that belongs to no hunk"),
        (HEAD + b"@@ -1 +1 @@\n-a\n+b\n c\n", ":6: a line that belongs to no hunk"),
        (HEAD + b"@@ -1,1 +1,2 @@\n a\n-b\n+c\n", ":5: the hunk of line 3 does not fit"),
        (HEAD + b"@@ -1 +1 @@\n-a\n\\ No newline\n-a\n+b\n", ":6: the hunk of line 3 does"),
        (HEAD + b"@@ -1,2 +1 @@\n-a\n\\ No newline\n-a\n+b\n", ":6: the hunk of line 3 does not"),
        (HEAD + b"@@ -a +1 @@\n-a\n+b\n", ":3: an unreadable hunk header"),
        (HEAD + b"@@ -1 +1\n-a\n+b\n", ":3: an unreadable hunk header"),
        (HEAD + b"@@ -0 +1 @@\n-a\n+b\n", ":3: an impossible hunk header"),
        (HEAD + b"@@ -1,0 +1,0 @@\n", ":3: an impossible hunk header"),
        (HEAD + b"@@ -999999999 +999999999 @@\n-a\n+b\n", ":3: a line number above 1000000"),
        (
            HEAD + b"@@ -9 +9 @@\n-a\n+b\n@@ -1 +1 @@\n-a\n+b\n",
            ":6: its line numbers do not follow",
        ),
        (
            HEAD + b"@@ -9 +9,2 @@\n-a\n+b\n+c\n@@ -20 +20 @@\n-a\n+b\n",
            ":7: its line numbers do not",
        ),
        (HEAD + b"@@ -3 +5 @@\n-a\n+b\n", ":3: its line numbers do not follow"),
        (HEAD, ":3: a file header without a hunk"),
        (HEAD + b"nonsense\n", ":3: a file header without a hunk"),
        (b"--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", ":1: neither side is a file"),
        (b"--- /dev/null\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", ":1: a hunk with lines on the side"),
        (b"@@ -1 +1 @@\n-a\n+b\n", ":1: a hunk without a file header"),
        (b"-a\n+b\n", ":1: this is not a unified diff"),
        (b"--- \n+++ \n@@ -1 +1 @@\n-a\n+b\n", ":1: no file name after --- or +++"),
        (b"\x1b[1mdiff --git a/x b/x\x1b[m\n", ":1: this diff is colored"),
        (b"\n\nhello\n", ":3: this is not a unified diff"),
        (b"\x00\x01\x02", ":1: this is not a unified diff"),
        (b"Subject: nothing here\n\ntext\n", ":1: it contains no diff"),
        (
            b"diff --cc x\nindex 1,2..3\n--- a/x\n+++ b/x\n@@@ -1,1 -1,1 +1,1 @@@\n",
            ":1: a combined",
        ),
        (b"diff --combined x\n", ":1: a combined diff"),
        (HEAD + b"@@ -1 +1 @@\n-a\n+b\n* Unmerged path y\n", ":6: an unmerged path"),
        (b"Only in b: new.py\n", ":1: a file whose contents are not in the patch"),
        (b"diff -q a b\nFiles a/x and b/x differ\n", ":2: files whose contents are not"),
        (b"*** a/x\n--- b/x\n***************\n*** 1 ****\n! a\n--- 1 ----\n! b\n", ":3: a context"),
        (b"diff --git a/x b/x\n", ":2: a file header with nothing after it"),
        (
            b"diff --git a/x b/x\nindex 1234567..89abcde 100644\n",
            ":3: a file header without content",
        ),
        (
            b"diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n",
            ":5: a file hea",
        ),
        (b"diff --git a/x b/y\nsimilarity index 100%\nrename from x\n", "'rename to' is missing"),
        (b"diff --git a/x b/x\nold mode 100644\n", "'new mode' is missing"),
        (b"diff --git a/x b/x\nnew file mode 100644\nindex 0000000..89abcde\n", ":4: its contents"),
        (b"diff --git a/x b/x\nnew file mode 100644\n", ":3: a file header without a hunk"),
        (b"diff --git a/x b/x\nnew file mode 100644\n" + HEAD + b"@@ -1 +1 @@\n-a\n+b\n", "disag"),
        (
            b"diff --git a/x y b/z\nold mode 100644\nnew mode 100755\n",
            "names cannot be distinguished",
        ),
        (
            b"diff --git a/x b/x\nindex 1..2\nGIT binary patch\n",
            ":4: a binary patch without contents",
        ),
        (
            b"diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 3\nKcmZQzWMXDvWn<^y<l^S\n",
            "cut",
        ),
        (HEAD + b"@@ -1 +1 @@\n-a\n+b\ndiff --gi", ":6: the last line has no end"),
        (b"Submodule lib 1234567..89abcde:\n  > x\n", ":1: this is not a unified diff"),
        (HEAD + b"@@ -1 +1 @@\n-a\n+b\nSubmodule lib 1234567..89abcde:\n", ":6: a submodule's log"),
    ],
)
def test_an_incomplete_patch_is_refused_with_its_line(patch, told):
    assert told in refused(patch)


def random_change(seed: int) -> tuple[list[bytes], list[bytes]]:
    dice = random.Random(seed)
    words = [b"alpha", b"beta", b"", b"-- ", b"++ x", b"@@ -1 +1 @@", b"diff --git a/q b/q", b"\r"]
    old = [dice.choice(words) + b"\n" for _ in range(dice.randrange(40))]
    new = list(old)
    for _ in range(dice.randrange(1, 8)):
        at = dice.randrange(len(new) + 1)
        if dice.random() < 0.5:
            new.insert(at, dice.choice(words) + b"!\n")
        elif at < len(new):
            del new[at]
    for side in (old, new):
        if side and dice.random() < 0.3:
            side[-1] = side[-1].removesuffix(b"\n") or b"x"
    return old, new


def unified(old: list[bytes], new: list[bytes], context: int) -> bytes:
    lines = []
    for line in difflib.diff_bytes(
        difflib.unified_diff, old, new, b"a/x.py", b"b/x.py", n=context, lineterm=b"\n"
    ):
        end = b"" if line.endswith(b"\n") else b"\n\\ No newline at end of file\n"
        lines.append(line + end)
    return b"".join(lines)


@pytest.mark.parametrize("seed", range(60))
def test_known_lines_stand_at_their_numbers(seed):
    old, new = random_change(seed)
    for context in (0, 1, 3):
        patch = unified(old, new, context)
        if not patch:
            continue
        (file,) = read(patch)
        for side, head in ((old, False), (new, True)):
            shown = render_side(file.hunks, head).split(b"\n")
            for hunk in file.hunks:
                start = hunk.new_start if head else hunk.old_start
                count = hunk.new_count if head else hunk.old_count
                for number in range(start, start + count):
                    assert shown[number - 1] == side[number - 1].removesuffix(b"\n")
        if context == 3 and len(file.hunks) == 1 and file.hunks[0].old_count == len(old):
            assert render_side(file.hunks, True) == b"".join(new)


def test_a_patch_that_is_cut_anywhere_is_never_taken_for_the_whole():
    patch = (
        b"diff --git a/one.py b/one.py\nindex 1234567..89abcde 100644\n--- a/one.py\n+++ b/one.py\n"
        b"@@ -1,2 +1,2 @@\n a\n-b\n+c\n@@ -9,2 +9,3 @@\n x\n+y\n z\n"
        b"diff --git a/two.py b/two.py\nnew file mode 100644\nindex 0000000..89abcde\n"
        b"--- /dev/null\n+++ b/two.py\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"
        b"diff --git a/three b/four\nsimilarity index 90%\nrename from three\nrename to four\n"
        b"index 1234567..89abcde 100644\n--- a/three\n+++ b/four\n@@ -1 +1 @@\n-a\n+b\n"
    )
    whole = read(patch)
    taken = set()
    for cut in range(1, len(patch)):
        try:
            files = read(patch[:cut])
        except PatchRefused:
            continue
        taken.add(cut)
        if patch[cut:].startswith(b"\\ No"):
            continue
        for file, full in zip(files, whole, strict=False):
            assert file.hunks == full.hunks[: len(file.hunks)]
    ends = {
        patch.index(mark) for mark in (b"@@ -9", b"diff --git a/two", b"\\ No", b"diff --git a/th")
    }
    assert taken == ends  # between whole hunks nobody could tell


@pytest.mark.parametrize(
    "name", [b"x", b"a b", b'q"u', b"new\nline", b"tab\t", b"\xff\xfe", b"back\\slash", b"\x07\x7f"]
)
def test_quoted_names(name):
    assert unquote(quote(name)) == name
    assert parse_header_name(quote(name)) == name
    assert parse_opening_names(quote(b"a/" + name) + b" " + quote(b"b/" + name)) == (
        b"a/" + name, b"b/" + name,
    )  # fmt: skip


def test_prefixes():
    assert strip_level([(b"a/x", b"b/x"), (None, b"b/y")]) == 1
    assert strip_level([(b"src/x", b"src/x")]) == 0
    assert strip_level([(b"x-1.0/src/x", b"x-1.1/src/x")]) == 1
    assert strip_level([(b"x.orig", b"x")]) == 0
    assert strip_level([(b"i/x", b"w/x")]) == 1
    assert strip_level([(None, b"src/x")]) == 0
