"""Finds changed files that influence a test run, other than the code under test."""

import re
import sys
from collections.abc import Collection, Sequence

from diffchecks.data_files import read_names, vocabulary
from diffchecks.path_kinds import is_test


def find_test_setup_files(
    changed: Collection[str], command: Sequence[str], before: Collection[str]
) -> dict[str, bool]:
    """Find changed files that can falsify the result of a test run, sorted.

    These are tests, configuration and hooks of the test runner, files that the command names, and
    new modules that shadow a module of the runner or of Python itself.

    Args:
        changed: paths on both sides.
        before: paths of all files of base.

    Returns:
        Path → whether it affects all tests: it is not a test and nothing else.
    """
    named = {word.removeprefix("./") for word in command}
    modules = {word.replace(".", "/") for word in command}
    in_base = {path.partition("/")[0] for path in before}

    def is_infrastructure(path: str) -> bool:
        top, name = path.partition("/")[0], path.rpartition("/")[2].lower()
        stem = re.sub(r"(/__(?:init|main)__)?\.py$", "", path)
        hides = top not in in_base and top.removesuffix(".py") in sys.stdlib_module_names
        replaces = path not in before and not read_names("test_runners").isdisjoint(stem.split("/"))
        return (
            vocabulary("test_setup_name").fullmatch(name) is not None
            or path in named
            or "node_modules" in path.split("/")
            or (path.endswith(".py") and stem in modules)
            or ((hides or replaces) and path.endswith((".py", ".so")))
        )

    infrastructure = {path for path in changed if is_infrastructure(path)}
    return {
        path: path in infrastructure
        for path in sorted(changed)
        if path in infrastructure or is_test(path)
    }
