"""A review that stopped at a limit goes on when a person raises it, and says who did."""

import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from orchestrator.app.runs import run_archive
from orchestrator.app.types import ReviewOptions
from orchestrator.cli.main import main
from tests.review.review_kit import Repo, change

SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return change(tmp_path / "repo", {}, {"app.py": SHELL, "b.py": SHELL})


def command(repo: Repo, name: str, *words: str) -> Any:
    """Run a command and load the verdict that it writes to a file of that name."""
    target = repo.path.parent / name
    main([*words, "--repo", str(repo.path), "--quiet", "--json", str(target)])
    return json.loads(target.read_text()) if target.exists() else None


@pytest.mark.parametrize(
    ("low", "high", "field"),
    [
        (["--max-tool-calls", "2"], ["--max-tool-calls", "500"], "tool_calls"),
        (["--max-tool-calls", "2"], ["--max-tool-calls", "500", "--max-usd", "77"], "usd"),
    ],
)
def test_a_raised_limit_continues_the_run_and_is_recorded(
    repo: Repo, low: list[str], high: list[str], field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = command(repo, "stopped.json", "review", *low)
    assert (stopped["stop"]["reason"], stopped["status"]) == ("budget", "incomplete")
    assert f"resume {stopped['run_id']} --max-" in stopped["stop"]["next_human_action"]
    assert command(repo, "same.json", "resume")["digest"] == stopped["digest"]
    done = command(repo, "done.json", "resume", "latest", *high)
    assert (done["stop"]["reason"], done["status"]) == ("done", "complete")
    assert done["usage"]["limits"][field] == float(high[-1])
    assert done["usage"]["tool_calls"] > 2
    assert [one["limit_raised"] for one in done["iterations"]] == [True, False]
    assert command(repo, "again.json", "resume")["digest"] == done["digest"]
    capsys.readouterr()
    main(["show", "latest", "--repo", str(repo.path)])
    shown = capsys.readouterr().out
    assert "a person has raised a limit" in " ".join(shown.split())
    assert "What agents could not do" not in shown
    capsys.readouterr()
    for name in ("stopped.json", "done.json"):
        file = str(repo.path.parent / name)
        assert main(["audit", "verify", "--repo", str(repo.path), "latest", "--verdict", file]) == 0
    rows = _exported(repo)
    asked, given = (row["body"] for row in rows if row["key"] == "grant/1")
    assert json.loads(asked)["asked"]["max_tool_calls"] == 500
    assert json.loads(given)["value"]["who"].startswith(pwd.getpwuid(os.getuid()).pw_name)


def _exported(repo: Repo) -> list[dict[str, Any]]:
    folder = repo.path.parent / "export"
    run_archive.export_run(repo.path, "latest", folder)
    return [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()[1:]]


def test_a_grant_that_raises_nothing_or_comes_too_late_is_refused(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    command(repo, "stopped.json", "review", "--max-tool-calls", "2")
    assert main(["resume", "--repo", str(repo.path), "--max-tool-calls", "2"]) == 2
    assert "--max-tool-calls 2 raises nothing: the run's limit is 2" in capsys.readouterr().err
    command(repo, "done.json", "resume", "--max-tool-calls", "500")
    assert main(["resume", "--repo", str(repo.path), "--max-tool-calls", "600"]) == 2
    assert "did not stop at a limit" in capsys.readouterr().err


def test_a_grant_in_an_imported_run_does_not_count(repo: Repo) -> None:
    command(repo, "stopped.json", "review", "--max-tool-calls", "2")
    command(repo, "done.json", "resume", "--max-tool-calls", "3", "--max-usd", "99")
    _exported(repo)
    other = Repo(repo.path.parent / "other")
    other.git("pull", "-q", str(repo.path))
    run_archive.import_run(other.path, repo.path.parent / "export")
    more = command(other, "more.json", "resume", "latest", "--max-tool-calls", "500")
    assert more["usage"]["limits"]["usd"] != 99
    assert more["stop"]["reason"] == "done"


def test_each_limit_that_can_be_raised_is_an_option_of_a_review() -> None:
    from orchestrator.app.human_decisions.run_decisions import GRANTED

    assert GRANTED.keys() <= set(ReviewOptions.__struct_fields__)
