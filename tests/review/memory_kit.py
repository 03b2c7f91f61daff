"""Dismissals of a branch's findings, committed to base while the branch goes on."""

from collections.abc import Mapping

from orchestrator.app.memory.waiver_files import DISMISSAL_FILE, Reason, dismissal_of
from orchestrator.code_review.verdict.model import Finding, Verdict
from tests.review.push_kit import Branch
from tests.review.review_kit import Repo

FILE = DISMISSAL_FILE.name


def commit_to_base(repo: Repo, files: Mapping[str, str | None]) -> None:
    """Commit to main, and come back to the branch, which is not rebased."""
    repo.git("checkout", "-q", "main")
    repo.commit(files)
    repo.git("checkout", "-q", "feature")


def dismiss(branch: Branch, finding: Finding, **given: str) -> None:
    """Dismiss a finding of the branch's last review, in base."""
    assert branch.verdict is not None
    reason = Reason(**{"why": "The list is never empty.", "by": "maintainer", **given})  # type: ignore[arg-type]
    _, entry = dismissal_of(branch.verdict, finding.id, reason)
    branch.repo.git("checkout", "-q", "main")
    place = branch.repo.path / FILE
    before = place.read_text() if place.exists() else ""
    branch.repo.commit({FILE: DISMISSAL_FILE.extend(before, entry)})
    branch.repo.git("checkout", "-q", "feature")


def named(verdict: Verdict, title: str) -> Finding:
    """The finding with a title that begins so."""
    (found,) = [one for one in verdict.findings if one.title.startswith(title)]
    return found
