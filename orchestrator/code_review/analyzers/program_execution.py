"""External programs: finding the executable and its version, and running it."""

import os
import re
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from diffchecks.programs import Ended, describe_failure
from orchestrator.errors import SandboxError
from orchestrator.optional_dependencies import ANALYZERS, NOT_INSTALLED, install_command
from orchestrator.program_search import find_program
from orchestrator.sandbox.program_permissions import Permissions, ResourceLimits
from orchestrator.sandbox.run_program import run

LIMITS = ResourceLimits(seconds=60)
# Not resolved: the interpreter of a virtualenv is a link to one outside of it.
OWN_DIRECTORIES = (os.path.dirname(sys.executable), sysconfig.get_path("scripts"))
"""The directories of the programs that were installed with this package."""

_LIBRARY = sysconfig.get_path("purelib")
_VERSIONS: dict[str, str] = {}  # by identity


@cache
def _package_versions() -> Mapping[str, str]:
    """Installed packages and their versions, by their ``.dist-info`` directories.

    ``importlib.metadata`` returns the same, but its import takes 5% of a review's start.
    """
    suffix = ".dist-info"
    directories = (name for name in os.listdir(_LIBRARY) if name.endswith(suffix))
    parts = (name.removesuffix(suffix).partition("-") for name in directories)
    return {name.replace("_", "-").lower(): version for name, _, version in parts}


class Program:
    """One external program.

    Args:
        package: the package of the extra ``analyzers`` that contains it.
        limits: of each run.
        search: directories to search, as in PATH; by default this interpreter's scripts, then PATH.
    """

    def __init__(
        self, name: str, package: str, *, limits: ResourceLimits = LIMITS, search: str | None = None
    ) -> None:
        self.name = name
        self.package = package
        self._limits = limits
        self._search = search

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
        """The version of its package, or else the one that it prints; found once for a build."""
        build = self.identity()
        if build not in _VERSIONS:
            packaged = self._package_version(self.find())
            _VERSIONS[build] = packaged or await self.printed_version()
        return _VERSIONS[build]

    async def printed_version(self) -> str:
        """The version that the program prints when it is run."""
        executable = self.find()
        done = await run([executable, "--version"], permissions=Permissions(), limits=self._limits)
        version = re.search(rb"\d+(?:\.\d+)+", done.stdout)
        if done.code != 0 or version is None:
            raise SandboxError(describe_failure(self.name, done.code, done.stderr))
        return version[0].decode()

    async def run(self, arguments: Sequence[str], directory: Path) -> Ended:
        """Run it in a directory, the only one that it can read."""
        done = await run(
            [self.find(), *arguments],
            permissions=Permissions((directory,)),
            cwd=directory,
            limits=self._limits,
            recorded=True,
        )
        return done.code, done.stdout, done.stderr
