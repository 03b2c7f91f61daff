"""The check ``patterns`` as an analyzer."""

from orchestrator.code_review.analyzer_types import AnalyzerReport
from orchestrator.code_review.analyzers.file_patterns import may_be_script
from orchestrator.code_review.analyzers.one_side_checks import SideCheck


class PatternCheck(SideCheck):
    """The check ``patterns``: it also reads scripts that only their first line names."""

    def wants(self, path: str) -> bool:
        """Whether its name is that of a language, or it may be a script."""
        return super().wants(path) or may_be_script(path)

    def files_read(self, report: AnalyzerReport) -> frozenset[str]:
        """What it examined in its language; a script that it examined is in one that it reads."""
        scripts = (path for path in report.examined if may_be_script(path))
        return super().files_read(report).union(scripts)
