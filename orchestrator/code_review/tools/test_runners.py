"""Which program runs one test file, told from the command that runs all of them."""

import os
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import Struct, convert

from orchestrator.catalog.settings import Tests
from orchestrator.data_directories import read_table
from orchestrator.errors import InputError

TEST, REPORT, DIRECTORY = "{test}", "{report}", "{directory}"


class Runner(Struct, frozen=True):
    """A program that runs tests; ``test_runners.yaml`` says what its fields mean."""

    __test__ = False

    name: str
    words: tuple[str, ...]
    options: tuple[str, ...]
    names: str
    language: str
    format: str
    example: str
    exception: str = "its own"
    imports: str = ""
    rest: str = ""
    compiling: str = ""


RUNNERS = convert(read_table(__file__, "test_runners.yaml"), tuple[Runner, ...])


class SingleTest(Struct, frozen=True):
    """How one test file is run: the command has the places of test and report to fill in."""

    runner: Runner
    command: tuple[str, ...]

    def is_test(self, path: str) -> bool:
        """Whether the runner takes a file for a test."""
        return re.fullmatch(self.runner.names, PurePosixPath(path).name) is not None

    def shown(self, test: str) -> tuple[str, ...]:
        """The command for a person, without a report."""
        reports = [word for word in self.command if REPORT in word]
        return tuple(
            word
            for given, word in zip(self.command, self.argv(test, REPORT), strict=True)
            if given not in reports and not re.match(r"--?(?:json$|.*reporter)", given)
        )

    def version_commands(self) -> list[list[str]]:
        """The commands that say what runs the test, the last but one word names the program."""
        program = list(self.command[: _end_of(self.command, self.runner.words[:1])])
        if program[-1:] == ["-m"]:
            del program[-1]
        option = "version" if self.runner.language == "go" else "--version"
        own = [[*program, option]] if program else []
        return [*own, ["node", option]] if self.runner.name == "jest" else own

    def compile_argv(self, test: str) -> list[str]:
        """The command that compiles a test file and does not run it; empty: there is none."""
        at, option = _end_of(self.command, self.runner.words), self.runner.compiling
        if not (at and option) or any(option.split("=")[0] in word for word in self.command):
            return []
        argv = self.argv(test, REPORT)
        return [*argv[:at], option, *argv[at:]]

    def argv(self, test: str, report: str) -> list[str]:
        """The command for a test file, both paths relative to the tree."""
        directory = f"./{PurePosixPath(test).parent}"
        values = {TEST: test, REPORT: report, DIRECTORY: directory}
        found: list[str] = []
        for word in self.command:
            for place, value in values.items():
                word = word.replace(place, value)  # noqa: PLW2901
            found.append(word)
        return found


def single_test(tests: Tests) -> SingleTest | None:
    """How the tests of a repository are run one by one; None: no runner that is known."""
    for runner in RUNNERS:
        end = _end_of(tests.command, runner.words)
        if not end:
            continue
        if tests.single:
            return SingleTest(runner, tests.single)
        return SingleTest(runner, (*tests.command[:end], *runner.options))
    if tests.single:
        named = next((one for one in RUNNERS if _end_of(tests.single, one.words)), None)
        return SingleTest(named, tests.single) if named else None
    return None


def python_of(tests: Tests) -> list[str]:
    """The Python that runs the tests, with what stands before it; empty: they name none.

    ``env PYTHONPATH=lib /opt/venv/bin/pytest`` has ``env PYTHONPATH=lib /opt/venv/bin/python3``.
    """
    for command in filter(None, (tests.single, tests.command)):
        for at, path in enumerate(map(PurePosixPath, command)):
            if re.fullmatch(r"python[\d.]*", path.name):
                is_there = not path.is_absolute() or os.access(path, os.X_OK)
                return [*command[: at + 1]] if is_there else []
            own = path.with_name("python3")  # of the environment of pytest, coverage or tox
            if path.is_absolute() and path.name != "env" and os.access(own, os.X_OK):
                return [*command[:at], str(own)]
            if path.name in {"pytest", "py.test"}:
                return [*command[:at], "python3"]
    return []


def _end_of(command: Sequence[str], words: Sequence[str]) -> int:
    """The position after the last of these words in a command; 0: they are not all there."""
    at = 0
    for word in words:
        names = [re.sub(r"\.(?:exe|cmd|m?js)$", "", PurePosixPath(one).name) for one in command]
        found = [n for n in range(at, len(command)) if word in {command[n], names[n]}]
        if not found:
            return 0
        at = found[0] + 1
    return at


def require_test_path(path: str, runner: Runner, paths: Sequence[str]) -> None:
    """Check where a new test goes.

    Args:
        paths: the files of both sides.

    Raises:
        InputError: it is no path of a new test file that the runner would find.
    """
    pure = PurePosixPath(path)
    hidden = {"..", ".git", ".diffcourt", "node_modules"} & {*PurePosixPath(path.lower()).parts}
    if pure.is_absolute() or hidden or "\\" in path:
        raise InputError(f"{path!r} is not a path below the repository")
    if not re.fullmatch(runner.names, pure.name):
        raise InputError(
            f"{pure.name!r} is no name of a {runner.name} test, as {runner.example} is"
        )
    if path in paths:
        raise InputError(f"{path} exists; a proof is a new file")
    parents = {str(parent) for parent in pure.parents}
    if parents & set(paths):
        raise InputError(f"{path} lies below a file")
