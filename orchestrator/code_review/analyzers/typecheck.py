"""The type checker that base configures, run over both sides of the change."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread

from diffchecks.file_patterns import NOTHING
from orchestrator.catalog.settings import TypeCheck
from orchestrator.code_review.analyzer_types import AnalyzerReport
from orchestrator.code_review.analyzers.comparison_checks import ComparisonCheck
from orchestrator.code_review.analyzers.configured_programs import ConfinedProgram, error_of
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.errors import SandboxError
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.worker_pool import WorkerPool

_NO_CACHE = {"MYPY_CACHE_DIR": os.devnull}
"""mypy would write a cache into the tree, which it may not."""


class TypeChecks(ComparisonCheck):
    """The check ``type_errors`` over runs of the configured command.

    It runs over head and, where that has errors, over base.

    Args:
        settings: None: nothing is run.
        allowed: the user who runs the review allows it.
        private: absolute paths that it may not read, besides those of the system.
        checkout: the repository's directory, where dependencies are installed.
    """

    def __init__(
        self,
        settings: TypeCheck | None,
        *,
        allowed: bool,
        private: Sequence[Path],
        checkout: Path | None,
        pool: WorkerPool,
        workspace: ReviewWorkspace,
    ) -> None:
        super().__init__(
            "typecheck", "type_errors", NOTHING, NOTHING, pool=pool, workspace=workspace
        )
        self._settings, self._confined = settings, None
        if settings is not None:
            self._confined = ConfinedProgram(
                "typecheck",
                settings.program,
                allowed=allowed,
                private=private,
                checkout=checkout,
                workspace=workspace,
            )
        self._job: Mapping[str, Any] | None = None

    def wants(self, path: str) -> bool:
        """Whether one of its globs matches."""
        return self._confined is not None and self._confined.wants(path)

    def files_read(self, report: AnalyzerReport) -> frozenset[str]:
        """What it examined."""
        return frozenset(filter(self.wants, report.examined))

    async def extra_job(self, change: Change) -> Mapping[str, Any]:
        """The output of the runs; it runs once per side, however often the check is called."""
        if self._job is None and self._settings and self._confined:
            self._job = await self._run_both(self._settings, self._confined)
        return self._job or {}

    async def _run_both(self, settings: TypeCheck, confined: ConfinedProgram) -> Mapping[str, Any]:
        job: dict[str, Any] = {"refused": "", "base_refused": "", "base_run": None}
        job["checker"] = settings.checker
        try:
            job["head_run"] = await self._run(confined, "head")
        except (SandboxError, OSError) as error:
            return job | {"refused": _why(error)}
        if job["head_run"]["code"]:
            try:
                job["base_run"] = await self._run(confined, "base")
            except (SandboxError, OSError) as error:
                job["base_refused"] = _why(error)
        return job

    async def _run(self, confined: ConfinedProgram, side: SideName) -> Mapping[str, Any]:
        """Run it on a side; returns its exit code and the file with its output."""
        prepared = await confined.prepare(side)
        with scratch_directory.temporary_directory() as directory:
            done = await confined.execute(prepared, directory, env=_NO_CACHE)
        output = self._workspace.root / f"typecheck-{side}.txt"
        await anyio.to_thread.run_sync(output.write_bytes, done.stdout)
        return {
            "code": done.code,
            "output": str(output),
            "last": error_of(done),
            "root": str(prepared.tree.root),
            "tree": sorted(prepared.tree.paths),
        }


def _why(error: SandboxError | OSError) -> str:
    if isinstance(error, OSError):
        return f"not run: cannot write to {tempfile.gettempdir()}: {error.strerror}"
    return str(error)
