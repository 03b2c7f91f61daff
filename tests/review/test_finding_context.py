"""The context of a finding: its function in any language, else the lines around it."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.code_review.findings.finding_context import MAX_BLOCK, enclosing_names, find_block

PYTHON = """\
import os


@route("/x")
@login_required
def run(
    name,
):
    if name:
        os.system(name)
    return 1


LIMIT = 3
"""
GO = 'package a\n\nfunc (s *Shop) Run(x string) {\n\tif x != "" {\n\t\tsh(x)\n\t}\n}\n\nvar y = 1\n'
ALLMAN = "class A\n{\n    void Run(string x)\n    {\n        if (x)\n        {\n            Sh(x);\n        }\n    }\n\n    int y;\n}\n"
ARROW = "const run = (x) => {\n  const y = [\n    sh(x),\n  ];\n};\nrun(1);\n"
RUBY = "class A\n  def run(x)\n    unless x.nil?\n      system(x)\n    end\n  end\nend\n"
BARE = "class A\n  def run\n    sh(1)\n  end\nend\n"
DOCKER = "FROM a\n\nRUN curl x | sh\nRUN make\n\nCMD a\n"
METHODS = "class A(B):\n    limit = 1\n\n    def run(self):\n        return 1\n"


POINTER = """\
struct item *find(struct list *all,
                  int key)
{
\tif (!all)
\t\treturn NULL;
\tsay("no such method %d", key);
\treturn NULL;
}
"""


@pytest.mark.parametrize(
    ("text", "line", "lines", "name"),
    [
        (PYTHON, 10, (4, 11), "run"),
        (PYTHON, 6, (4, 11), "run"),
        (PYTHON, 14, (14, 14), ""),
        (PYTHON, 1, (1, 1), ""),
        (GO, 5, (3, 7), "Run"),
        (GO, 9, (9, 9), ""),
        (ALLMAN, 7, (3, 9), "Run"),
        (POINTER, 5, (1, 8), "find"),
        (POINTER, 6, (1, 8), "find"),
        (
            POINTER.replace("\tsay", "#ifdef LOUD\n\tsay").replace(
                "\treturn NULL;\n}", "#endif\n\treturn NULL;\n}"
            ),
            9,
            (1, 10),
            "find",
        ),
        (ARROW, 3, (1, 5), "run"),
        (RUBY, 4, (2, 6), "run"),
        (BARE, 3, (2, 4), "run"),
        (BARE.replace("def ", "def self."), 3, (2, 4), "run"),
        (BARE.replace("def run", "defp run do"), 3, (2, 4), "run"),
        (BARE.replace("def run", "def run: Int = {"), 3, (2, 4), "run"),
        (BARE.replace("def run", "function run {"), 3, (2, 4), "run"),
        (BARE.replace("def run", "func (s *Shop) run() {"), 3, (2, 4), "run"),
        (DOCKER, 3, (3, 4), ""),
        (METHODS, 2, (1, 2), ""),
        (METHODS, 5, (4, 5), "run"),
    ],
)
def test_a_finding_stands_in_its_function_or_between_blank_lines(
    text: str, line: int, lines: tuple[int, int], name: str
) -> None:
    block = find_block(text.rstrip("\n").split("\n"), line, line)
    assert ((block.start, block.end), block.name) == (lines, name)


def test_a_function_that_returns_a_struct_has_its_own_name() -> None:
    assert "find" in enclosing_names(POINTER.split("\n"), 5)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("    if name:", "\tif   name :", True),
        ("    return 1", "    # why\n    return 1", True),
        ("LIMIT = 3", "LIMIT = 4\n\n\ndef other(x):\n    return x", True),
        ("    if name:", "    if name or True:", False),
        ("@login_required\n", "", False),
        ("    return 1", "    return 2", False),
    ],
)
def test_its_digest_is_of_the_code_that_it_stands_in_alone(old: str, new: str, same: bool) -> None:
    changed = PYTHON.replace(old, new)
    before, after = (
        find_block(lines, at, at)
        for lines in (PYTHON.split("\n"), changed.split("\n"))
        for at in [lines.index("        os.system(name)") + 1]
    )
    assert (before.digest == after.digest) is same


TEXTS = st.lists(
    st.sampled_from(["", " ", "\t", "def f(", "    x", "):", "{", "  }", "end", "a) {", "@b", "#", "if"])
    | st.text(max_size=20),
    min_size=1,
    max_size=30,
)  # fmt: skip


@given(TEXTS, st.data())
def test_any_text_has_a_block_around_any_of_its_lines(
    lines: list[str], data: st.DataObject
) -> None:
    start = data.draw(st.integers(1, len(lines)))
    end = data.draw(st.integers(start, len(lines)))
    block = find_block(lines, start, end)
    assert 1 <= block.start <= start <= end <= block.end <= len(lines)
    assert block.start >= start - MAX_BLOCK


def test_a_line_with_ten_thousands_of_blanks_takes_no_time() -> None:
    began = time.process_time()
    assert find_block([" " * 20_000 + "x"], 1, 1).end == 1
    assert time.process_time() - began < 1


def test_a_line_of_a_long_file_is_placed_by_the_lines_near_it() -> None:
    looked_at = set[object]()

    class Lines(list[str]):
        def __getitem__(self, at: Any) -> Any:
            looked_at.add(repr(at))
            return super().__getitem__(at)

    find_block(Lines(["call()"] * 5_000), 5_000, 5_000)
    assert len(looked_at) < 2 * MAX_BLOCK
