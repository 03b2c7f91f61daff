"""Coverage reports from the command line and from base's configuration, to the verdict."""

import json
from pathlib import Path

import pytest

from orchestrator.app.rubric_scoring.rescore import Rescored, rescore
from orchestrator.app.run_review import run_review
from orchestrator.app.runs.stored_runs import show_run
from orchestrator.cli.main import main
from orchestrator.data_directories import data_root
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import EXIT_INCOMPLETE, EXIT_USAGE
from orchestrator.tuning.file_formats.rubric_file import read_rubric
from tests.review.review_kit import Repo, change, options

CODE = "def pay(order):\n" + "".join(f"    order.step({n})\n" for n in range(6))
NEVER = "SF:shop.py\nDA:1,1\n" + "".join(f"DA:{n},0\n" for n in range(2, 8)) + "end_of_record\n"
RULES = {"qa.untested-function", "qa.uncovered-lines"}


def found(repo: Repo) -> set[str]:
    verdict = show_run(repo.path, "latest").verdict
    assert verdict is not None
    return {finding.rule for finding in verdict.findings} & RULES


def test_a_report_that_was_passed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = change(
        tmp_path / "repo", {"tests/test_shop.py": "def test(): pass\n"}, {"shop.py": CODE}
    )
    (tmp_path / "lcov.info").write_text(NEVER)
    monkeypatch.chdir(tmp_path)
    review = ["review", "--quiet", "--repo", str(repo.path), "--base", "HEAD~1"]
    assert main([*review, "--coverage", "gone.xml"]) == EXIT_USAGE
    assert "cannot read the coverage report gone.xml" in capsys.readouterr().err
    main([*review, "--coverage", "lcov.info"])
    assert found(repo) == {"qa.untested-function"}
    # It was copied: scored again, shown and resumed, the run needs the file no more.
    (tmp_path / "lcov.info").write_text("nothing")
    assert main(["resume", "--repo", str(repo.path), "latest", "--quiet"]) != EXIT_INCOMPLETE
    (again,) = rescore(repo.path, [], read_rubric(data_root() / "rubrics" / "pr-review.yaml"))
    assert isinstance(again, Rescored)
    assert main([*review, "--coverage", "lcov.info"]) == EXIT_INCOMPLETE
    out = capsys.readouterr().out
    assert "lcov.info" in out
    assert main(review) != EXIT_INCOMPLETE
    assert found(repo) == set()


@pytest.mark.parametrize("inside", [True, False])
def test_a_report_that_base_declares(tmp_path: Path, inside: bool) -> None:
    names = json.dumps(["out/lcov.info", "not-there.xml"])
    policy = {".diffcourt/config/defaults.yaml": f"coverage: {names}\n", ".gitignore": "out\n"}
    repo = change(tmp_path / "repo", policy, {"shop.py": CODE})
    place = repo.path / "out" if inside else tmp_path / "out"
    place.mkdir()
    (place / "lcov.info").write_text(NEVER)
    if not inside:
        (repo.path / "out").symlink_to(place)  # a link out of the work tree is not followed
    run_review(options(repo.path), ignore_event)
    assert found(repo) == ({"qa.untested-function"} if inside else set())
