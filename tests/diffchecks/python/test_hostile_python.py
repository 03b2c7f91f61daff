"""Files written to break parsers end as gaps; nothing is printed and nothing is imported."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from diffchecks.api import api_breakage
from diffchecks.doc_quality import docstrings
from diffchecks.imports import import_graph_changes
from diffchecks.python import complexity
from diffchecks.test_quality import weakened_tests
from tests.diffchecks.check_kit import run_check

CHECKS = (api_breakage, complexity, docstrings, import_graph_changes, weakened_tests)
DEEP = 2000

HOSTILE = {
    "brackets": "x = " + "(" * 150 + ")" * 150 + "\n",
    "minuses": "x = " + "-" * 20_000 + "1\n",
    "attributes": "x = a" + ".b" * 6_000 + "\n",
    "additions": "x = " + "1 + " * 6_000 + "1\n",
    "calls": "x = f" + "()" * 6_000 + "\n",
    "ifs": "if a:\n    pass\n" + "elif a:\n    pass\n" * DEEP,
    "blocks": "".join(" " * at + "if a:\n" for at in range(95)) + " " * 95 + "pass\n",
    "classes": "".join(" " * at + f"class C{at}:\n" for at in range(95)) + " " * 95 + "x = 1\n",
    "nul": "x = 1\0\n",
    "encoding": b"# coding: utf-16\nx = 1\n",
    "not text": bytes(range(256)),
    "syntax": "def f(:\n",
    "two": "print 'two'\n",
    "large": "x = 1\n" * 3_000,
    "bases": "class A(B): ...\nclass B(A): ...\n",
    "stars": "from . import *\nfrom .__init__ import *\n__all__ = [*x]\n__all__ += y\n",
    "escapes": "x = '\\d' is 1\nassert (x, 'y')\n",
    "empty": "",
}


@pytest.mark.parametrize(
    ("module", "path"),
    [*((module, "pkg/mod.py") for module in CHECKS), (weakened_tests, "tests/test_mod.py")],
)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_examined_or_a_gap(
    compare: Callable[..., Any],
    capfd: pytest.CaptureFixture[str],
    module: ModuleType,
    name: str,
    path: str,
) -> None:
    tame = "def f(a, b):\n    return 1\n\n\nclass A:\n    pass\n"
    rest = {
        "pyproject.toml": "",
        "pkg/__init__.py": "from .mod import f\n",
        "pkg/z.py": tame,
        "tests/test_z.py": "def test_z():\n    assert True\n",
    }
    for base, head in ((tame, HOSTILE[name]), (HOSTILE[name], tame), (None, HOSTILE[name])):
        before = rest if base is None else rest | {path: base}
        reply = compare(module, before, rest | {path: head, "pkg/z.py": tame + "x = 1\n"})
        assert "pkg/z.py" in reply.examined
        assert all(isinstance(why, str) and why for why in reply.gaps.values())
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("module", CHECKS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_odd_names_survive(compare: Callable[..., Any], module: ModuleType) -> None:
    odd = "pkg/na\udcffme with 'quotes'\n and é.py"
    tests = {"tests/test_z.py": "def test_z():\n    assert True\n"}
    rest = {"pyproject.toml": "", "pkg/__init__.py": "", **tests}
    reply = compare(module, rest | {odd: "def f(a): ...\n"}, rest | {odd: "def f(): ...\n"})
    assert reply.examined == [odd]


@pytest.mark.parametrize("module", CHECKS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_mode_changes_links_and_vanished_files(
    compare: Callable[..., Any], module: ModuleType
) -> None:
    assert module.__doc__
    job = {
        "base_root": "/nonexistent",
        "head_root": "/nonexistent",
        "base_tree": ["a.py", "b.py", "test_a.py"],
        "head_tree": ["a.py", "b.py", "test_a.py"],
        "files": [
            {"path": "a.py", "old_path": "a.py", "status": "mode", "added": [], "removed": []},
            {"path": "b.py", "old_path": "b.py", "status": "type", "added": [1], "removed": [1]},
        ],
    }
    reply = run_check(module.run, job)
    assert reply.findings == []
    assert reply.gaps == {"b.py": "cannot be read: No such file or directory"}
