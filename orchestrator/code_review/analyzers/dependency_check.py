"""The check of manifests and lock files, with the advisories that the review was given."""

from collections.abc import Mapping
from typing import Any

import anyio.to_thread
from msgspec import Struct

from diffchecks.file_patterns import LOCK_FILES, MANIFESTS
from orchestrator.code_review.analyzers.comparison_checks import ComparisonCheck
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.sandbox.worker_pool import WorkerPool


class CopiedAdvisories(Struct, frozen=True):
    """The advisories of the changed packages, copied for the run.

    Attributes:
        path: where the copy is; empty: there is none.
        gaps: the dump's name → what of it could not be read.
    """

    path: str
    gaps: Mapping[str, str]


class DependencyCheck(ComparisonCheck):
    """The check ``dependencies``."""

    def __init__(
        self, advisories: CopiedAdvisories | None, *, pool: WorkerPool, workspace: ReviewWorkspace
    ) -> None:
        names = (*MANIFESTS, *LOCK_FILES)
        super().__init__(
            "dependencies",
            "dependencies",
            names,
            [name for name in names if not name.endswith(".gradle")],  # a program in Groovy
            pool=pool,
            workspace=workspace,
            reads_lock_files=True,
        )
        self._advisories = advisories

    async def extra_job(self, change: Change) -> Mapping[str, Any]:
        """The advisories."""
        given = self._advisories
        if given is None:
            return {}
        copy = self._workspace.copy_report
        path = await anyio.to_thread.run_sync(copy, given.path) if given.path else ""
        return {"advisories": path, "advisory_gaps": dict(given.gaps)}
