"""The progress of a running review as a text: from another process, and as a file."""

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator import Harness, tool
from orchestrator.app.run_review import run_review
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.run_progress import PROGRESS, RunProgress, follow_run, record_progress
from orchestrator.app.types import ReviewOptions
from orchestrator.cli.main import main
from orchestrator.engine.observer_events import Event, ignore_event
from orchestrator.engine.types import Request, Response, Usage
from tests.review.review_kit import Repo, change, review
from tests.review.team_kit import judged, looks, plan, report, sums
from tests.scripted_model import ScriptedModel, ScriptedReply

HEAD = {"app.py": "import os\n\n\ndef run(x):\n    os.system('ls ' + x)\n"}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return change(tmp_path, {}, HEAD)


def read(batches: Iterator[list[Event]], progress: RunProgress) -> str:
    for event in next(batches, []):
        progress.add(event)
    return str(progress)


async def test_a_run_is_followed_while_another_thread_works_on_it(repo: Repo) -> None:
    shown: list[str] = []
    progress, batches = RunProgress(), follow_run(repo.path, "latest")

    with ThreadPoolExecutor(1) as other, state_directory.open_store(repo.path) as store:

        def looked(request: Request) -> Response:
            shown.append(other.submit(read, batches, progress).result(30))
            return report()

        meta = {"options": ReviewOptions(repo=repo.path, base="HEAD~1").as_meta()}
        await store.create("run", 1.0, meta)
        paid = replace(looks("secrets"), usage=Usage(input_tokens=1200, usd=0.25))
        script: dict[str, list[ScriptedReply]] = {
            "lead": [plan("security"), sums()],
            "security": [paid, looked],
        }
        model = ScriptedModel(script)
        await review(repo, model, store=store, adjust=judged)
        shown.append(other.submit(read, batches, progress).result(30))

    during, after = (text.splitlines() for text in shown)
    assert during[0] == "run run"
    assert during[1].startswith("reviewing   0:00:")
    assert "iteration 1" in during[1]
    assert during[2] == "completed: reading the change, planning, assigning files, analyzers, lead"
    assert during[3] == "remaining: security, merging findings, checking what is missing"
    assert during[4].startswith("tool calls ")
    assert during[4].endswith("   tokens 1,200   USD 0.25")
    assert [line.split()[:2] for line in during[5:]][:1] == [["security", "running"]]
    assert after[1].startswith("StopStagnation ")  # nobody judges
    assert after[3] == "remaining: nothing"


@pytest.mark.parametrize(
    ("end", "left"),
    [("human", "a person's answer or approval"), ("budget", "a higher limit"), ("done", "nothing")],
)
def test_what_a_run_that_stopped_waits_for_remains(end: str, left: str) -> None:
    progress = RunProgress("run")
    progress.add(Event("state", 1.0, detail="Done"))
    progress.add(Event("run_finished", 2.0, detail=end))
    assert f"remaining: {left}\n" in str(progress)


@tool
async def greet() -> str:
    """Greet."""
    return "hello"


async def test_a_programs_run_has_no_steps_of_a_review(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Harness.open(tmp_path / ".diffcourt/state/journal.db", "mine", tools=[greet]) as it:
        await it.execute("greet")
        with ThreadPoolExecutor(1) as other:
            events = other.submit(next, follow_run(tmp_path, "mine")).result(30)
    progress = RunProgress()
    for event in events:
        progress.add(event)
    assert str(progress).startswith("run mine\nrunning   0:00:0")
    assert "remaining" not in str(progress)
    with ThreadPoolExecutor(1) as other:
        assert (
            other.submit(main, ["show", "mine", "--follow", "--repo", str(tmp_path)]).result() == 0
        )
    out = capsys.readouterr().out
    assert out.startswith("run mine\nfinished   0:00:0")
    assert "reading the change" not in out


def test_a_review_keeps_the_text_beside_its_journal(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict = run_review(ReviewOptions(repo=repo.path, base="HEAD~1"), ignore_event)
    folder = repo.path / ".diffcourt/state/runs" / verdict.run_id
    text = (folder / PROGRESS).read_text()
    assert text.startswith(f"run {verdict.run_id}\nfinished   0:00:")
    assert "\n  security             ok " in text
    assert [name for name in os.listdir(folder) if name.startswith(PROGRESS)] == [PROGRESS]
    assert main(["show", verdict.run_id[:-1], "--follow", "--repo", str(repo.path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"run {verdict.run_id}\nfinished   0:00:")
    assert out.splitlines()[1].endswith(" of 0:15:00   findings 1   iteration 1")
    assert re.fullmatch(r"tool calls \d+ of 400", out.splitlines()[4])
    assert "\nTimeline\n" in out
    (folder / PROGRESS).write_text("nonsense")  # it is never read
    assert main(["show", "--follow", "--repo", str(repo.path)]) == 0
    assert "nonsense" not in capsys.readouterr().out


def test_the_text_has_lines_of_ours_alone_and_no_file_is_followed(tmp_path: Path) -> None:
    run = tmp_path / "runs/r1"
    run.mkdir(parents=True)
    other = tmp_path / "other"
    other.write_text("kept")
    (run / PROGRESS).symlink_to(other)
    passed: list[Event] = []
    keep = record_progress(tmp_path, "r1", passed.append)
    keep(Event("note", 0.0, detail="x\nfinished\x1b[2J \u202e"))
    keep(Event("agent_started", 0.1, agent="qa\nrun r2"))
    lines = (run / PROGRESS).read_text().splitlines()
    assert lines[-1] == r"x\nfinished\x1b[2J \u202e"
    assert [line for line in lines if line.startswith(("run", "finished"))] == ["run r1"]
    assert other.read_text() == "kept"
    assert not (run / PROGRESS).is_symlink()
    assert len(passed) == 2


def test_a_text_that_cannot_be_written_does_not_end_the_run(tmp_path: Path) -> None:
    passed: list[Event] = []
    record_progress(tmp_path / "nowhere", "r1", passed.append)(Event("state", 0.0, detail="Act"))
    assert len(passed) == 1


def test_json_has_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--json", "--follow"]) == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_a_later_iteration_says_what_is_left_of_it() -> None:
    progress = RunProgress("r1")
    states = ("Intake", "Plan", "Triage", "Act", "Synthesize", "Evaluate", "Iterate")
    for name in (*states, "Plan"):
        progress.add(Event("state", 0.0, detail=name))
    progress.add(Event("agent_started", 0.0, agent="lead"))
    progress.add(Event("model_started", 0.0, agent="lead"))
    lines = progress.lines(3700.0)
    assert lines[0] == "planning   1:01:40   findings 0   iteration 2"
    assert lines[1] == "completed: reading the change, planning"
    assert lines[2].startswith("remaining: lead, assigning files, reviewing, merging")
    assert lines[3] == "  lead                 running  calls 0    findings 0    thinking"
