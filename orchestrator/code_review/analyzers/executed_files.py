"""The check of changed files that are run under the name of a text."""

from collections.abc import Mapping
from typing import Any

from diffchecks.file_patterns import (
    ANY,
    NOTHING,
    PAGES,
    SOURCE_CODE,
    TOOL_SETTINGS,
    WITH_PROGRAMS,
    matches,
)
from orchestrator.code_review.analyzers.comparison_checks import ComparisonCheck
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.sandbox.worker_pool import WorkerPool

_PROGRAMS = (*SOURCE_CODE, *WITH_PROGRAMS)
_NAMED_AS_PROGRAMS = tuple(set(_PROGRAMS) - {*PAGES, *TOOL_SETTINGS})
# Changed in most changes, and run by none but a changed program; so the tree is not searched.
_PROSE_AND_DATA = (
    "*.md", "*.rst", "*.adoc", "*.json", "*.yaml", "*.yml", "*.toml", "*.html", "*.css", "*.scss",
    "*.lock", "*requirements*.txt", "CHANGELOG*", "CHANGES*", "README*", "LICENSE*", "*.po",
    "*.svg", ".git*", ".editorconfig",
)  # fmt: skip


class ExecutedFiles(ComparisonCheck):
    """The check ``executed_files``: the whole tree is searched for what runs an unusual file."""

    def __init__(self, *, pool: WorkerPool, workspace: ReviewWorkspace) -> None:
        super().__init__(
            "executed_files", "executed_files", ANY, NOTHING, pool=pool, workspace=workspace
        )

    async def extra_job(self, change: Change) -> Mapping[str, Any]:
        """The programs of head, where a file was changed that one of them might run."""
        texts = [
            file.path
            for file in change.files
            if file.in_head and file.kind == "text" and not matches(file.path, _NAMED_AS_PROGRAMS)
        ]
        if all(matches(path, _PROSE_AND_DATA) for path in texts):
            return {"texts": texts, "programs": []}
        await self._workspace.pack_matching("head", _PROGRAMS)
        tree = await self._workspace.contents.paths("head")
        regular = (path for path, (mode, _) in tree.items() if mode.startswith("100"))
        programs = [path for path in regular if matches(path, _PROGRAMS)]
        return {"texts": texts, "programs": programs}
