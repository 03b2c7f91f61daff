"""External programs: where they are, which build, and their output as JSON."""

from __future__ import annotations

import json
import os
import re
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.errors import SandboxError
from orchestrator.sandbox.program_policy import Box, Limits
from orchestrator.sandbox.run_program import find, run

ARGV_BYTES = 100_000  # of file names in one call; Linux allows 128 KiB in one page-aligned string
MOST = 10_000  # files in one call
FEW = 25  # of the programs that may take a second for one file, so that a call ends in time
LIMITS = Limits(seconds=60)
# Programs built with GHC reserve a terabyte of address space at their start: no limit fits them.
UNBOUNDED = Limits(seconds=60, memory=0)
_REASON = 200
# Not resolved: the interpreter of a virtualenv is a link to one outside of it.
OWN = (os.path.dirname(sys.executable), sysconfig.get_path("scripts"))
"""Where the programs lie that were installed with this one."""

_LIBRARY = sysconfig.get_path("purelib")


def one_line(text: str) -> str:
    """Text from a program, fit for one line of a report: at most 200 printable characters."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= _REASON else flat[: _REASON - 1] + "…"


def batches(names: Iterable[str], most: int = MOST, limit: int = ARGV_BYTES) -> Iterator[list[str]]:
    """Split file names into parts of ``most`` that fit a command line of ``limit`` bytes."""
    part: list[str] = []
    size = 0
    for name in names:
        cost = len(os.fsencode(name)) + 1 + 8  # its NUL and its pointer
        if part and (size + cost > limit or len(part) == most):
            yield part
            part, size = [], 0
        part.append(name)
        size += cost
    if part:
        yield part


@cache
def _installed() -> Mapping[str, str]:
    """Packages and their versions, by the folders that pip leaves beside them.

    ``importlib.metadata`` says the same; importing it takes a twentieth of a review's start.
    """
    suffix = ".dist-info"
    folders = (name for name in os.listdir(_LIBRARY) if name.endswith(suffix))
    parts = (name.removesuffix(suffix).partition("-") for name in folders)
    return {name.replace("_", "-").lower(): version for name, _, version in parts}


class ProgramFailed(SandboxError):
    """A program ended with an exit code that says it did not do its work.

    Args:
        name: of the program.
        code: its exit code.
        stderr: what it said.
    """

    def __init__(self, name: str, code: int, stderr: bytes) -> None:
        self.code = code
        why = one_line(stderr.decode(errors="replace")) or "it said nothing more"
        super().__init__(f"{name} ended with exit code {code}: {why}")


class Program:
    """One external program: where it is, which version, and its JSON output.

    Args:
        name: of the executable.
        package: what ``pip install`` brings it.
        limits: of each run.
        search: folders to look in, as in PATH. By default this interpreter's scripts folder, then
            PATH.
        most: files in one run.
    """

    def __init__(
        self,
        name: str,
        package: str,
        *,
        limits: Limits = LIMITS,
        search: str | None = None,
        most: int = MOST,
    ) -> None:
        self.name = name
        self._package = package
        self._limits = limits
        self._search = search
        self._most = most
        self._version = ""

    def find(self) -> str:
        """The executable's absolute path.

        Raises:
            SandboxError: it is not installed.
        """
        search = self._search
        if search is None:
            search = os.pathsep.join((*OWN, os.environ.get("PATH", os.defpath)))
        found = find(self.name, search)
        if found is None:
            raise SandboxError(
                f"{self.name} is not installed; run `pip install {self._package}` "
                "in the environment of this program"
            )
        return found

    def _packaged(self, place: str) -> str:
        """The version of the package that brought it, empty where it comes from somewhere else."""
        return _installed().get(self._package, "") if os.path.dirname(place) in OWN else ""

    def identity(self) -> str:
        """Which build of it this is, told without running it.

        Raises:
            SandboxError: it is not installed.
        """
        place = self.find()
        about = os.stat(place)
        packaged = self._packaged(place)
        return (
            f"{self.name} {packaged} {about.st_size}"
            if packaged
            else f"{place} {about.st_size} {about.st_mtime_ns}"
        )

    async def version(self) -> str:
        """The version of its package, or where it is none of ours the one it states; found once.

        Raises:
            SandboxError: it is not installed, or does not start.
        """
        if not self._version:
            place = self.find()
            self._version = self._packaged(place) or await self._stated(place)
        return self._version

    async def _stated(self, place: str) -> str:
        done = await run([place, "--version"], box=Box(), limits=self._limits)
        stated = re.search(rb"\d+(?:\.\d+)+", done.stdout)
        if done.code != 0 or stated is None:
            raise ProgramFailed(self.name, done.code, done.stderr)
        return stated[0].decode()

    async def json(
        self, options: Sequence[str], names: Sequence[str], folder: Path, ok: Collection[int] = (0,)
    ) -> list[Any]:
        """Run it in ``folder`` on these files; one parsed document per command line needed.

        Args:
            options: everything before ``--``.
            names: below ``folder``; none begins with a dash.
            folder: the working directory.
            ok: exit codes that mean it did its work.

        Raises:
            ProgramFailed: it ended with another exit code.
            SandboxError: it is missing, ran out of time or printed no JSON.
        """
        parsed = []
        for part in batches(names, self._most):
            argv = [self.find(), *options, "--", *part]
            done = await run(argv, box=Box((folder,)), cwd=folder, limits=self._limits)
            if done.code not in ok:
                raise ProgramFailed(self.name, done.code, done.stderr)
            try:
                parsed.append(json.loads(done.stdout))
            except ValueError:
                raise SandboxError(f"{self.name} printed something other than JSON") from None
        return parsed
