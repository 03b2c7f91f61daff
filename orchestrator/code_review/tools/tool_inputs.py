"""The inputs from which the tools of a review are built."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from diffchecks.jobs import GivenCoverage, GivenReport
from orchestrator.catalog.settings import ReviewSettings
from orchestrator.code_review.analyzer_types import ResultCache
from orchestrator.code_review.change.security_fixes import FixHistory
from orchestrator.code_review.review_workspace import IterationFocus, ReviewWorkspace
from orchestrator.sandbox.worker_pool import WorkerPool


class CopiedAdvisories(Struct, frozen=True):
    """The advisories of the changed packages, copied for the run.

    Attributes:
        path: where the copy is; empty: there is none.
        gaps: the dump's name → what of it could not be read.
    """

    path: str
    gaps: Mapping[str, str]


class GivenFiles(Struct, frozen=True):
    """Copies of files that the user or base names for a review.

    Attributes:
        coverage: reports of which lines the change's tests ran.
        imported: reports of analyzers that the team runs itself; the settings say what counts.
        advisories: those of the changed packages; None if no dump was given.
    """

    coverage: Sequence[GivenCoverage] = ()
    imported: Sequence[GivenReport] = ()
    advisories: CopiedAdvisories | None = None


NO_FILES = GivenFiles()


class ToolInputs(Struct, frozen=True):
    """What the tools of a review are built from.

    Attributes:
        required_checks: names of the checks that the policy requires of this change.
        data: the data of checks: the name of a directory of ``diffchecks.DATA`` → the paths of its
            files, a repository's own among them.
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
    data: Mapping[str, Sequence[str]]
    given: GivenFiles = NO_FILES
    cache: ResultCache | None = None
    run_analyzers: bool = False
    run_tests: bool = False
    private_paths: Sequence[Path] = ()
    checkout: Path | None = None
    fix_history: FixHistory = field(default_factory=FixHistory)

    def codes(
        self, analyzer: str, category: str | None = None, *, others_code: bool = False
    ) -> frozenset[str]:
        """The codes of an analyzer that the rule table turns on, as ``RuleTable.codes``."""
        return self.workspace.rules.codes(analyzer, category, others_code=others_code)
