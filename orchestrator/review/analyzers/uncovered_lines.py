"""Changed lines that no test runs; without a coverage report there is nothing to ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio.to_thread
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from orchestrator.review.analyzers.comparison_checks import ComparisonCheck
from orchestrator.review.change.git.commands import OID, Git
from orchestrator.review.change.types import Change
from orchestrator.review.session import Session
from orchestrator.sandbox.worker_pool import WorkerPool


class CoverageReport(Struct, frozen=True):
    """A coverage report, copied for the run, since a resumed run reads it again.

    Attributes:
        name: what messages call it.
        path: where the copy is.
        made: when the file was written, in seconds since 1970.
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
        session: Session,
    ) -> None:
        named = patterns if reports else ()
        super().__init__(
            "uncovered_lines", "test_quality.uncovered_lines", named, pool=pool, session=session
        )
        self._reports = tuple(reports)

    async def more(self, change: Change) -> Mapping[str, Any]:
        """The reports, and when head was committed; None where it is no commit."""
        time = None
        if OID.fullmatch(change.head):
            told = await Git.of(change).run("show", "-s", "--format=%ct", change.head, "--")
            time = float(told)
        reports = await anyio.to_thread.run_sync(self._at_hand)
        return {"reports": [to_builtins(report) for report in reports], "head_time": time}

    def _at_hand(self) -> list[CoverageReport]:
        """The reports where a worker, which is confined to the review's own folder, can read them.

        One that cannot be had stays where it is: the check says so.
        """
        return [self._copied(report) for report in self._reports]

    def _copied(self, report: CoverageReport) -> CoverageReport:
        place = self._session.root / Path(report.path).name
        with suppress(OSError):
            place.write_bytes(Path(report.path).read_bytes())
            return replace(report, path=str(place))
        return report
