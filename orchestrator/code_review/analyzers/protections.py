"""The check of what a change takes away, with the security fixes in the history of base."""

from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins

from diffchecks.file_patterns import NOTHING, SOURCE_CODE
from orchestrator.code_review.analyzers.comparison_checks import ComparisonCheck
from orchestrator.code_review.change.security_fixes import FixHistory
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.sandbox.worker_pool import WorkerPool


class Protections(ComparisonCheck):
    """The check ``protections``."""

    def __init__(
        self, history: FixHistory, *, pool: WorkerPool, workspace: ReviewWorkspace
    ) -> None:
        super().__init__(
            "protections", "removed_controls", SOURCE_CODE, NOTHING, pool=pool, workspace=workspace
        )
        self._history = history

    async def extra_job(self, change: Change) -> Mapping[str, Any]:
        """What security fixes did to the changed files."""
        paths = {
            file.old_path or file.path
            for file in change.files
            if file.in_base and file.in_head and (file.added or file.removed)
            if self.wants(file.path) and self._workspace.reviewable(file)
        }
        if not paths:
            return {}
        tree = await self._workspace.contents.paths("base")
        fixes, unsearched = await self._history.find(change, paths, tree)
        return {"fixes": to_builtins(fixes), "history_unsearched": unsearched}
