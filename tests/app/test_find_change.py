"""How long finding the change may take, in the parts that no command line reaches."""

from pathlib import Path

import pytest

from orchestrator.app import find_change
from orchestrator.app.run_review import run_review
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import ChangeTimeout
from tests.review.review_kit import change, options


def test_base_and_its_policy_must_be_found_in_a_fixed_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find_change, "BASE_SECONDS", 0)
    repo = change(tmp_path / "repo", {"a.py": "x = 1\n"}, {"a.py": "x = 2\n"})
    with pytest.raises(ChangeTimeout, match="finding base and reading its policy took longer"):
        run_review(options(repo.path), ignore_event)


def test_the_minutes_of_the_author_s_tier_bound_finding_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFCOURT_TIER", "outside")
    policy = "bounds: {tiers: {outside: {minutes: 0.00001}}}\n"
    base = {"a.py": "x = 1\n", ".diffcourt/config/defaults.yaml": policy}
    repo = change(tmp_path / "repo", base, {"a.py": "x = 2\n"})
    with pytest.raises(ChangeTimeout, match="took longer than bounds.minutes 1e-05"):
        run_review(options(repo.path), ignore_event)


def test_a_change_of_the_policy_of_later_reviews_is_named(tmp_path: Path) -> None:
    head: dict[str, str | bytes | None] = {
        ".diffcourt/waivers.yaml": None,
        ".diffcourt/config/verdict.yaml": "unraed: note\n",
        ".diffcourt/notes.md": "No policy.\n",
        "a.py": "x = 2\n",
    }
    repo = change(tmp_path / "repo", {".diffcourt/waivers.yaml": "waivers: []\n"}, head)
    for paths in ([], ["a.py"]):
        verdict = run_review(options(repo.path, paths=paths), ignore_event)
        assert verdict.change.notes[0] == (
            "the policy of later reviews is changed: .diffcourt/config/verdict.yaml, "
            ".diffcourt/waivers.yaml; check it: diffcourt catalog"
        )
