"""Built-in checks that compare both sides; like all of these they run in a worker process."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from diffchecks.check_io import CheckReply
from diffchecks.declarations import Check
from orchestrator import __version__
from orchestrator.code_review.analyzer_types import AnalyzerReport, ChangeAnalyzer, Side, time_limit
from orchestrator.code_review.analyzers.one_side_checks import call_check
from orchestrator.code_review.change.contents import SIDES
from orchestrator.code_review.change.types import Change, ChangedFile
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.errors import SandboxError
from orchestrator.sandbox.worker_pool import WorkerPool

SECONDS = 100.0


MakesOptions = Callable[[Change, Sequence[ChangedFile]], Awaitable[Mapping[str, Any] | None]]
"""The further parts of a check's job; None where there is nothing to check."""


async def no_options(change: Change, files: Sequence[ChangedFile]) -> Mapping[str, Any]:
    """The further parts of a check's job that has none."""
    return {}


class ComparisonCheck(ChangeAnalyzer):
    """One of our checks that compare two sides."""

    def __init__(
        self,
        check: Check,
        pool: WorkerPool,
        workspace: ReviewWorkspace,
        options: MakesOptions = no_options,
        *,
        seconds: float | None = None,
    ) -> None:
        self.check, self.name, self.seconds = check, check.reporter, seconds
        self.needs = check.needs
        self.lock_files = check.lock_files
        self._pool, self._workspace, self._options = pool, workspace, options

    @property
    def needs_tree(self) -> bool:
        """True: a patch alone does not have the two sides."""
        return True

    def wants(self, path: str) -> bool:
        """Whether the check examines files of this name."""
        return path in self.check.files

    def files_read(self, report: AnalyzerReport) -> frozenset[str]:
        """The examined files, if it reads such files as code."""
        return frozenset(path for path in report.examined if path in self.check.code)

    async def run(
        self, change: Change, base: Side, head: Side, files: Sequence[ChangedFile]
    ) -> AnalyzerReport:
        """Run the check over the changed files."""
        options = await self._options(change, files) if files else None
        if options is None:
            return AnalyzerReport(self.name, __version__)
        for side in SIDES if self.needs == "tree" else ():
            await self._workspace.pack_matching(side, self.check.files.names)
        job = {"base_root": str(base.root), "head_root": str(head.root), "files": files, **options}
        shared = str(await self._workspace.path_listing())
        function, seconds = self.check.function, time_limit(SECONDS, len(files))
        try:
            reply = await call_check(self._pool, function, job, seconds, CheckReply, shared=shared)
        except SandboxError as error:
            return AnalyzerReport(self.name, __version__, error=str(error))
        return AnalyzerReport(
            self.name,
            __version__,
            tuple(reply.findings),
            frozenset(reply.examined),
            reply.gaps,
            facts=reply.facts,
        )
