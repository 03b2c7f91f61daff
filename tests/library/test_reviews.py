"""A review as a call: the same verdict as the command's, on either event loop."""

import json
from pathlib import Path

import pytest
from anyio import to_thread

from orchestrator import InputError, Verdict, review
from orchestrator.cli.main import main
from tests.review.review_kit import Repo, change


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    shell = "import os\nos.system('ls ' + input())\n"
    return change(tmp_path / "repo", {"a.py": "x = 1\n"}, {"b.py": shell})


@pytest.mark.either_loop
async def test_a_review_gives_the_verdict_and_keeps_the_run(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[str] = []
    verdict = await review(
        repo.path, base="HEAD~1", observer=lambda event: events.append(event.kind)
    )
    assert isinstance(verdict, Verdict)
    assert verdict.verdict == "needs_changes"
    assert [finding.rule for finding in verdict.findings if finding.severity == "medium"] == [
        "security.subprocess-shell"
    ]
    assert events[0] == "run_started"
    assert events[-1] == "run_finished"
    shows = ["show", verdict.run_id, "--repo", str(repo.path), "--json"]
    assert await to_thread.run_sync(main, shows) == 0
    shown = json.loads(capsys.readouterr().out)
    assert Verdict.model_validate(shown["verdict"]) == verdict


async def test_an_impossible_review_says_why_and_leaves_no_run(
    repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[str] = []
    with pytest.raises(InputError, match="no such ref|unknown|does not name"):
        await review(repo.path, base="nowhere", observer=lambda event: events.append(event.kind))
    assert events == []  # the id of a run that is not kept is not shown
    with pytest.raises(InputError, match="is not a git repository"):
        await review(tmp_path)
    lists = ["runs", "--repo", str(repo.path), "--json"]
    assert await to_thread.run_sync(main, lists) == 0
    assert json.loads(capsys.readouterr().out) == []
