"""Checks of ``diffchecks.programs``, whose linters run in the sandbox."""

import tempfile
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import anyio.to_thread
from msgspec.structs import replace

from diffchecks.check_io import CheckReply
from diffchecks.declarations import Check
from diffchecks.programs import LinterError, find_linter
from orchestrator.code_review.analyzer_types import AnalyzerReport, Side, SideAnalyzer
from orchestrator.code_review.analyzers.own_checks import DeclaredCheck
from orchestrator.code_review.analyzers.program_execution import LIMITS, Program
from orchestrator.errors import SandboxError
from orchestrator.sandbox import scratch_directory


class LinterCheck(DeclaredCheck, SideAnalyzer):
    """A check that a linter makes.

    Args:
        codes: the linter's codes that the rule table turns on; no other is reported.
        program: the linter, if not from the usual directories.
    """

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
