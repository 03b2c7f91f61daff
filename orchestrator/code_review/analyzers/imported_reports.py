"""Results of analyzers that a team runs itself, from reports given with ``--import``."""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio.to_thread
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from diffchecks.file_patterns import ANY, NOTHING
from orchestrator.catalog.settings import Imports
from orchestrator.code_review.analyzers.comparison_checks import ComparisonCheck
from orchestrator.code_review.change.git.commands import OID
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.rule_table import IMPORTED_RESULTS
from orchestrator.sandbox.worker_pool import WorkerPool


class ImportedReport(Struct, frozen=True):
    """A report, copied because a resumed run reads it again.

    Attributes:
        name: its name in messages.
        path: where the copy is.
        format: as given with ``--import``; empty: detected from the content.
        error: why there is no copy; empty: there is one.
        tool: which tool wrote it, if its format does not say; empty: unknown.
        made_in: the directory prefix of its absolute paths; empty: unknown.
    """

    name: str
    path: str
    format: str = ""
    error: str = ""
    tool: str = ""
    made_in: str = ""


class ImportedResults(ComparisonCheck):
    """The check ``imported_reports`` over the reports of a review."""

    def __init__(
        self,
        reports: Sequence[ImportedReport],
        settings: Imports,
        *,
        pool: WorkerPool,
        workspace: ReviewWorkspace,
    ) -> None:
        super().__init__(
            IMPORTED_RESULTS,
            "imported_reports.changed_results",
            ANY if reports else (),
            NOTHING,
            pool=pool,
            workspace=workspace,
        )
        self._reports, self._settings = tuple(reports), settings

    async def extra_job(self, change: Change) -> Mapping[str, Any]:
        """The reports, the commit under review, and which results count and how much."""
        reports = await anyio.to_thread.run_sync(self._copy_reports)
        return {
            "reports": [to_builtins(report) for report in reports],
            "head_commit": change.head if OID.fullmatch(change.head) else "",
            "lines": self._settings.lines,
            "severities": self._settings.severities,
        }

    def _copy_reports(self) -> list[ImportedReport]:
        """Copy the reports into the review's own directory, to which a worker is confined."""
        return [
            report
            if report.error
            else replace(report, path=self._workspace.copy_report(report.path))
            for report in self._reports
        ]
