"""Which changed files decide what a run of the tests does and says, besides the code under test."""

import re
import sys
from collections.abc import Collection, Iterable, Sequence

from orchestrator.checks.path_kinds import is_test

_SETUP_NAME = re.compile(
    r"conftest\.py|(?:site|user)customize\.py|.*\.pth|pytest\.(?:ini|toml)|\.pytest\.(?:ini|toml)"
    r"|tox\.(?:ini|toml)|setup\.(?:cfg|py)|pyproject\.toml|noxfile\.py|toxfile\.py|\.coveragerc"
    r"|(?:gnu)?makefile|.*\.mk|justfile|taskfile\.ya?ml|cmakelists\.txt|ctest.*\.cmake"
    r"|package\.json|\.mocharc.*|\.npmrc|\.yarnrc.*|\.nycrc.*|babel\.config\..*|\.babelrc.*"
    r"|(?:jest|vitest|vite|karma|ava|cypress|playwright|wdio|nyc)[.-].*"
    r"|\.rspec|rakefile|gemfile|phpunit.*\.xml(?:\.dist)?|composer\.json"
    r"|pom\.xml|.*\.gradle(?:\.kts)?|gradle\.properties|build\.(?:sbt|rs)|cargo\.toml|nextest\.toml"
    r"|.*\.runsettings|directory\.build\.(?:props|targets)"
)
_RUNNERS = frozenset({"_pytest", "pytest", "pluggy", "iniconfig", "nose2", "xdist", "pytest_cov"})


def find_test_setup_files(
    changed: Iterable[str], command: Sequence[str], before: Collection[str]
) -> list[str]:
    """The changed files that can make a run of the tests say what it does not show.

    These are tests, configuration and hooks of their runner, files that the command names, and new
    modules with the name of a module of the runner or of Python itself.

    Args:
        changed: paths on both sides.
        command: what runs the tests.
        before: paths of all files of base.
    """
    named = {word.removeprefix("./") for word in command}
    modules = {word.replace(".", "/") for word in command}
    in_base = {path.partition("/")[0] for path in before}

    def decides(path: str) -> bool:
        top = path.partition("/")[0]
        stem = re.sub(r"(/__(?:init|main)__)?\.py$", "", path)
        hides = top not in in_base and top.removesuffix(".py") in _RUNNERS | sys.stdlib_module_names
        return (
            is_test(path)
            or _SETUP_NAME.fullmatch(path.rpartition("/")[2].lower()) is not None
            or path in named
            or (path.endswith(".py") and stem in modules)
            or (hides and path.endswith((".py", ".so")))
        )

    return sorted({path for path in changed if decides(path)})
