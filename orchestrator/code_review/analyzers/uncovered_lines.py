"""Changed lines that no test runs, as coverage reports show; without a report no check runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio.to_thread
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from diffchecks.file_patterns import NOTHING
from orchestrator.code_review.analyzers.comparison_checks import ComparisonCheck
from orchestrator.code_review.change.git.commands import OID, Git
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.sandbox.worker_pool import WorkerPool


class CoverageReport(Struct, frozen=True):
    """A coverage report, copied because a resumed run reads it again.

    Attributes:
        name: its name in messages.
        path: where the copy is.
        made: modification time, in seconds since the epoch.
    """

    name: str
    path: str
    made: float


class UncoveredLines(ComparisonCheck):
    """The check ``uncovered_lines`` over the reports of a review.

    Args:
        patterns: names of files that tests may run.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        reports: Sequence[CoverageReport],
        *,
        pool: WorkerPool,
        workspace: ReviewWorkspace,
    ) -> None:
        files = patterns if reports else ()
        super().__init__(
            "uncovered_lines",
            "test_quality.uncovered_lines",
            files,
            NOTHING,
            pool=pool,
            workspace=workspace,
        )
        self._reports = tuple(reports)

    async def extra_job(self, change: Change) -> Mapping[str, Any]:
        """The reports, and when head was committed; None where head is not a commit."""
        head_time = None
        if OID.fullmatch(change.head):
            seconds = await Git.of(change).run("show", "-s", "--format=%ct", change.head, "--")
            head_time = float(seconds)
        reports = await anyio.to_thread.run_sync(self._copy_reports)
        return {"reports": [to_builtins(report) for report in reports], "head_time": head_time}

    def _copy_reports(self) -> list[CoverageReport]:
        return [
            replace(report, path=self._workspace.copy_report(report.path))
            for report in self._reports
        ]
