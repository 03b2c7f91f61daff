"""What a Python file is, by its path alone: test, shipped, public."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

_TEST_DIRECTORIES = frozenset(["test", "tests", "__tests__", "spec", "specs", "e2e"])
_NOT_API_DIRECTORIES = _TEST_DIRECTORIES | frozenset(
    [
        "benchmarks",
        "doc",
        "docs",
        "example",
        "examples",
        "migrations",
        "node_modules",
        "samples",
        "third_party",
        "typings",
        "vendor",
        "vendored",
    ]
)
_NOT_API_AT_ROOT = frozenset(["bench", "bin", "build", "ci", "contrib", "hack", "scripts", "tools"])
_NOT_API_FILES = frozenset(
    [
        "asgi.py",
        "build.py",
        "conf.py",
        "dodo.py",
        "fabfile.py",
        "hatch_build.py",
        "manage.py",
        "noxfile.py",
        "pdm_build.py",
        "setup.py",
        "tasks.py",
        "toxfile.py",
        "versioneer.py",
        "wsgi.py",
    ]
)


def is_test_path(path: str) -> bool:
    """Whether a Python file is part of a test suite, by its name and directories."""
    parts = PurePosixPath(path).parts
    name = parts[-1]
    return (
        not _TEST_DIRECTORIES.isdisjoint(parts[:-1])
        or parts[0] == "testing"
        or name.startswith("test_")
        or name.endswith("_test.py")
        or name in {"conftest.py", "tests.py"}
    )


def is_product_path(path: str) -> bool:
    """Whether a Python file belongs to what is shipped: no test, example, script or build file."""
    parts = PurePosixPath(path).parts
    return not (
        is_test_path(path)
        or not _NOT_API_DIRECTORIES.isdisjoint(parts[:-1])
        or (len(parts) > 1 and parts[0] in _NOT_API_AT_ROOT)
        or (len(parts) > 1 and parts[0].startswith(("doc", "example", "sample", "test")))
        or parts[-1] in _NOT_API_FILES
        or any(part.startswith(".") for part in parts)
    )


def is_public_path(path: str) -> bool:
    """Whether a module is shipped and no part of its name is private."""
    parts = PurePosixPath(path).parts
    private = any(part.startswith("_") for part in parts[:-1]) or (
        parts[-1].startswith("_") and parts[-1] not in {"__init__.py", "__init__.pyi"}
    )
    return is_product_path(path) and not private


def nearest(path: str, candidates: Iterable[str]) -> str | None:
    """The candidate that shares most leading directories; then the least deep, then by name."""
    own = PurePosixPath(path).parts[:-1]

    def distance(other: str) -> tuple[int, int, str]:
        parts = PurePosixPath(other).parts[:-1]
        shared = 0
        while shared < min(len(own), len(parts)) and own[shared] == parts[shared]:
            shared += 1
        return -shared, len(parts), other

    return min(candidates, key=distance, default=None)
