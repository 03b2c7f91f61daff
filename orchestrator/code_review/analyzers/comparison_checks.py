"""Built-in checks that compare both sides; like all of these they run in a worker process."""

from collections.abc import Mapping, Sequence
from typing import Any

from diffchecks.check_io import CheckReply
from diffchecks.file_patterns import matches
from diffchecks.imports.import_contracts import MARK, find_config_files
from orchestrator import __version__
from orchestrator.code_review.analyzer_types import AnalyzerReport, Needs, Side, time_limit
from orchestrator.code_review.analyzers.one_side_checks import call_check
from orchestrator.code_review.change.contents import SIDES
from orchestrator.code_review.change.types import Change, ChangedFile
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.errors import SandboxError
from orchestrator.sandbox.worker_pool import WorkerPool

SECONDS = 100.0


class ComparisonCheck:
    """A check module that compares two sides, as a ``ChangeAnalyzer``.

    Args:
        name: the analyzer's name in the rule table.
        module: the check's module below ``diffchecks``.
        patterns: file names that it examines.
        reads: file names that it reads as code, in their language.
        whole_tree: it reads every file of those names, not only the changed ones.
        reads_lock_files: it examines lock files, which are left out of a review otherwise.
    """

    needs: Needs = "tree"

    def __init__(
        self,
        name: str,
        module: str,
        patterns: Sequence[str],
        reads: Sequence[str],
        *,
        pool: WorkerPool,
        workspace: ReviewWorkspace,
        whole_tree: bool = False,
        reads_lock_files: bool = False,
    ) -> None:
        self.name, self._module, self._patterns = name, module, tuple(patterns)
        self._reads, self.reads_lock_files = tuple(reads), reads_lock_files
        self._pool, self._workspace, self._whole_tree = pool, workspace, whole_tree

    def wants(self, path: str) -> bool:
        """Whether the file's name matches the check's patterns."""
        return matches(path, self._patterns)

    def files_read(self, report: AnalyzerReport) -> frozenset[str]:
        """The examined files, if it reads such files as code."""
        return frozenset(path for path in report.examined if matches(path, self._reads))

    async def extra_job(self, change: Change) -> Mapping[str, Any]:
        """Further parts of the check's job, for subclasses."""
        return {}

    async def run(
        self, change: Change, base: Side, head: Side, files: Sequence[ChangedFile]
    ) -> AnalyzerReport:
        """Run the check over the changed files."""
        if not files:
            return AnalyzerReport(self.name, __version__)
        for side in SIDES if self._whole_tree else ():
            await self._workspace.pack_matching(side, self._patterns)
        job = {
            "base_root": str(base.root),
            "head_root": str(head.root),
            "files": [as_job(file) for file in files],
            **await self.extra_job(change),
        }
        shared = str(await self._workspace.path_listing())
        function, seconds = f"{self._module}:run", time_limit(SECONDS, len(files))
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


def as_job(file: ChangedFile) -> dict[str, Any]:
    """A changed file as checks that compare two sides get it."""
    return {
        "path": file.path,
        "old_path": file.old_path,
        "status": file.status,
        "added": list(file.added),
        "removed": list(file.removed),
    }


class Layering(ComparisonCheck):
    """The check ``layering``, run only where base declares contracts."""

    async def run(
        self, change: Change, base: Side, head: Side, files: Sequence[ChangedFile]
    ) -> AnalyzerReport:
        """Look for contracts in base; where there are any, run the check."""
        contents = self._workspace.contents
        tree = await contents.paths("base")
        regular = [path for path, (mode, _) in tree.items() if mode.startswith("100")]
        found = find_config_files(regular, [file.path for file in files])
        if not any([MARK in await contents.read(tree[path][1]) for path in found]):
            return AnalyzerReport(self.name, __version__)
        await self._workspace.side("base", found)
        for side in SIDES:  # the library that builds the graph looks into directories
            paths = await contents.paths(side)
            await self._workspace.side(side, [path for path in paths if self.wants(path)])
        return await super().run(change, base, head, files)
