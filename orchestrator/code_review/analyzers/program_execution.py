"""External programs: finding the executable and its version, and running it for JSON output."""

import json
import os
import re
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.data_directories import read_table
from orchestrator.errors import SandboxError
from orchestrator.optional_dependencies import ANALYZERS, NOT_INSTALLED, install_command
from orchestrator.program_search import find_program
from orchestrator.sandbox.program_permissions import Permissions, ResourceLimits
from orchestrator.sandbox.run_program import run

MAX_ARGV_BYTES = 100_000  # of file names in one run
MAX_FILES = 10_000  # in one run
MAX_FILES_IF_SLOW = 25  # of a program that may take a second per file, so that a run ends in time
LIMITS = ResourceLimits(seconds=60)
# Programs built with GHC reserve a terabyte of address space at their start: no limit fits them.
NO_MEMORY_LIMIT = ResourceLimits(seconds=60, memory=0)
_MAX_LINE = 200
# Not resolved: the interpreter of a virtualenv is a link to one outside of it.
OWN_DIRECTORIES = (os.path.dirname(sys.executable), sysconfig.get_path("scripts"))
"""The directories of the programs that were installed with this package."""

TABLES: Mapping[str, Any] = read_table(__file__, "programs.yaml")
"""What ``programs.yaml`` says of each program."""

_LIBRARY = sysconfig.get_path("purelib")


def one_line(text: str) -> str:
    """A program's text as one line for a report: at most 200 printable characters."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= _MAX_LINE else flat[: _MAX_LINE - 1] + "…"


def batches(
    names: Iterable[str], max_files: int = MAX_FILES, max_bytes: int = MAX_ARGV_BYTES
) -> Iterator[list[str]]:
    """Split file names into parts that fit a command line."""
    part: list[str] = []
    size = 0
    for name in names:
        cost = len(os.fsencode(name)) + 1 + 8  # its NUL and its pointer
        if part and (size + cost > max_bytes or len(part) == max_files):
            yield part
            part, size = [], 0
        part.append(name)
        size += cost
    if part:
        yield part


@cache
def _package_versions() -> Mapping[str, str]:
    """Installed packages and their versions, by their ``.dist-info`` directories.

    ``importlib.metadata`` returns the same, but its import takes 5% of a review's start.
    """
    suffix = ".dist-info"
    directories = (name for name in os.listdir(_LIBRARY) if name.endswith(suffix))
    parts = (name.removesuffix(suffix).partition("-") for name in directories)
    return {name.replace("_", "-").lower(): version for name, _, version in parts}


class ProgramFailed(SandboxError):
    """A program ended with an exit code that means it failed."""

    def __init__(self, name: str, code: int, stderr: bytes) -> None:
        self.code = code
        why = one_line(stderr.decode(errors="replace")) or "no message on stderr"
        super().__init__(f"{name} ended with exit code {code}: {why}")


class Program:
    """One external program.

    Args:
        package: the package of the extra ``analyzers`` that contains it.
        limits: of each run.
        search: directories to search, as in PATH; by default this interpreter's scripts, then PATH.
        max_files: in one run.
    """

    def __init__(
        self,
        name: str,
        package: str,
        *,
        limits: ResourceLimits = LIMITS,
        search: str | None = None,
        max_files: int = MAX_FILES,
    ) -> None:
        self.name = name
        self.package = package
        self._limits = limits
        self._search = search
        self._max_files = max_files
        self._version = ""

    def find(self) -> str:
        """The executable's absolute path."""
        search = self._search
        if search is None:
            search = os.pathsep.join((*OWN_DIRECTORIES, os.environ.get("PATH", os.defpath)))
        found = find_program(self.name, search)
        if found is None:
            raise SandboxError(
                f"{self.name}{NOT_INSTALLED}{install_command(ANALYZERS, self.package)}"
            )
        return found

    def _package_version(self, executable: str) -> str:
        """The version of the package that contains it; empty if it is from elsewhere."""
        return (
            _package_versions().get(self.package, "")
            if os.path.dirname(executable) in OWN_DIRECTORIES
            else ""
        )

    def identity(self) -> str:
        """An identifier of its build, found without running it."""
        executable = self.find()
        status = os.stat(executable)
        if version := self._package_version(executable):
            return f"{self.name} {version} {status.st_size}"
        return f"{executable} {status.st_size} {status.st_mtime_ns}"

    async def version(self) -> str:
        """The version of its package, or else the one that it prints; found once."""
        if not self._version:
            executable = self.find()
            packaged = self._package_version(executable)
            self._version = packaged or await self.printed_version()
        return self._version

    async def printed_version(self) -> str:
        """The version that the program prints when it is run."""
        executable = self.find()
        done = await run([executable, "--version"], permissions=Permissions(), limits=self._limits)
        version = re.search(rb"\d+(?:\.\d+)+", done.stdout)
        if done.code != 0 or version is None:
            raise ProgramFailed(self.name, done.code, done.stderr)
        return version[0].decode()

    async def json(
        self,
        options: Sequence[str],
        names: Sequence[str],
        directory: Path,
        ok: Collection[int] = (0,),
    ) -> list[Any]:
        """Run it on files and parse its output: one JSON document per run that was needed.

        Args:
            options: everything before ``--``.
            names: of files below ``directory``; none begins with a dash.
            directory: the working directory; the only readable one.
            ok: exit codes that mean success.
        """
        parsed = []
        for part in batches(names, self._max_files):
            argv = [self.find(), *options, "--", *part]
            done = await run(
                argv,
                permissions=Permissions((directory,)),
                cwd=directory,
                limits=self._limits,
                recorded=True,
            )
            if done.code not in ok:
                raise ProgramFailed(self.name, done.code, done.stderr)
            try:
                parsed.append(json.loads(done.stdout))
            except ValueError:
                raise SandboxError(f"{self.name} printed something other than JSON") from None
        return parsed
