"""A run is cancelled from another process: what it runs stops, and its verdict says who did it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from orchestrator.app.human_decisions.approvals import current_user
from orchestrator.app.run_review import open_new_run
from orchestrator.app.runs import cancellation, run_archive
from orchestrator.app.runs.stored_runs import list_runs
from orchestrator.cli.main import main
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import RunCancelled
from orchestrator.stores.sql_store import CancelRequest
from tests.cli.test_command import nobody_left
from tests.review.review_kit import Repo, change, options

SLEEPER = {"command": ["sleeper", "{files}"], "files": ["*.cob"], "timeout": 60}
CONFIG = {".diffcourt/config/defaults.yaml": json.dumps({"analyzers": {"sleeper": SLEEPER}})}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    base = {**CONFIG, "app.cob": "STOP RUN.\n", "app.py": "import os\n"}
    return change(tmp_path / "repo", base, {"app.cob": "GO ON.\n", "app.py": "import sys\n"})


def sleeps(programs: Path) -> bool:
    """Whether the program runs, in whatever session it was put."""
    listed = subprocess.run(["ps", "-ewwo", "args="], capture_output=True, text=True, check=True)
    return f"{programs}/sleeper" in listed.stdout


def reviewing(repo: Repo, programs: Path) -> subprocess.Popen[str]:
    """A review in a session of its own, in which a program runs that would take a minute."""
    programs.mkdir()
    (programs / "sleeper").write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    (programs / "sleeper").chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "review", "--no-cache", "--json", "-"]
        + ["--run-analyzers"],
        cwd=repo.path,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    for _ in range(300):
        if sleeps(programs):
            return process
        time.sleep(0.1)
    process.terminate()
    raise AssertionError(f"the program never began: {process.communicate(timeout=20)}")


def test_cancelling_a_review_ends_everything_that_it_runs(
    repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = reviewing(repo, tmp_path / "programs")
    begun = time.monotonic()
    assert main(["cancel", "latest", "--why", "wrong\nbranch", "--repo", str(repo.path)]) == 0
    took = time.monotonic() - begun
    said = capsys.readouterr().out
    out, err = process.communicate(timeout=30)
    assert "Traceback" not in err
    assert not sleeps(tmp_path / "programs")
    assert nobody_left(process.pid)
    assert took < 10  # two seconds on an idle machine; the program would take sixty
    verdict = json.loads(out)
    who, run = current_user(), verdict["run_id"]
    assert said == f"run {run} was cancelled by {who}; see: diffcourt show {run}\n"
    assert (process.returncode, verdict["status"]) == (3, "incomplete")
    assert verdict["stop"]["reason"] == "cancelled"
    assert verdict["stop"]["detail"] == f"by {who}: wrong branch"
    assert {a["status"] for a in verdict["agents"] if a["agent"] == "security"} == {"cancelled"}
    at = ["--repo", str(repo.path)]
    verdict_file = tmp_path / "verdict.json"
    verdict_file.write_text(out)
    assert main(["audit", "verify", "latest", "--verdict", str(verdict_file), *at]) == 0
    assert main(["resume", "latest", "--json", "-", "--quiet", *at]) == 3
    assert json.loads(capsys.readouterr().out.partition("\n{")[2].join("{}")[:-1]) == verdict


def test_a_run_that_is_not_running_cannot_be_cancelled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = change(tmp_path / "repo", {}, {"a.py": "X = 1\n"})
    at = ["--repo", str(repo.path)]
    assert main(["cancel", "latest", *at]) == 2
    said = capsys.readouterr().err
    assert "there are no runs in this repository; start one with: diffcourt review" in said
    main(["review", "--quiet", "--json", "/dev/null", *at])
    assert main(["cancel", "latest", *at]) == 2
    assert "is not running, so there is nothing to cancel" in capsys.readouterr().err


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    ("hangs", "said"),
    [
        ("orchestrator.app.run_review.resolve_change", "dana cancelled run"),
        ("orchestrator.code_review.review_flow.run_task", "cancelled: by dana"),
        ("orchestrator.code_review.review_flow.prove_fixes", "cancelled: by dana"),
        ("orchestrator.app.run_review.conclude_review", "cancelled: by dana"),
    ],
)
def test_a_cancelled_run_is_recorded_in_any_state(
    tmp_path: Path, backend: str, hangs: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancellation, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(cancellation, "INTAKE_SECONDS", 0.1)
    repo = change(tmp_path / "repo", {}, {"app.py": "import os\n"}).path

    async def work() -> str:
        with open_new_run(options(repo, provider="offline"), ignore_event) as run:

            async def hang(*_: object) -> None:
                asked = CancelRequest("dana", "", 1.0)
                assert await run.store.request_cancellation(run.run_id, asked) == asked
                await anyio.sleep_forever()

            monkeypatch.setattr(hangs, hang)
            try:
                done = await run.review()
            except RunCancelled as error:
                return str(error)
            skipped = {skip.path: skip.why for skip in done.skipped}
            reached = hangs.endswith(("prove_fixes", "conclude_review"))
            assert skipped.get("app.py") == (None if reached else "no tool looked at it")
            return f"{done.stop.reason}: {done.stop.detail}"

    assert anyio.run(work, backend=backend).startswith(said)
    at = ["--repo", str(repo)]
    assert [info.state for info in list_runs(repo)] == ["cancelled"]
    assert main(["resume", "latest", "--quiet", *at]) == 3
    assert main(["audit", "verify", "latest", *at]) == 0
    run_archive.export_run(repo, "latest", tmp_path / "out")
    rows = map(json.loads, (tmp_path / "out/journal.jsonl").read_text().splitlines()[1:])
    (note,) = [json.loads(row["body"]) for row in rows if row["key"] == "cancelled"]
    assert note == {"who": "dana", "why": "", "at": 1.0}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    "during",
    [
        "orchestrator.app.run_review.resolve_change",
        "orchestrator.app.run_review.find_previous",
        "orchestrator.app.run_review.read_layers",
        "orchestrator.app.run_review.copy_given_files",
    ],
)
def test_a_run_that_is_cancelled_in_intake_leaves_an_incomplete_verdict(
    tmp_path: Path, backend: str, during: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancellation, "POLL_SECONDS", 0.01)
    repo = change(tmp_path / "repo", {}, {"app.py": "import os\n"}).path
    module, _, name = during.rpartition(".")
    real = getattr(sys.modules[module], name)

    async def work() -> Verdict:
        with open_new_run(options(repo, provider="offline"), ignore_event) as run:

            async def cancel_during(*given: object, **options: object) -> object:
                await run.store.request_cancellation(run.run_id, CancelRequest("dana", "", 1.0))
                await anyio.sleep(0.5)
                return await real(*given, **options)

            monkeypatch.setattr(during, cancel_during)
            return await run.review()

    verdict = anyio.run(work, backend=backend)
    assert (verdict.stop.reason, verdict.stop.detail) == ("cancelled", "by dana")
    assert (verdict.status, verdict.change.files) == ("incomplete", 1)
    assert [info.state for info in list_runs(repo)] == ["cancelled"]
