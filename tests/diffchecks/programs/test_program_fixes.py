"""The fixes that external programs propose, as edits of the file that they looked at."""

from collections.abc import Callable, Mapping

import pytest

from orchestrator.code_review.analyzer_types import Side
from orchestrator.code_review.analyzers.result_cache import run_cached
from tests.diffchecks.fix_kit import apply
from tests.diffchecks.programs.program_tools import Make, Ruff, ShellCheck, Typos
from tests.review.review_kit import MemoryCache

pytestmark = pytest.mark.either_loop

Export = Callable[[Mapping[str, str | bytes]], Side]
LOOP = '#!/bin/bash\nwhile read -r h; do\n\tcp é x; ssh{} "$h" uptime\ndone < hosts\n'


async def fixed(export: Export, make: Make, code: str, path: str, text: str) -> list[str]:
    """The text with the fix of each finding that has one."""
    report = await make({code}).run(export({path: text.encode()}), [path])
    assert report.error is None
    assert report.findings
    return [apply(text, found.edits) for found in report.findings if found.edits]


@pytest.mark.parametrize(
    ("make", "code", "path", "bad", "good"),
    [
        (Ruff, "F401", "a.py", "import array\nx = 1\n", "x = 1\n"),
        (Ruff, "F401", "a.py", 'é = """\né"""; import os\n', 'é = """\né"""; \n'),
        (Ruff, "F401", "a.py", "import array\r\nx = 1\r\n", "x = 1\r\n"),
        (Ruff, "F632", "a.py", 'é = x is "w"\n', 'é = x == "w"\n'),
        (
            Ruff,
            "B006",
            "a.py",
            "def f(x=[]):\r\n    return x\r\n",
            "def f(x=None):\r\n    if x is None:\r\n        x = []\r\n    return x\r\n",
        ),
        (Ruff, "F841", "a.py", "def f():\n    a = g()\n", "def f():\n    g()\n"),
        (ShellCheck, "SC2095", "a.sh", LOOP.format(""), LOOP.format(" -n")),
        (Typos, "misspelling", "a.md", "é: you recieve it\n", "é: you receive it\n"),
        (
            Typos,
            "misspelling",
            "a.py",
            "x = 1\n  # you recieve it\n",
            "x = 1\n  # you receive it\n",
        ),
        (Typos, "misspelling", "a.py", '"""You recieve it."""\n', '"""You receive it."""\n'),
        (Typos, "misspelling", "a.go", "\t// é: you recieve it\n", "\t// é: you receive it\n"),
    ],
)
async def test_a_fix_of_the_program_becomes_edits(
    export: Export, make: Make, code: str, path: str, bad: str, good: str
) -> None:
    assert good in await fixed(export, make, code, path, bad)


@pytest.mark.parametrize(
    ("make", "code", "path", "text"),
    [
        (Ruff, "SIM222", "a.py", "def f(x):\n    if x or True:\n        return 1\n"),
        (
            Ruff,
            "F504",
            "a.py",
            '"%(a)s" % {  # ruff: noqa\n    "x": 1,\n    # ruff: noqa\n    "a": 1,\n}\n',
        ),
        (ShellCheck, "SC2115", "a.sh", '#!/bin/bash\nrm -rf "$1/"\n'),
        (Typos, "misspelling", "a.md", "We heard of its accension.\n"),
    ],
)
async def test_an_ambiguous_or_missing_fix_is_not_used(
    export: Export, make: Make, code: str, path: str, text: str
) -> None:
    assert await fixed(export, make, code, path, text) == []


@pytest.mark.parametrize(
    "data",
    [
        b"import array\nx = '''\r'''\n",
        b"import array\r\nx = 1\n",
        b"# coding: latin-1\nimport array\nx = '\xc3\xa9'\n",
    ],
)
async def test_a_file_whose_columns_may_be_counted_otherwise_gets_no_edits(
    export: Export, data: bytes
) -> None:
    report = await Ruff({"F401"}).run(export({"a.py": data}), ["a.py"])
    assert [(found.code, found.edits) for found in report.findings] == [("F401", ())]


async def test_the_column_of_a_misspelling_in_a_comment_is_that_of_the_file(export: Export) -> None:
    report = await Typos({"misspelling"}).run(export({"a.py": "  # you recieve it\n"}), ["a.py"])
    assert [found.column for found in report.findings] == [9]


async def test_edits_are_cached_with_their_finding(export: Export) -> None:
    side, kept = export({"a.py": "import array\n"}), MemoryCache()
    first = await run_cached(Ruff({"F401"}), kept, side, ["a.py"])
    second = await run_cached(Ruff({"F401"}), kept, side, ["a.py"])
    assert len(kept.entries) == 1
    assert first.findings[0].edits
    assert second.findings == first.findings
