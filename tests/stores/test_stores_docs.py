"""The page on stores says what the commands do."""

import re
import shlex
from pathlib import Path

import pytest

from orchestrator.app.run_review import run_review
from orchestrator.app.runs import run_archive
from orchestrator.cli.main import main
from orchestrator.engine.observer_events import ignore_event
from tests.review.review_kit import change, options

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "stores.md").read_text()
FORKING = (DOCS / "forking.md").read_text()


def test_the_commands_of_the_page_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = change(tmp_path / "repo", {}, {"app.py": "import os\n"}).path
    verdict = run_review(options(repo, provider="offline"), ignore_event)
    monkeypatch.chdir(repo)
    commands = re.findall(r"^diffcourt (runs.*?)(?: +#.*)?$", PAGE, re.MULTILINE)
    assert len(commands) == 7
    (one,) = [line for line in commands if "--run" in line]
    commands = [line for line in commands if line != one]
    # Exported last and imported into an empty list: a run that is there is not entered again.
    for line in [*commands[:5], "runs prune --older-than 0.0000001", commands[5], one]:
        words = [
            {"RUN": "latest", "DIR": str(tmp_path / "out")}.get(w, w) for w in shlex.split(line)
        ]
        assert main(words) == 0, line
    assert verdict.run_id in capsys.readouterr().out


def test_the_forks_of_the_page_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = change(tmp_path / "repo", {}, {"app.py": "import os\n"}).path
    run_review(options(repo, provider="offline"), ignore_event)
    monkeypatch.chdir(repo)
    dropped, answered, *edited = re.findall(r"^diffcourt (.*?)(?: +#.*)?$", FORKING, re.MULTILINE)
    assert main(shlex.split(answered)) == 2  # nothing was asked of a person
    assert "it can be forked at: 1 Intake, 2 Plan, 3 Triage" in capsys.readouterr().err
    for line in (dropped.replace("F3", "F1"), *edited):
        assert main(shlex.split(line)) == 0, line


def test_it_names_what_an_export_holds(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {}, {"app.py": "import os\n"})
    patch = repo.git("diff", "HEAD~1", "HEAD").encode() + b"\n"
    run_review(options(repo.path, diff=patch, diff_name="p", provider="offline"), ignore_event)
    run_archive.export_run(repo.path, "latest", tmp_path / "out")
    held = {
        f"{file.name}/" if file.is_dir() else file.name for file in (tmp_path / "out").iterdir()
    }
    table = PAGE.partition("An export holds")[2].partition("\nAn imported")[0]
    assert held == set(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE))
