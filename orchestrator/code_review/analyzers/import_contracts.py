"""The repository's own import contracts; most repositories have none, and no check runs."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator import __version__
from orchestrator.checks.imports.layering_contracts import MARK, find_config_files
from orchestrator.code_review.analysis import AnalyzerReport, Side
from orchestrator.code_review.analyzers.comparison_checks import ComparisonCheck
from orchestrator.code_review.change.types import Change, ChangedFile


class Layering(ComparisonCheck):
    """The check ``layering``, run only where base declares contracts."""

    async def run(
        self, change: Change, base: Side, head: Side, files: Sequence[ChangedFile]
    ) -> AnalyzerReport:
        """Look for contracts in base; where there are any, run the check."""
        contents = self._session.contents
        tree = await contents.paths("base")
        regular = [path for path, (mode, _) in tree.items() if mode.startswith("100")]
        found = find_config_files(regular, [file.path for file in files])
        if not any([MARK in await contents.read(tree[path][1]) for path in found]):
            return AnalyzerReport(self.name, __version__)
        await self._session.side("base", found)
        return await super().run(change, base, head, files)
