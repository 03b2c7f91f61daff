"""The inputs from which the tools of a review are built."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field

from orchestrator.catalog.settings import ReviewSettings
from orchestrator.code_review.analyzers.dependency_check import CopiedAdvisories
from orchestrator.code_review.analyzers.imported_reports import ImportedReport
from orchestrator.code_review.analyzers.result_cache import ResultCache
from orchestrator.code_review.analyzers.run_tests import MAX_RUNS
from orchestrator.code_review.analyzers.uncovered_lines import CoverageReport
from orchestrator.code_review.change.contents import SIDES
from orchestrator.code_review.change.security_fixes import FixHistory
from orchestrator.code_review.review_workspace import IterationFocus, ReviewWorkspace
from orchestrator.sandbox.worker_pool import WorkerPool

AROUND_PROGRAMS = 120.0
"""Seconds for what is around tests and analyzers: exporting both sides, and the check."""


class GivenFiles(Struct, frozen=True):
    """Copies of files that the user or base names for a review.

    Attributes:
        coverage: reports of which lines the change's tests ran.
        imported: reports of analyzers that the team runs itself; the settings say what counts.
        advisories: those of the changed packages; None if no dump was given.
    """

    coverage: Sequence[CoverageReport] = ()
    imported: Sequence[ImportedReport] = ()
    advisories: CopiedAdvisories | None = None


NO_FILES = GivenFiles()


class ToolInputs(Struct, frozen=True):
    """What the tools of a review are built from.

    Attributes:
        required_checks: names of the checks that the policy requires of this change.
        taint_models: paths of the files that describe libraries to the taint check.
        pattern_files: paths of the files of patterns in other languages.
        infrastructure_files: paths of the files of dangerous values in infrastructure files.
        cache: results of earlier reviews; None: every file is analyzed.
        run_analyzers: the user who runs the review allows the settings' analyzers and type checker.
        run_tests: the user who runs the review allows the settings' tests, and agents' snippets.
        private_paths: absolute paths that tests and analyzers may not read, besides those of the
            system.
        checkout: the repository's directory; may be None.
        fix_history: earlier security fixes in the history of base.
    """

    workspace: ReviewWorkspace
    pool: WorkerPool
    settings: ReviewSettings
    focus: IterationFocus
    required_checks: Sequence[str]
    taint_models: Sequence[str]
    pattern_files: Sequence[str]
    infrastructure_files: Sequence[str] = ()
    given: GivenFiles = NO_FILES
    cache: ResultCache | None = None
    run_analyzers: bool = False
    run_tests: bool = False
    private_paths: Sequence[Path] = ()
    checkout: Path | None = None
    fix_history: FixHistory = field(default_factory=FixHistory)

    @property
    def tests_seconds(self) -> float:
        """Seconds that all runs of the tests may take together, with what is around them."""
        tests = self.settings.tests
        return (MAX_RUNS * tests.seconds if tests else 0.0) + AROUND_PROGRAMS

    @property
    def analyzers_seconds(self) -> float:
        """Seconds that the configured analyzers may take together, with what is around them."""
        runs = sum(len(SIDES) * one.timeout for one in self.settings.analyzers.values())
        return runs + AROUND_PROGRAMS

    @property
    def typecheck_seconds(self) -> float:
        """Seconds that both runs of the type checker may take, with what is around them."""
        checker = self.settings.typecheck
        return (len(SIDES) * checker.seconds if checker else 0.0) + AROUND_PROGRAMS

    def codes(self, analyzer: str, category: str | None = None) -> frozenset[str]:
        """The codes of an analyzer that the rule table turns on."""
        return self.workspace.rules.codes(analyzer, category)
