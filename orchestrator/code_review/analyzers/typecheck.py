"""The type checker that base configures, run over both sides of the change."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import anyio.to_thread

from diffchecks.jobs import ChangedFile
from orchestrator.catalog.settings import TypeCheck
from orchestrator.code_review.analyzers.configured_programs import (
    ConfinedProgram,
    error_of,
    why_not_run,
)
from orchestrator.code_review.change.contents import SIDES, SideName
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.tools.tool_inputs import ToolInputs
from orchestrator.errors import SandboxError
from orchestrator.sandbox import scratch_directory

_NO_CACHE = {"MYPY_CACHE_DIR": os.devnull}
"""mypy would write a cache into the tree, which it may not."""


class TypeCheckRuns:
    """The runs of the configured type checker: a part of a check's job.

    It runs over head and, where that has errors, over base.
    """

    def __init__(self, settings: TypeCheck, inputs: ToolInputs) -> None:
        self._settings, self._workspace = settings, inputs.workspace
        self._confined = ConfinedProgram("typecheck", settings.program, inputs)
        self._job: Mapping[str, Any] | None = None

    @property
    def seconds(self) -> float:
        """What both may take together."""
        return len(SIDES) * self._settings.seconds

    def wants(self, path: str) -> bool:
        """Whether one of its globs matches."""
        return self._confined.wants(path)

    async def options(self, change: Change, files: Sequence[ChangedFile]) -> Mapping[str, Any]:
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
