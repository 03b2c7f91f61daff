"""The inputs from which the tools of a review are built."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from orchestrator.catalog.settings import ConfiguredProgram, Imports, Tests, TypeCheck
from orchestrator.code_review.analyzers.dependency_check import CopiedAdvisories
from orchestrator.code_review.analyzers.imported_reports import ImportedReport
from orchestrator.code_review.analyzers.result_cache import ResultCache
from orchestrator.code_review.analyzers.run_tests import MOST_RUNS
from orchestrator.code_review.analyzers.uncovered_lines import CoverageReport
from orchestrator.code_review.change.contents import SIDES
from orchestrator.code_review.change.security_fixes import FixHistory
from orchestrator.code_review.review_workspace import Focus, ReviewWorkspace
from orchestrator.sandbox.worker_pool import WorkerPool

AROUND_PROGRAMS = 120.0
"""Seconds for what is around tests and analyzers: exporting both sides, and the check."""


class ToolInputs(Struct, frozen=True):
    """What the tools of a review are built from.

    Attributes:
        required_checks: names of the checks that the policy requires of this change.
        taint_models: paths of the files that describe libraries to the taint check.
        pattern_files: paths of the files of patterns in other languages.
        infrastructure_files: paths of the files of dangerous values in infrastructure files.
        coverage: reports of which lines the change's tests ran.
        cache: results of earlier reviews; None: every file is analyzed.
        analyzers: those that base configures, by name.
        run_analyzers: the user who runs the review allows them and the type checker.
        typecheck: how types are checked; None if they are not.
        tests: how the change's tests are run; None if they are not.
        run_tests: the user who runs the review allows them and snippets of agents.
        private_paths: absolute paths that tests and analyzers may not read, besides those of the
            system.
        checkout: the repository's directory; may be None.
        advisories: those of the changed packages; None if no dump was given.
        fix_history: earlier security fixes in the history of base.
        imported: reports of analyzers that the team runs itself; ``imports`` says what counts.
    """

    workspace: ReviewWorkspace
    pool: WorkerPool
    specialists: Sequence[str]
    focus: Focus
    required_checks: Sequence[str]
    taint_models: Sequence[str]
    pattern_files: Sequence[str]
    infrastructure_files: Sequence[str] = ()
    coverage: Sequence[CoverageReport] = ()
    cache: ResultCache | None = None
    analyzers: Mapping[str, ConfiguredProgram] = {}
    run_analyzers: bool = False
    typecheck: TypeCheck | None = None
    tests: Tests | None = None
    run_tests: bool = False
    private_paths: Sequence[Path] = ()
    checkout: Path | None = None
    imported: Sequence[ImportedReport] = ()
    advisories: CopiedAdvisories | None = None
    imports: Imports = Imports()
    fix_history: FixHistory = field(default_factory=FixHistory)

    @property
    def tests_seconds(self) -> float:
        """Seconds that all runs of the tests may take together, with what is around them."""
        return MOST_RUNS * self.tests.seconds + AROUND_PROGRAMS if self.tests else AROUND_PROGRAMS

    @property
    def analyzers_seconds(self) -> float:
        """Seconds that the configured analyzers may take together, with what is around them."""
        runs = sum(len(SIDES) * one.timeout for one in self.analyzers.values())
        return runs + AROUND_PROGRAMS

    @property
    def typecheck_seconds(self) -> float:
        """Seconds that both runs of the type checker may take, with what is around them."""
        runs = len(SIDES) * self.typecheck.seconds if self.typecheck else 0.0
        return runs + AROUND_PROGRAMS

    def codes(self, analyzer: str, category: str | None = None) -> frozenset[str]:
        """The codes of an analyzer that the rule table turns on."""
        return self.workspace.rules.codes(analyzer, category)
