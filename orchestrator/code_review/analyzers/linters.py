"""Checks of ``diffchecks.programs``, whose linters run in the sandbox."""

import tempfile
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import anyio.to_thread

from diffchecks.check_io import CheckReply
from diffchecks.declarations import Check
from diffchecks.programs import LinterError, find_linter
from orchestrator.code_review.analyzer_types import AnalyzerReport, Side, SideAnalyzer
from orchestrator.code_review.analyzers.program_execution import LIMITS, NO_MEMORY_LIMIT, Program
from orchestrator.errors import SandboxError
from orchestrator.sandbox import scratch_directory


class LinterCheck(SideAnalyzer):
    """A check that a linter makes.

    Args:
        codes: the linter's codes that the rule table turns on; no other is reported.
        program: the linter, if not from the usual directories.
    """

    def __init__(
        self, check: Check, codes: Collection[str], program: Program | None = None
    ) -> None:
        self.check, self.name, self.needs = check, check.reporter, check.needs
        self.codes = frozenset(codes)
        self.program = program or linter_program(check.program)
        self._linter = find_linter(check.program)

    @property
    def identity(self) -> str | None:
        """The program's build and the codes that are on; None when it is not installed."""
        with suppress(SandboxError, OSError):
            return f"{self.name} {self.program.identity()} {sorted(self.codes)}"
        return None

    def wants(self, path: str) -> bool:
        """Whether the check examines files of this name."""
        return path in self.check.files

    def files_read(self, report: AnalyzerReport) -> frozenset[str]:
        """Of the files that it examined, those that it reads as code."""
        return frozenset(path for path in report.examined if path in self.check.code)

    async def run(self, side: Side, paths: Sequence[str]) -> AnalyzerReport:
        """Analyze the given paths below ``side.root``."""
        if not self.codes or not paths:
            return AnalyzerReport(self.name, "")
        version = ""
        try:
            version = await self.program.version()
            with tempfile.TemporaryDirectory(dir=scratch_directory.work_directory()) as directory:
                reply = await self._check(side.root, paths, Path(directory))
        except (SandboxError, LinterError) as error:
            return AnalyzerReport(self.name, version, error=str(error))
        except OSError as error:
            why = f"cannot write to {tempfile.gettempdir()}: {error.strerror}"
            return AnalyzerReport(self.name, version, error=f"{self.name} did not run: {why}")
        return AnalyzerReport(
            self.name, version, tuple(reply.findings), frozenset(reply.examined), reply.gaps
        )

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
    limits = LIMITS if execution.memory_limit else NO_MEMORY_LIMIT
    return Program(name, execution.package, limits=limits)
