"""Analyzers and the type checker that base's configuration names, and our linters, on both sides.

Each runs confined in a read-only tree, with base's version of its configuration. Its report is read
like an imported report; findings that base has too are not reported.
"""

import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio.to_thread
from msgspec.structs import replace

from diffchecks.check_io import CheckReply, RawFinding
from diffchecks.declarations import Check, Needs
from diffchecks.jobs import ChangedFile, GivenReport, ImportedReportsJob
from diffchecks.programs import LinterError, batches, find_linter
from diffchecks.rules import CONFIGURED_ANALYZERS
from diffchecks.safe_paths import read_safely
from orchestrator.catalog.settings import FILES, REPORT, ConfiguredProgram, TypeCheck
from orchestrator.code_review.analyzer_types import AnalyzerReport, Side, SideAnalyzer
from orchestrator.code_review.analyzers.configured_programs import (
    REPORT_NAME,
    AnalyzedTree,
    ConfinedProgram,
    PreparedRun,
    error_of,
    why_not_run,
)
from orchestrator.code_review.analyzers.own_checks import DeclaredCheck, call_check
from orchestrator.code_review.analyzers.program_execution import LIMITS, Program
from orchestrator.code_review.change.contents import SIDES, SideName
from orchestrator.code_review.tools.tool_inputs import ToolInputs
from orchestrator.errors import SandboxError
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.run_program import CompletedProgram

MAX_REPORT_BYTES = 64 << 20  # bytes of one report
SECONDS = 100.0  # for reading a report


class ConfiguredAnalyzer(SideAnalyzer):
    """A program of base's configuration."""

    name = CONFIGURED_ANALYZERS
    is_program = True
    needs: Needs = "tree"  # it may read every file

    def __init__(self, program_name: str, program: ConfiguredProgram, inputs: ToolInputs) -> None:
        self._name, self._program = program_name, program
        self._imports = inputs.settings.imports
        self._pool, self._workspace = inputs.pool, inputs.workspace
        self._confined = ConfinedProgram(f"analyzers.{program_name}", program, inputs)
        self.seconds = len(SIDES) * program.timeout
        names = any(pattern.strip("*/") for pattern in program.files)
        self._reads_code = names  # a pattern for every file names no language

    def wants(self, path: str) -> bool:
        """Whether one of its globs matches."""
        return self._confined.wants(path)

    def files_read(self, report: AnalyzerReport) -> frozenset[str]:
        """What it examined, unless it is for every file, whatever its language."""
        return frozenset(path for path in report.examined if self._reads_code and self.wants(path))

    async def run(self, side: Side, paths: Sequence[str]) -> AnalyzerReport:
        """Run it on a side; where it fails, that is a gap under its name."""
        if not paths:
            return AnalyzerReport(self.name, "")
        try:
            return await self._run(side.name, paths)
        except (SandboxError, OSError) as error:
            why = why_not_run(error)
        if side.name == "head":
            return AnalyzerReport(self.name, "", gaps={self._name: why})
        why = f"on base: {why}; so only results at added lines count"
        return AnalyzerReport(self.name, "", gaps={self._name: why, **dict.fromkeys(paths, why)})

    async def _run(self, side: SideName, paths: Sequence[str]) -> AnalyzerReport:
        prepared = await self._confined.prepare(side)
        tree = prepared.tree
        given = [path for path in paths if path not in tree.from_base]
        findings: dict[RawFinding, None] = {}
        gaps: dict[str, str] = {}
        for part in self._parts(given):
            reply = await self._run_once(prepared, side, part)
            findings |= dict.fromkeys(reply.findings)
            if side == "head":  # what cannot be placed in base cannot be in head either
                gaps |= reply.gaps
        examined = frozenset[str]() if gaps else frozenset(given)
        return AnalyzerReport(self.name, "", tuple(findings), examined, gaps)

    def _parts(self, given: Sequence[str]) -> list[list[str]]:
        """The files of each run: all of them, unless they exceed a command line."""
        if FILES not in self._program.command:
            return [list(given)] if given else []
        # A name must not look like an option, or like a file of options.
        return list(batches(f"./{path}" if path[0] in "-@" else path for path in given))

    async def _run_once(
        self, prepared: PreparedRun, side: SideName, part: Sequence[str]
    ) -> CheckReply:
        """One run, and what its report says."""
        with scratch_directory.temporary_directory() as directory:
            done = await self._confined.execute(prepared, directory, part)
            written = any(REPORT in argument for argument in self._program.command)
            data = (
                await anyio.to_thread.run_sync(_read, directory, done) if written else done.stdout
            )
        reply = await self._read_report(data, prepared.tree, side)
        if side == "base" and reply.gaps and not reply.facts["results"]:
            raise SandboxError("; ".join(reply.gaps.values()))
        if done.code and not reply.facts.get("results") and not reply.gaps:
            raise SandboxError(
                f"ended with exit code {done.code} and reports no result, as if it had failed: "
                f"{error_of(done)}"
            )
        return reply

    async def _read_report(self, data: bytes, tree: AnalyzedTree, side: SideName) -> CheckReply:
        """A report's results for the changed files, read in a worker; in base, for all lines."""
        place = self._workspace.root / f"report-of-{self._name}-{side}"
        await anyio.to_thread.run_sync(place.write_bytes, data)
        form = "" if self._program.format == "auto" else self._program.format
        report = GivenReport(self._name, str(place), form, tool=self._name, made_in=str(tree.root))
        in_head = side == "head"
        job = ImportedReportsJob(
            head_root=str(tree.root),
            head_tree=sorted(tree.paths),
            files=[
                ChangedFile(file.path, added=file.added)
                if in_head
                else ChangedFile(file.old_path or file.path)
                for file in self._workspace.change.files
                if (file.in_head and file.path not in tree.from_base if in_head else file.in_base)
            ],
            lines=(self._program.lines or self._imports.lines) if in_head else "file",
            severities=dict(self._imports.severities),
            reports=[report],
        )
        function = "imported_reports.changed_results:run"
        return await call_check(self._pool, function, job, SECONDS, CheckReply)


def _read(directory: Path, done: CompletedProgram) -> bytes:
    """The report that a program wrote; no link is followed."""
    try:
        data = read_safely(directory, REPORT_NAME, MAX_REPORT_BYTES + 1)
    except FileNotFoundError:
        raise SandboxError(f"wrote no report to {REPORT}: {error_of(done)}") from None
    except OSError as error:
        raise SandboxError(f"its report cannot be read: {error.strerror}") from None
    if len(data) > MAX_REPORT_BYTES:
        raise SandboxError(f"its report is larger than {MAX_REPORT_BYTES >> 20} MiB")
    return data


_NO_CACHE = {"MYPY_CACHE_DIR": os.devnull}
"""mypy would write a cache into the tree, which it may not."""


class TypeCheckRuns:
    """The runs of the configured type checker: a part of a check's job.

    It runs over head and, where that has errors, over base.

    Attributes:
        seconds: what both runs may take together.
        wants: whether one of its globs matches a path.
    """

    def __init__(self, settings: TypeCheck, inputs: ToolInputs) -> None:
        self._settings, self._workspace = settings, inputs.workspace
        self._confined = ConfinedProgram("typecheck", settings.program, inputs)
        self._job: Mapping[str, Any] | None = None
        self.seconds = len(SIDES) * settings.seconds
        self.wants = self._confined.wants

    async def options(self, files: Sequence[ChangedFile]) -> Mapping[str, Any]:
        """The output of the runs; it runs once per side, however often the check is called."""
        if self._job is None:
            self._job = await self._run_both()
        return self._job

    async def _run_both(self) -> Mapping[str, Any]:
        job: dict[str, Any] = {"checker": self._settings.checker}
        try:
            job["head_run"] = await self._run("head")
        except (SandboxError, OSError) as error:
            return job | {"refused": why_not_run(error)}
        if job["head_run"]["code"]:
            try:
                job["base_run"] = await self._run("base")
            except (SandboxError, OSError) as error:
                job["base_refused"] = why_not_run(error)
        return job

    async def _run(self, side: SideName) -> Mapping[str, Any]:
        """Run it on a side; returns its exit code and the file with its output."""
        prepared = await self._confined.prepare(side)
        with scratch_directory.temporary_directory() as directory:
            done = await self._confined.execute(prepared, directory, env=_NO_CACHE)
        output = self._workspace.root / f"typecheck-{side}.txt"
        await anyio.to_thread.run_sync(output.write_bytes, done.stdout)
        return {
            "code": done.code,
            "output": str(output),
            "last": error_of(done),
            "root": str(prepared.tree.root),
            "tree": sorted(prepared.tree.paths),
        }


class LinterCheck(DeclaredCheck, SideAnalyzer):
    """A check that a linter makes.

    Args:
        codes: the linter's codes that the rule table turns on; no other is reported.
        program: the linter, if not from the usual directories.
    """

    is_program = True

    def __init__(
        self, check: Check, codes: Collection[str], program: Program | None = None
    ) -> None:
        super().__init__(check)
        self.codes = frozenset(codes)
        self.program = program or linter_program(check.program)
        self._linter = find_linter(check.program)

    @property
    def identity(self) -> str | None:
        """The program's build and the codes that are on; None when it is not installed."""
        with suppress(SandboxError, OSError):
            return f"{self.name} {self.program.identity()} {sorted(self.codes)}"
        return None

    async def run(self, side: Side, paths: Sequence[str]) -> AnalyzerReport:
        """Analyze the given paths below ``side.root``."""
        if not self.codes or not paths:
            return AnalyzerReport(self.name, "")
        version = ""
        try:
            version = await self.program.version()
            with scratch_directory.temporary_directory() as directory:
                reply = await self._check(side.root, paths, directory)
        except (SandboxError, LinterError) as error:
            return AnalyzerReport(self.name, version, error=str(error))
        except OSError as error:
            why = f"cannot write to {tempfile.gettempdir()}: {error.strerror}"
            return AnalyzerReport(self.name, version, error=f"{self.name} did not run: {why}")
        return AnalyzerReport.of(self.name, version, reply)

    async def _check(self, root: Path, paths: Sequence[str], directory: Path) -> CheckReply:
        steps = self._linter.check(root, paths, directory, self.codes)
        step = await anyio.to_thread.run_sync(next, steps)
        while not isinstance(step, CheckReply):
            ended = await self.program.run(step, directory)
            step = await anyio.to_thread.run_sync(steps.send, ended)
        return step


def linter_program(name: str) -> Program:
    """The program of a linter, from the usual directories."""
    execution = find_linter(name).execution
    limits = LIMITS if execution.memory_limit else replace(LIMITS, memory=0)
    return Program(name, execution.package, limits=limits)
