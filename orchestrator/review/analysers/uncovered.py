"""Changed lines that no test runs; without a coverage report there is nothing to ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from orchestrator.review.analysers.compare import CompareCheck
from orchestrator.review.change.git import OID, Git
from orchestrator.review.change.types import Change
from orchestrator.review.coverage import CoverageReport
from orchestrator.review.session import Session
from orchestrator.sandbox.worker import WorkerPool


class UncoveredLines(CompareCheck):
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
        session: Session,
    ) -> None:
        named = patterns if reports else ()
        super().__init__("uncovered_lines", "uncovered_lines", named, pool=pool, session=session)
        self._reports = tuple(reports)

    async def more(self, change: Change) -> Mapping[str, Any]:
        """The reports, and when head was committed; None where it is no commit."""
        time = None
        if OID.fullmatch(change.head):
            told = await Git.of(change).run("show", "-s", "--format=%ct", change.head, "--")
            time = float(told)
        return {"reports": [asdict(report) for report in self._reports], "head_time": time}
