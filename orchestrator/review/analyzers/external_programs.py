"""Running well-kept external programs over the files under review.

Every program sees copies under neutral names in an otherwise empty folder. So no configuration of
the change can be found there, no file name can be taken for an option or break the output, and
comments that would silence a program can be taken out of the copy. What is reported is mapped back.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio.to_thread
from msgspec import Struct, field

from orchestrator.checks.check_protocol import Gap, RawFinding
from orchestrator.errors import SandboxError
from orchestrator.review.analysis import AnalyzerReport, Needs, Side
from orchestrator.review.analyzers.executables import LIMITS, MOST, Program, one_line
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.safe_paths import Beneath


class FileCopies(Struct, frozen=True):
    """Copies of files under review, or of parts of them.

    Attributes:
        folder: holds the copies and nothing else.
        paths: name of a copy below ``folder`` → path in the side.
        gaps: path → why there is no copy of it.
        read: name of a copy → its lines, once somebody asked for some: thousands of things may be
            found in a large one.
    """

    folder: Path
    paths: Mapping[str, str]
    gaps: Mapping[str, str]
    read: dict[str, list[str]] = field(default_factory=dict)

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
        if name not in self.read:
            whole = (self.folder / name).read_text("utf-8", "replace")  # turns any newline into \\n
            self.read[name] = whole.split("\n")
        return "\n".join(self.read[name][max(0, first - 1) : last])


class ProgramReport(Struct, frozen=True):
    """What a program said about copies: findings, and path → why it could not look."""

    findings: Sequence[RawFinding]
    gaps: Mapping[str, str]


class ProgramAnalyzer(ABC):
    """A `SideAnalyzer` around one program.

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

    @property
    def identity(self) -> str | None:
        """The program's build and the codes that are asked for; None when it is not installed."""
        with suppress(SandboxError, OSError):
            return f"{type(self).__name__} {self.program.identity()} {sorted(self.codes)}"
        return None

    @abstractmethod
    def wants(self, path: str) -> bool:
        """Whether this analyzer reads files of this name."""

    @abstractmethod
    def copy_name(self, number: int, path: str) -> str:
        """The neutral name of the copy of the ``number``-th file."""

    @abstractmethod
    async def look(self, copies: FileCopies) -> ProgramReport:
        """Run the program.

        Raises:
            SandboxError: it failed; then nothing counts as examined.
        """

    def prepare(self, path: str, data: bytes) -> bytes | None:
        """What the program is given of a file's content; None when it is not of our kind."""
        return data

    def parts(self, path: str, data: bytes) -> Iterable[bytes]:
        """What of a file the program looks at, each part alone in a copy with the file's lines.

        Raises:
            Gap: that cannot be told.
        """
        return [data]

    async def run(self, side: Side, paths: Sequence[str]) -> AnalyzerReport:
        """Analyze the given paths below ``side.root``."""
        if not self.codes or not paths:
            return AnalyzerReport(self.name, "")
        version = ""
        try:
            version = await self.program.version()
            with tempfile.TemporaryDirectory(dir=scratch_directory.folder()) as folder:
                copies = await anyio.to_thread.run_sync(self._copy, side.root, Path(folder), paths)
                seen = await self.look(copies) if copies.paths else ProgramReport((), {})
        except SandboxError as fault:
            return AnalyzerReport(self.name, version, error=str(fault))
        except (LookupError, TypeError, AttributeError):
            why = f"what {self.name} {version} printed has another shape than known"
            return AnalyzerReport(self.name, version, error=why)
        except OSError as fault:
            why = f"no room to work in {tempfile.gettempdir()}: {fault.strerror}"
            return AnalyzerReport(self.name, version, error=f"{self.name} did not run: {why}")
        return AnalyzerReport(
            tool=self.name,
            version=version,
            findings=self._ordered(seen.findings),
            examined=frozenset(copies.paths.values()) - seen.gaps.keys(),
            gaps={**copies.gaps, **seen.gaps},
        )

    def _ordered(self, findings: Sequence[RawFinding]) -> tuple[RawFinding, ...]:
        asked_for = {f for f in findings if f.code in self.codes}
        return tuple(sorted(asked_for, key=lambda f: (f.path, f.line, f.code, f.message)))

    def _copy(self, root: Path, folder: Path, paths: Sequence[str]) -> FileCopies:
        folder = folder.resolve()  # programs report where it really is
        names: dict[str, str] = {}
        gaps: dict[str, str] = {}
        with Beneath(root) as side, Beneath(folder) as copies:
            for path in paths:
                try:
                    parts = list(self.parts(path, side.read(path)))
                except OSError as fault:
                    gaps[path] = f"{self.name} could not read it: {fault.strerror}"
                    continue
                except Gap as gap:
                    gaps[path] = f"{self.name} cannot read it: {gap}"
                    continue
                for part in parts:
                    data = self.prepare(path, part)
                    if data is not None:
                        name = self.copy_name(len(names), path)
                        copies.write(name, data)
                        names[name] = path
        return FileCopies(folder, names, gaps)
