"""Running well-kept external programs over the files under review.

Every program sees copies under neutral names in an otherwise empty folder. So no configuration of
the change can be found there, no file name can be taken for an option or break the output, and
comments that would silence a program can be taken out of the copy. What is reported is mapped back.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from orchestrator.errors import SandboxError
from orchestrator.review.analysis import Needs, Raw, Report, Side
from orchestrator.sandbox.box import Box, Limits
from orchestrator.sandbox.paths import Beneath
from orchestrator.sandbox.process import run

ARGV_BYTES = 100_000  # of file names in one call; Linux allows 128 KiB in one page-aligned string
MOST = 10_000  # files in one call
FEW = 25  # of the programs that may take a second for one file, so that a call ends in time
LIMITS = Limits(seconds=60)
# Programs built with GHC reserve a terabyte of address space at their start: no limit fits them.
UNBOUNDED = Limits(seconds=60, memory=0)
_REASON = 200


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
            # Not resolved: the interpreter of a virtualenv is a link to one outside of it.
            own = (str(Path(sys.executable).parent), sysconfig.get_path("scripts"))
            search = os.pathsep.join((*own, os.environ.get("PATH", os.defpath)))
        # A relative entry would find programs in the folder we happen to stand in.
        absolute = os.pathsep.join(f for f in search.split(os.pathsep) if os.path.isabs(f))
        found = shutil.which(self.name, path=absolute)
        if found is None:
            raise SandboxError(
                f"{self.name} is not installed; run `pip install {self._package}` "
                "in the environment of this program"
            )
        return found

    async def version(self) -> str:
        """The version it states, read once.

        Raises:
            SandboxError: it is not installed, or does not start.
        """
        if not self._version:
            done = await run([self.find(), "--version"], box=Box(), limits=self._limits)
            stated = re.search(rb"\d+(?:\.\d+)+", done.stdout)
            if done.code != 0 or stated is None:
                raise ProgramFailed(self.name, done.code, done.stderr)
            self._version = stated[0].decode()
        return self._version

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


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of files under review.

    Attributes:
        folder: holds the copies and nothing else.
        paths: name of a copy below ``folder`` → path in the side.
        gaps: path → why there is no copy of it.
    """

    folder: Path
    paths: Mapping[str, str]
    gaps: Mapping[str, str]

    def name_of(self, reported: str) -> str:
        """The copy a program speaks of, whether it says so absolutely or relatively.

        Raises:
            SandboxError: it is none of ours.
        """
        name = os.path.relpath(self.folder / reported, self.folder)
        if name not in self.paths:
            raise SandboxError(f"a finding names a file that was not given: {one_line(reported)}")
        return name

    def text(self, name: str, first: int = 1, last: int | None = None) -> str:
        """Lines ``first`` to ``last`` of a copy, 1-based and inclusive; none where none stand."""
        whole = (self.folder / name).read_text("utf-8", "replace")  # turns any newline into \\n
        return "\n".join(whole.split("\n")[max(0, first - 1) : last])


@dataclass(frozen=True, slots=True)
class Seen:
    """What a program said about copies: findings, and path → why it could not look."""

    findings: Sequence[Raw]
    gaps: Mapping[str, str]


class ProgramAnalyser(ABC):
    """A `SideAnalyser` around one program.

    Args:
        codes: the program's codes that stand in the rule table; nothing else is reported.
        program: where to find it, for those who do not want the usual place.
    """

    name: str
    needs: Needs = "file"
    package: str
    limits = LIMITS
    most = MOST

    def __init__(self, codes: Collection[str], program: Program | None = None) -> None:
        self.codes = frozenset(codes)
        self.program = program or Program(
            self.name, self.package, limits=self.limits, most=self.most
        )
        self._asking = anyio.Lock()

    @abstractmethod
    def wants(self, path: str) -> bool:
        """Whether this analyser reads files of this name."""

    @abstractmethod
    def copy_name(self, number: int, path: str) -> str:
        """The neutral name of the copy of the ``number``-th file."""

    @abstractmethod
    async def look(self, copies: Copies) -> Seen:
        """Run the program.

        Raises:
            SandboxError: it failed; then nothing counts as examined.
        """

    def prepare(self, path: str, data: bytes) -> bytes | None:
        """What the program is given of a file's content; None when it is not of our kind."""
        return data

    async def run(self, side: Side, paths: Sequence[str]) -> Report:
        """Analyse the given paths below ``side.root``."""
        if not self.codes or not paths:
            return Report(self.name, "")
        version = ""
        try:
            async with self._asking:  # both sides run at once; the first to come asks for both
                version = await self.program.version()
            with tempfile.TemporaryDirectory(prefix="diffcourt-") as folder:
                copies = await anyio.to_thread.run_sync(self._copy, side.root, Path(folder), paths)
                seen = await self.look(copies) if copies.paths else Seen((), {})
        except SandboxError as fault:
            return Report(self.name, version, error=str(fault))
        except (LookupError, TypeError, AttributeError):
            why = f"what {self.name} {version} printed has another shape than known"
            return Report(self.name, version, error=why)
        except OSError as fault:
            why = f"no room to work in {tempfile.gettempdir()}: {fault.strerror}"
            return Report(self.name, version, error=f"{self.name} did not run: {why}")
        return Report(
            tool=self.name,
            version=version,
            findings=self._ordered(seen.findings),
            examined=frozenset(copies.paths.values()) - seen.gaps.keys(),
            gaps={**copies.gaps, **seen.gaps},
        )

    def _ordered(self, findings: Sequence[Raw]) -> tuple[Raw, ...]:
        asked_for = {f for f in findings if f.code in self.codes}
        return tuple(sorted(asked_for, key=lambda f: (f.path, f.line, f.code, f.message)))

    def _copy(self, root: Path, folder: Path, paths: Sequence[str]) -> Copies:
        folder = folder.resolve()  # programs report where it really is
        names: dict[str, str] = {}
        gaps: dict[str, str] = {}
        with Beneath(root) as side, Beneath(folder) as copies:
            for number, path in enumerate(paths):
                try:
                    data = self.prepare(path, side.read(path))
                except OSError as fault:
                    gaps[path] = f"{self.name} could not read it: {fault.strerror}"
                    continue
                if data is not None:
                    name = self.copy_name(number, path)
                    copies.write(name, data)
                    names[name] = path
        return Copies(folder, names, gaps)
