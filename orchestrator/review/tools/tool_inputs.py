"""What the tools of a review are made from."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from orchestrator.catalog.settings import Tests
from orchestrator.review.analyzers.result_cache import Answers
from orchestrator.review.analyzers.run_tests import ORDER
from orchestrator.review.coverage_reports import CoverageReport
from orchestrator.review.session import Session
from orchestrator.review.tools.plan_tools import Focus
from orchestrator.sandbox.worker_pool import WorkerPool

AROUND_TESTS = 120.0
"""Seconds for what is not the tests themselves: writing both sides, and the check."""


class Ground(Struct, frozen=True):
    """What tools are made from.

    Attributes:
        focus: which iteration this is; the flow moves it on.
        required: names of the checks that the policy requires of this change.
        knowledge: files of what the tracer knows.
        languages: files of patterns in other languages.
        coverage: reports of what the change's tests ran.
        answers: those of earlier reviews.
        tests: how the change's tests are run; None: they are not.
    """

    session: Session
    pool: WorkerPool
    specialists: Sequence[str]
    focus: Focus
    required: Sequence[str]
    knowledge: Sequence[str]
    languages: Sequence[str]
    coverage: Sequence[CoverageReport] = ()
    answers: Answers | None = None
    tests: Tests | None = None

    @property
    def tests_seconds(self) -> float:
        """What all runs of the tests may take, with some time around them."""
        return len(ORDER) * self.tests.seconds + AROUND_TESTS if self.tests else AROUND_TESTS

    def codes(self, analyzer: str, category: str | None = None) -> frozenset[str]:
        """The codes of an analyzer that the rule table turns on."""
        return self.session.rules.codes(analyzer, category)
