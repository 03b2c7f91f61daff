"""The scope of a line, which tells findings with equal text apart."""

import time
from pathlib import Path

import pytest

from diffchecks import enclosing_scopes

PYTHON = """\ufeffX = 1


@decorated
class A:
    def f(self):
        def g():
            return 1
        return 2

    y = 3
"""
GO = "package a\n\nfunc (a *A) Run(x int) {\n\tif x {\n\t\tf()\n\t}\n}\n"
YAML = "jobs:\n  build:\n    steps: [a]\nx: 1\n"


def _told(root: Path, name: str, text: str, lines: list[int]) -> list[str]:
    (root / name).write_text(text)
    return enclosing_scopes.run({"root": str(root), "paths": [name], "lines": {name: lines}})[name]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.py", PYTHON, {1: "", 4: "A", 6: "A.f", 8: "A.f.g", 9: "A.f", 11: "A", 0: "", 99: ""}),
        ("a.py", "def f(:\n  x\n", {2: ""}),
        ("a.go", GO, {1: "", 3: "Run", 5: "Run", 99: ""}),
        ("a.yml", YAML, {1: "jobs", 3: "build", 4: ""}),
    ],
)
def test_the_scope_of_a_line(tmp_path: Path, name: str, text: str, told: dict[int, str]) -> None:
    assert _told(tmp_path, name, text, list(told)) == list(told.values())


def test_a_missing_file_has_no_scopes(tmp_path: Path) -> None:
    job = {"root": str(tmp_path), "paths": ["a.py"], "lines": {"a.py": [1]}}
    assert enclosing_scopes.run(job) == {}


def test_time_grows_linearly_with_lines_and_scopes(tmp_path: Path) -> None:
    text = "def f():\n pass\n" * 3000
    start = time.process_time()
    assert set(_told(tmp_path, "a.py", text, list(range(1, 6001)))) == {"f"}
    assert time.process_time() - start < 2
