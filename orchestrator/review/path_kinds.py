"""Kinds of file, by name: where some rules do not speak."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal

Place = Literal["tests", "samples", "init", "stubs", "sphinx"]

_TEST_NAMES = (
    "test_*",
    "*_test.*",
    "*.test.*",
    "*.spec.*",
    "conftest.py",
    "tests.py",
    "*Test.java",
    "*_spec.rb",
)
_TEST_FOLDERS = frozenset(
    {"tests", "test", "testing", "__tests__", "spec", "testdata", "fixtures", "e2e"}
)
_SAMPLE_FOLDERS = frozenset(
    {
        "doc",
        "docs",
        "docs_src",
        "example",
        "examples",
        "sample",
        "samples",
        "demo",
        "demos",
        "tutorial",
        "tutorials",
        "bench",
        "benchmark",
        "benchmarks",
    }
)


def is_test(path: str) -> bool:
    """Whether a file is a test, by its name and the folders it lies in."""
    *folders, name = path.split("/")
    return not _TEST_FOLDERS.isdisjoint(folders) or any(
        fnmatchcase(name, pattern) for pattern in _TEST_NAMES
    )


def stands_in(path: str, places: Iterable[Place]) -> bool:
    """Whether a file is of one of these kinds."""
    return any(_is(path, place) for place in places)


def _is(path: str, place: Place) -> bool:
    *folders, name = path.split("/")
    match place:
        case "tests":
            return is_test(path)
        case "samples":
            return not _SAMPLE_FOLDERS.isdisjoint(folders)
        case "init":
            return name in {"__init__.py", "__init__.pyi"}
        case "stubs":
            return name.endswith(".pyi")
        case "sphinx":  # run by Sphinx with names of its own
            return name == "conf.py"
