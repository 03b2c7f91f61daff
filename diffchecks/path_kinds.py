"""What a file is for, by its path alone: test, sample, document, vendored, generated, CI.

All code that treats such files differently uses this module, so that analyzers, rules and planning
agree.
"""

import re
from functools import lru_cache
from typing import Literal

from diffchecks.data_files import read_names, vocabulary

Kind = Literal[
    "tests", "samples", "documents", "vendored", "generated", "lock_files", "ci", "tooling",
    "migrations", "init", "stubs", "sphinx", "code",
]  # fmt: skip

# Deeper in a tree these are ordinary modules: Celery tasks, ASGI middleware.
_TOOLING_NAMES_BY_DEPTH = {"build.py": 0, "tasks.py": 0, "asgi.py": 1, "wsgi.py": 1}
_SHIPPED: frozenset[Kind] = frozenset({"code", "generated", "init", "stubs"})
_ILLUSTRATIVE: frozenset[Kind] = frozenset({"tests", "samples", "documents"})


@lru_cache(maxsize=1 << 16)
def path_kinds(path: str) -> frozenset[Kind]:
    """Every kind of file that a path is, by the usual names of files and directories.

    Returns:
        ``tests`` (with fixtures, mocks and helpers), ``samples`` (examples, benchmarks, data of
        tests, all below a documentation directory), ``documents`` (prose, and the latter),
        ``vendored``, ``generated``, ``lock_files``, ``ci`` (with container builds), ``tooling``
        (builds or maintains the project), ``migrations``, ``init`` (``__init__.py``), ``stubs``
        (``.pyi``), ``sphinx`` (its ``conf.py``), ``code``.
    """
    *directories, name = path.split("/")
    depth = len(directories)
    own = without_package_names(path).split("/")[:-1]
    kinds = _kinds_by_name(name, depth) | _kinds_by_directory(own)
    if name == "conf.py" and (depth == 0 or "documents" in kinds):
        kinds.add("sphinx")
    if "ci" in kinds and vocabulary("prose_suffix").fullmatch(name.lower()):
        kinds.discard("ci")
    # A workflow that runs the tests is not a test.
    if _has_test_name(name, depth) and ("ci" not in kinds or "code" in kinds):
        kinds.add("tests")
    return frozenset(kinds)


def is_code(path: str) -> bool:
    """Whether a file is source code, by its extension."""
    return vocabulary("code_suffix").fullmatch(_suffix(path.lower())) is not None


def is_test(path: str) -> bool:
    """Whether a file belongs to a test suite: tests, fixtures, mocks, helpers."""
    return "tests" in path_kinds(path)


def may_be_broken(path: str, why: str) -> bool:
    """Whether a file that a parser refuses is what tests read, which may be broken on purpose.

    A test itself is not. Of a parser that may not conform to its language, the path must say so.
    """
    named = vocabulary("broken_name").search(path) is not None
    *directories, name = path.split("/")
    if not is_test(path) or _has_test_name(name, len(directories)):
        return False
    if vocabulary("refused").search(why):
        return named or vocabulary("given_to_tests").search(path) is not None
    return named and vocabulary("refused_by_grammar").search(why) is not None


def is_illustrative(path: str) -> bool:
    """Whether values in a file are likely made up, since it is a test, a sample or a document."""
    return not _ILLUSTRATIVE.isdisjoint(path_kinds(path))


def is_product(path: str) -> bool:
    """Whether a file is part of the product: not a test, sample, script, CI or hidden file."""
    hidden = any(part.startswith(".") for part in path.split("/"))
    return not hidden and path_kinds(path) <= _SHIPPED


def is_public_module(path: str) -> bool:
    """Whether a Python module is part of the product and no part of its dotted name is private."""
    *directories, name = path.split("/")
    private = any(directory.startswith("_") for directory in directories) or (
        name.startswith("_") and "init" not in path_kinds(path)
    )
    return is_product(path) and not private


def is_helm_template(path: str) -> bool:
    """Whether a file is in the template directory of a Helm chart."""
    return "templates" in path.split("/")[:-1] and path.endswith((".yaml", ".yml"))


def vendored_directory(path: str) -> str | None:
    """The outermost directory above a path that is named like one for vendored code."""
    return _outermost_directory(path, "vendored_directory")


def build_directory(path: str) -> str | None:
    """The outermost directory above a path that is named like one for what a build makes."""
    return _outermost_directory(path, "build_directory")


def _outermost_directory(path: str, kind: str) -> str | None:
    found = vocabulary(kind).search(without_package_names(path))
    return path[: found.end()] if found else None


@lru_cache(maxsize=1 << 16)
def without_package_names(path: str) -> str:
    """The path, with dashes for parts of a package's name that only sound like tests or samples."""

    def blank(found: re.Match[str]) -> str:
        return "-" * len(found[0])

    return vocabulary("package").sub(
        lambda found: vocabulary("package_name").sub(blank, found[0]), path
    )


def _suffix(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    return dot + ending if stem else ""


def _kinds_by_name(name: str, depth: int) -> set[Kind]:
    lower = name.lower()
    code = is_code(name)
    prose = (
        vocabulary("prose_name").fullmatch(lower)
        and not code
        and not vocabulary("data_suffix").fullmatch(_suffix(lower))
    )
    answers: dict[Kind, object] = {
        "code": code,
        "documents": prose or vocabulary("prose_suffix").fullmatch(lower),
        "samples": vocabulary("sample_name").fullmatch(lower),
        "lock_files": name in read_names("lock_files") or vocabulary("lock_name").fullmatch(name),
        "generated": vocabulary("generated_name").fullmatch(lower),
        "vendored": vocabulary("library_name").fullmatch(lower),
        "ci": not code and vocabulary("ci_name").fullmatch(lower),
        "tooling": name in read_names("tooling_files")
        or depth <= _TOOLING_NAMES_BY_DEPTH.get(name, -1),
        "init": name in {"__init__.py", "__init__.pyi"},
        "stubs": name.endswith(".pyi"),
    }
    return {kind for kind, answer in answers.items() if answer}


def _kinds_by_directory(directories: list[str]) -> set[Kind]:
    lower = [directory.lower() for directory in directories]
    top = lower[0] if lower else ""
    answers: dict[Kind, object] = {
        "tests": vocabulary("test_directory_at_top").fullmatch(top)
        or any(map(vocabulary("test_directory").fullmatch, lower))
        or any(map(vocabulary("camel_test_directory").fullmatch, directories)),
        "samples": vocabulary("sample_directories").search("/".join(lower) + "/")
        or any(map(vocabulary("sample_directory").fullmatch, lower)),
        "documents": any(map(vocabulary("document_directory").fullmatch, lower)),
        "vendored": vendored_directory("/".join(lower) + "/") is not None,
        "generated": not read_names("generated_directories").isdisjoint(lower),
        "ci": top in read_names("ci_directories"),
        "tooling": top in read_names("tooling_directories"),
        "migrations": "migrations" in lower,
    }
    return {kind for kind, answer in answers.items() if answer}


def _has_test_name(name: str, depth: int) -> bool:
    if name == "test.py":  # deeper it is an ordinary module, which pytest does not collect
        return depth == 0
    return bool(
        vocabulary("test_name").fullmatch(name.lower())
        or vocabulary("camel_test_name").fullmatch(name)
    )
