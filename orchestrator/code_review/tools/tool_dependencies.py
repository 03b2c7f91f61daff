"""What the tools of a review are built from."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from orchestrator.catalog.settings import Tests
from orchestrator.code_review.analyzers.result_cache import ResultCache
from orchestrator.code_review.analyzers.run_tests import ORDER
from orchestrator.code_review.analyzers.uncovered_lines import CoverageReport
from orchestrator.code_review.focus import Focus
from orchestrator.code_review.session import Session
from orchestrator.sandbox.worker_pool import WorkerPool

AROUND_TESTS = 120.0
"""Seconds for what is not the tests themselves: exporting both sides, and the check."""


class ToolInputs(Struct, frozen=True):
    """What the tools of a review are built from.

    Attributes:
        specialists: names of the agents that a plan gives work to.
        required_checks: names of the checks that the policy requires of this change.
        taint_models: paths of the files that describe libraries to the taint check.
        pattern_files: paths of the files of patterns in other languages.
        coverage: reports of which lines the change's tests ran.
        cache: results of earlier reviews; None: every file is analyzed.
        tests: how the change's tests are run; None: they are not run.
    """

    session: Session
    pool: WorkerPool
    specialists: Sequence[str]
    focus: Focus
    required_checks: Sequence[str]
    taint_models: Sequence[str]
    pattern_files: Sequence[str]
    coverage: Sequence[CoverageReport] = ()
    cache: ResultCache | None = None
    tests: Tests | None = None

    @property
    def tests_seconds(self) -> float:
        """Seconds that all runs of the tests may take together, with what is around them."""
        return len(ORDER) * self.tests.seconds + AROUND_TESTS if self.tests else AROUND_TESTS

    def codes(self, analyzer: str, category: str | None = None) -> frozenset[str]:
        """The codes of an analyzer that the rule table turns on."""
        return self.session.rules.codes(analyzer, category)
