"""Reviews limited to a part of a repository."""

from pathlib import Path

import pytest

from orchestrator.app.run_review import run_review
from orchestrator.code_review.change.path_limits import normalize_path
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import InputError
from tests.review.review_kit import Repo, change, options

BROKEN = "def f() -> str:\n    return undefined\n"


@pytest.fixture
def monorepo(tmp_path: Path) -> Repo:
    base: dict[str, str | bytes] = {"web/moved.py": "A = 1\nB = 2\nC = 3\n"}
    head: dict[str, str | bytes | None] = {
        "api/a.py": BROKEN,
        "apiary/b.py": BROKEN,
        "web/c.py": BROKEN,
        "web/moved.py": None,
    }
    head["api/moved.py"] = base["web/moved.py"]
    return change(tmp_path / "repo", base, head)


def review(repo: Path, **given: object) -> Verdict:
    return run_review(options(repo, **given), ignore_event)


def test_a_review_limited_to_a_directory_reports_nothing_outside_it(monorepo: Repo) -> None:
    verdict = review(monorepo.path, paths=["./api/"])
    assert [finding.path for finding in verdict.findings] == ["api/a.py"]
    assert [entry.path for entry in verdict.checked] == ["api/a.py", "api/moved.py"]
    assert "limited to api: 2 of 4 changed files are reviewed" in verdict.change.notes


def test_several_paths_and_single_files_can_be_named(monorepo: Repo) -> None:
    verdict = review(monorepo.path, paths=["web/c.py", "apiary"])
    assert [finding.path for finding in verdict.findings] == ["apiary/b.py", "web/c.py"]


def test_a_file_moved_out_of_the_directory_counts(monorepo: Repo) -> None:
    verdict = review(monorepo.path, paths=["web"])
    assert "api/moved.py" in {entry.path for entry in verdict.checked}


@pytest.mark.parametrize("path", ["", "/etc", "../other", "api/../.."])
def test_a_path_outside_the_repository_is_refused(path: str) -> None:
    with pytest.raises(InputError, match="relative to its root"):
        normalize_path(path)


def test_a_path_that_is_on_neither_side_is_refused(monorepo: Repo) -> None:
    with pytest.raises(InputError, match="--path apo: neither base nor head"):
        review(monorepo.path, paths=["api", "apo"])


def test_a_directory_without_changes_has_nothing_to_review(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {"docs/a.md": "# A\n"}, {"b.py": BROKEN})
    verdict = review(repo.path, paths=["docs"])
    assert (verdict.verdict, verdict.findings) == ("merge", ())
    assert "limited to docs: 0 of 1 changed files are reviewed" in verdict.change.notes


def test_a_review_started_in_a_subdirectory_says_that_the_whole_change_is_reviewed(
    monorepo: Repo,
) -> None:
    verdict = review(monorepo.path / "api")
    assert len(verdict.checked) == 4
    assert (
        "all of the repository is reviewed; for api alone, add --path api" in verdict.change.notes
    )
