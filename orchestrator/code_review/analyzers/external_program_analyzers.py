"""Analyzers that run an external program, such as a linter, over the files under review.

The program sees copies under neutral names in an otherwise empty directory. So it finds no
configuration of the change, no file name can pass for an option or break its output, and
suppression comments can be removed from the copy. Its findings are mapped back to the real paths.
"""

import codecs
import os
import tempfile
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from diffchecks.check_io import Edit, Gap, RawFinding
from diffchecks.declarations import Needs
from diffchecks.fixes.smallest_edit import Position, are_apart, smallest_edit
from diffchecks.safe_paths import SafeDirectory
from orchestrator.code_review.analyzer_types import AnalyzerReport, Side, SideAnalyzer
from orchestrator.code_review.analyzers.program_execution import (
    LIMITS,
    MAX_FILES,
    Program,
    one_line,
)
from orchestrator.errors import SandboxError
from orchestrator.sandbox import scratch_directory


class FileCopies(Struct, frozen=True):
    """Copies of files under review, or of parts of them.

    Attributes:
        directory: holds the copies and nothing else.
        paths: name of a copy below ``directory`` → path in the side.
        gaps: path → why there is no copy of it.
        line_ends: name of a copy → its line end, if all positions in the copy are those in the
            file.
        lines: name of a copy → its lines, read once: a large one may have thousands of findings.
    """

    directory: Path
    paths: Mapping[str, str]
    gaps: Mapping[str, str]
    line_ends: Mapping[str, str] = {}
    lines: dict[str, list[str]] = field(default_factory=dict)

    def name_of(self, reported: str) -> str:
        """The name of the copy that a program reports by an absolute or a relative path."""
        name = os.path.relpath(self.directory / reported, self.directory)
        if name not in self.paths:
            raise SandboxError(f"a finding names a file that was not given: {one_line(reported)}")
        return name

    def path_of(self, reported: str) -> str:
        """The path in the side of the file that a program reports."""
        return self.paths[self.name_of(reported)]

    def text(self, name: str, first: int = 1, last: int | None = None) -> str:
        """Lines ``first`` to ``last`` of a copy, 1-based and inclusive, as far as they exist."""
        if name not in self.lines:
            text = (self.directory / name).read_text("utf-8", "replace")  # any newline becomes \\n
            self.lines[name] = text.split("\n")
        return "\n".join(self.lines[name][max(0, first - 1) : last])

    def mention(self, word: bytes) -> bool:
        """Whether a copy contains a word in upper or lower case; ``word`` is in lower case."""
        return any(word in (self.directory / name).read_bytes().lower() for name in self.paths)

    def edits(
        self, name: str, replacements: Iterable[tuple[Position, Position, str]]
    ) -> tuple[Edit, ...]:
        """Replacements that a program proposes in a copy, as minimal edits of the file.

        Args:
            replacements: first position, the one after the last, and the new text.

        Returns:
            No edits if the copy is not identical to the file, or if two replacements overlap.
        """
        end_of_line = self.line_ends.get(name)
        if end_of_line is None:
            return ()
        edits: list[Edit] = []
        for start, end, text in sorted(replacements):
            lines = self.text(name, start[0], end[0]).split("\n")
            lines[-1] = lines[-1][: end[1] - 1]
            old, new = "\n".join(lines)[start[1] - 1 :], text.replace("\r\n", "\n")
            if old != new:
                edit = smallest_edit(start, old, new)
                edits.append(replace(edit, text=edit.text.replace("\n", end_of_line)))
        return tuple(edits) if are_apart(edits) else ()


def _line_end(data: bytes) -> str | None:
    """The line end of a file; None if tools could count its lines or columns differently."""
    returns = data.count(b"\r")
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    if returns != data.count(b"\r\n"):
        return None
    if not returns:
        return "\n"
    return "\r\n" if returns == data.count(b"\n") else None


class ProgramAnalyzer(SideAnalyzer):
    """A `SideAnalyzer` around one program.

    Args:
        codes: the program's codes that the rule table turns on; no other is reported.
        program: the program, if not from the usual directories.

    Attributes:
        package: the package of the extra ``analyzers`` that contains the program.
        max_files: in one run of the program.
    """

    name: str
    needs: Needs = "file"
    package: str
    limits = LIMITS
    max_files = MAX_FILES

    def __init__(self, codes: Collection[str], program: Program | None = None) -> None:
        self.codes = frozenset(codes)
        self.program = program or Program(
            self.name, self.package, limits=self.limits, max_files=self.max_files
        )

    @property
    def identity(self) -> str | None:
        """The program's build and the codes that are on; None when it is not installed."""
        with suppress(SandboxError, OSError):
            return f"{type(self).__name__} {self.program.identity()} {sorted(self.codes)}"
        return None

    def files_read(self, report: AnalyzerReport) -> frozenset[str]:
        """Of the files that it examined, those that it read as code: it parses every file."""
        return report.examined

    @abstractmethod
    def copy_name(self, number: int, path: str) -> str:
        """A neutral name for the ``number``-th copy, relative to the directory of copies."""

    @abstractmethod
    async def results(self, copies: FileCopies) -> Iterable[Any]:
        """Run the program over the copies; returns what it reports, one by one."""

    @abstractmethod
    def finding(self, result: Any, copies: FileCopies) -> RawFinding | None:
        """The finding that the program reports; None for one that does not count."""

    def problem(self, result: Any, copies: FileCopies) -> tuple[str, str] | None:
        """The file that the program cannot parse, and why, if it reports that."""
        return None

    def select(self, findings: list[RawFinding]) -> list[RawFinding]:
        """The findings that count beside the others."""
        return findings

    async def _analyze(self, copies: FileCopies) -> tuple[list[RawFinding], dict[str, str]]:
        """Run the program; a file that it cannot parse is a gap, and its findings are dropped."""
        found: list[RawFinding] = []
        gaps: dict[str, str] = {}
        for result in await self.results(copies):
            if problem := self.problem(result, copies):
                gaps.setdefault(problem[0], one_line(f"{self.name} cannot parse it{problem[1]}"))
            elif finding := self.finding(result, copies):
                found.append(finding)
        return self.select([each for each in found if each.path not in gaps]), gaps

    async def documents(
        self, options: Sequence[str], copies: FileCopies, ok: Collection[int] = (0,)
    ) -> list[Any]:
        """The JSON documents that the program prints about the copies, see ``Program.json``."""
        return await self.program.json(options, list(copies.paths), copies.directory, ok)

    def prepare(self, path: str, data: bytes) -> bytes | None:
        """The content that is written to a copy; None when the program does not apply to it."""
        return data

    def parts(self, path: str, data: bytes) -> Iterable[bytes]:
        """The parts of a file that each get a copy; line numbers stay those of the file."""
        return [data]

    async def run(self, side: Side, paths: Sequence[str]) -> AnalyzerReport:
        """Analyze the given paths below ``side.root``."""
        if not self.codes or not paths:
            return AnalyzerReport(self.name, "")
        version = ""
        try:
            version = await self.program.version()
            with tempfile.TemporaryDirectory(dir=scratch_directory.work_directory()) as directory:
                copies = await anyio.to_thread.run_sync(
                    self._copy, side.root, Path(directory), paths
                )
                findings, gaps = await self._analyze(copies) if copies.paths else ([], {})
        except SandboxError as error:
            return AnalyzerReport(self.name, version, error=str(error))
        except (LookupError, TypeError, AttributeError):
            why = f"{self.name} {version} printed JSON with an unknown structure"
            return AnalyzerReport(self.name, version, error=why)
        except OSError as error:
            why = f"cannot write to {tempfile.gettempdir()}: {error.strerror}"
            return AnalyzerReport(self.name, version, error=f"{self.name} did not run: {why}")
        enabled = {finding for finding in findings if finding.code in self.codes}
        return AnalyzerReport(
            tool=self.name,
            version=version,
            findings=tuple(sorted(enabled, key=lambda f: (f.path, f.line, f.code, f.message))),
            examined=frozenset(copies.paths.values()) - gaps.keys(),
            gaps={**copies.gaps, **gaps},
        )

    def _copy(self, root: Path, directory: Path, paths: Sequence[str]) -> FileCopies:
        directory = directory.resolve()  # programs report paths without symbolic links
        names: dict[str, str] = {}
        gaps: dict[str, str] = {}
        line_ends: dict[str, str] = {}
        with SafeDirectory(root) as side, SafeDirectory(directory) as copies:
            for path in paths:
                try:
                    whole = side.read(path).removeprefix(codecs.BOM_UTF8)
                    parts = list(self.parts(path, whole))
                except OSError as error:
                    gaps[path] = f"{self.name} could not read it: {error.strerror}"
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
                        if part == whole and (line_end := _line_end(whole)):
                            line_ends[name] = line_end
        return FileCopies(directory, names, gaps, line_ends)
