"""The command itself, as its users run it: another process, a real repository, real signals."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.app.run_review import resume_review, run_review
from orchestrator.cli.main import main
from orchestrator.engine.observer_events import ignore_event
from tests.review.review_kit import Repo, change, options

SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"


def diffcourt(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", *arguments],
        cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=100, check=False,
    )  # fmt: skip
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """The same in this process, for what does not depend on it: it need not start."""

    def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(cwd)
        code = main(list(arguments))
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return change(tmp_path / "repo", {}, {"app.py": SHELL})


def test_review_gates_and_writes_the_verdict(repo: Repo, call: Call, tmp_path: Path) -> None:
    out = tmp_path / "verdict.json"
    done = diffcourt("review", "--json", str(out), cwd=repo.path)
    assert done.returncode == 1
    assert done.stdout.startswith("NEEDS CHANGES")
    assert "\x1b" not in done.stdout + done.stderr
    verdict = json.loads(out.read_text())
    assert verdict["verdict"] == "needs_changes"
    assert verdict["digest"]
    assert call("review", "--fail-on", "block", "--quiet", cwd=repo.path).returncode == 0


def test_both_event_loops_give_the_same_verdict(repo: Repo) -> None:
    digests = set()
    for backend in ("asyncio", "trio"):
        verdict = run_review(options(repo.path), ignore_event, backend=backend)
        digests.add(verdict.digest)
        assert verdict == resume_review(repo.path, "latest", ignore_event, backend=backend)
    assert len(digests) == 1


def test_base_configures_fail_on_and_the_command_line_overrides_it(repo: Repo, call: Call) -> None:
    repo.commit({".diffcourt/config/defaults.yaml": "fail_on: block\n"})
    repo.commit({"other.py": SHELL})
    assert call("review", "--quiet", cwd=repo.path).returncode == 0
    again = call("review", "--fail-on", "needs_changes", "--quiet", cwd=repo.path)
    assert again.returncode == 1


def test_a_review_without_a_sandbox_warns(repo: Repo, call: Call) -> None:
    repo.commit({".diffcourt/config/defaults.yaml": "sandbox: off\n"})
    repo.commit({"other.py": SHELL})
    done = call("review", "--json", "-", cwd=repo.path)
    warning = "the sandbox is off: programs that read the change are not confined"
    assert warning in done.stderr
    (note,) = json.loads(done.stdout)["usage"]["notes"]
    assert note.startswith(warning)
    assert warning in call("show", "latest", cwd=repo.path).stdout


def test_runs_and_show_list_the_run(repo: Repo, call: Call) -> None:
    call("review", "--quiet", cwd=repo.path)
    (run,) = json.loads(call("runs", "--json", cwd=repo.path).stdout)
    assert (run["state"], run["verdict"]) == ("finished", "needs_changes")
    shown = json.loads(call("show", "latest", "--json", cwd=repo.path).stdout)
    assert shown["verdict"]["run_id"] == run["run_id"]
    assert any(entry["key"] == "1/plan" for entry in shown["timeline"])
    assert "NEEDS CHANGES" in call("show", run["run_id"], cwd=repo.path).stdout


def test_a_work_tree_is_reviewed_with_what_is_new_in_it(repo: Repo, call: Call) -> None:
    repo.write({"fresh.py": "import os\n\n\ndef run(x):\n    os.system('ls ' + x)\n"})
    before = repo.git("status", "--porcelain")
    done = call("review", "--worktree", "--json", "-", "--quiet", cwd=repo.path)
    verdict = json.loads(done.stdout)
    assert {finding["path"] for finding in verdict["findings"]} == {"fresh.py"}
    assert repo.git("status", "--porcelain") == before


def test_a_patch_is_reviewed_with_a_repository_and_without(
    repo: Repo, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch, file = repo.git("diff", "HEAD~1", "HEAD").encode() + b"\n", tmp_path / "a.patch"
    file.write_bytes(patch)
    repo.git("checkout", "-q", "HEAD~1")
    inside = call("review", "--diff", str(file), "--json", "-", "--quiet", cwd=repo.path)
    assert "security.subprocess-shell" in {f["rule"] for f in json.loads(inside.stdout)["findings"]}
    alone = tmp_path / "alone"
    alone.mkdir()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(patch)))
    outside = call("review", "--diff", "-", "--json", "-", "--quiet", cwd=alone)
    verdict = json.loads(outside.stdout)
    assert outside.returncode == 3
    assert verdict["status"] == "incomplete"
    assert all(skip["why"] for skip in verdict["skipped"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("review", "--base", "nosuch"), "nosuch"),
        (("review", "--provider", "nosuch"), "offline"),
        (("review", "--diff", "missing.patch"), "missing.patch"),
        (("resume", "nosuch"), "diffcourt runs"),
        (("show", "nosuch"), "diffcourt runs"),
        (("review", "--max-minutes", "nan"), "max-minutes"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    repo: Repo, call: Call, arguments: tuple[str, ...], says: str
) -> None:
    done = call(*arguments, cwd=repo.path)
    lines = [line for line in done.stderr.splitlines() if line.startswith("diffcourt: ")]
    assert done.returncode == 2
    assert len(lines) == 1
    assert says in lines[0]
    assert "Traceback" not in done.stderr
    assert json.loads(call("runs", "--json", cwd=repo.path).stdout) == []


def test_outside_a_repository_nothing_is_left_behind(call: Call, tmp_path: Path) -> None:
    done = call("review", cwd=tmp_path)
    assert done.returncode == 2
    assert "not a git repository" in done.stderr
    assert list(tmp_path.iterdir()) == []


def started(repo: Repo, *before: str) -> subprocess.Popen[bytes]:
    """A review that is at its specialists' work; with cached results it might end there."""
    ours = signal.signal(
        signal.SIGHUP, signal.SIG_DFL
    )  # what runs under nohup inherits to ignore it
    process = subprocess.Popen(
        [*before, sys.executable, "-m", "orchestrator", "review", "--no-cache"],
        cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    signal.signal(signal.SIGHUP, ours)
    assert process.stderr is not None
    for line in process.stderr:
        if b"security: started" in line:
            return process
    raise AssertionError("the review never came to its specialists")


def interrupted(repo: Repo, sent: signal.Signals, *before: str) -> tuple[int, bytes]:
    """The group and the last words of a review that a signal ended.

    One that was done before the signal came is tried again: this process may have had to wait.
    """
    for _ in range(5):
        process = started(repo, *before)
        process.send_signal(sent)
        _, err = process.communicate(timeout=30)
        if process.returncode == 130:
            break
    assert process.returncode == 130
    return process.pid, err


def nobody_left(session: int) -> bool:
    """Whether no process of a session runs any more; waits for the last to go."""
    for _ in range(200):
        found = subprocess.run(
            ["ps", "-o", "pid=", "-s", str(session)], capture_output=True, check=False
        )
        if not found.stdout.strip():
            return True
        time.sleep(0.1)
    return False


IN_THE_BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""What a script runs with an ``&`` ignores SIGINT; SIGTERM ends it all the same."""


@pytest.mark.parametrize(
    ("sent", "before"),
    [(signal.SIGINT, ()), (signal.SIGTERM, IN_THE_BACKGROUND), (signal.SIGHUP, ())],
)
def test_an_interrupt_ends_everything_and_the_run_can_be_resumed(
    repo: Repo, call: Call, sent: signal.Signals, before: tuple[str, ...]
) -> None:
    whole = json.loads(call("review", "--json", "-", "--quiet", cwd=repo.path).stdout)
    group, err = interrupted(repo, sent, *before)
    assert b"diffcourt resume" in err
    assert b"Traceback" not in err
    assert nobody_left(group)
    resumed = call("resume", "latest", "--json", "-", "--quiet", cwd=repo.path)
    assert json.loads(resumed.stdout)["digest"] == whole["digest"]


INTERRUPTED_AT_ITS_COMMITS = """
import signal, sys
from orchestrator.cli.main import main
from orchestrator.stores.sqlite_journal import SqliteStore

append, due = SqliteStore.append, 0

async def interrupted(store, *arguments):
    global due
    due -= 1
    if due == 0:
        signal.raise_signal(signal.SIGINT)
    await append(store, *arguments)

SqliteStore.append = interrupted
for due in map(int, sys.argv[1:]):
    print(main(["review", "--no-cache", "--quiet", "--json", "/dev/null"]), flush=True)
"""


def test_an_interrupt_while_the_journal_writes_is_130_at_any_commit(repo: Repo, call: Call) -> None:
    commits = ["1", "5", "13"]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT_ITS_COMMITS, *commits],
        cwd=repo.path, capture_output=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.stdout.decode().splitlines() == ["130"] * len(commits)
    assert done.stderr.count(b"diffcourt resume") == len(commits)
    assert call("resume", "latest", "--quiet", cwd=repo.path).returncode == 1


INTERRUPTED_AS_ITS_THREAD_STOPS = """
import signal, sys
from anyio import run, to_thread
from anyio._backends._asyncio import WorkerThread
from orchestrator.cli.error_reporting import report_errors

stop = WorkerThread.stop

def interrupted(thread, task=None):
    WorkerThread.stop = stop
    signal.raise_signal(signal.SIGINT)
    stop(thread, task)

WorkerThread.stop = interrupted
with report_errors(resumable=True) as outcome:
    run(to_thread.run_sync, int)
sys.exit(outcome.code)
"""


def test_an_interrupt_as_a_worker_thread_stops_leaves_none_for_which_exit_waits() -> None:
    run = [sys.executable, "-c", INTERRUPTED_AS_ITS_THREAD_STOPS]
    assert subprocess.run(run, capture_output=True, timeout=60, check=False).returncode == 130


def test_a_killed_run_is_resumed_at_once_to_the_same_verdict(repo: Repo, call: Call) -> None:
    whole = json.loads(call("review", "--json", "-", "--quiet", cwd=repo.path).stdout)
    process = started(repo)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    resumed = call("resume", "latest", "--json", "-", "--quiet", cwd=repo.path)
    assert json.loads(resumed.stdout)["digest"] == whole["digest"]
    again = call("resume", "latest", "--json", "-", "--quiet", cwd=repo.path)
    assert again.stdout == resumed.stdout


def test_a_fault_in_the_policy_is_a_line_with_its_place(repo: Repo, call: Call) -> None:
    repo.commit({".diffcourt/config/verdict.yaml": "needs_changes_at: mild\n"})
    repo.commit({"b.py": "X = 1\n"})
    done = call("review", "--quiet", cwd=repo.path)
    assert done.returncode == 2
    assert ".diffcourt/config/verdict.yaml:1" in done.stderr
    listed = call("catalog", cwd=repo.path)
    assert listed.returncode == 2
    assert ".diffcourt/config/verdict.yaml:1" in listed.stderr


def test_a_rule_is_explained_with_an_entry_that_turns_it_off(repo: Repo, call: Call) -> None:
    rule = "security.live-secret"
    told = call("catalog", rule, cwd=repo.path).stdout
    assert told.startswith(f"{rule}: ")
    assert all(part in told for part in ("\nwhy: ", "\nfix: ", "\nreported: ", "\nquiet: "))
    document = json.loads(call("catalog", rule, "--json", cwd=repo.path).stdout)
    assert (document["id"], document["severity"]) == (rule, "critical")
    entry = told.partition("preferences.md:\n")[2]
    secret = "KEY = '" + "sk_live_" + "51Hq8ZrT3vXw2LmB9cKdY7pNf'\n"
    repo.commit({".diffcourt/memory/preferences.md": entry})
    repo.commit({"b.py": secret})
    verdict = json.loads(call("review", "HEAD~1", "--json", "-", "--quiet", cwd=repo.path).stdout)
    states = {one["rule"]: one["state"] for one in verdict["findings"]}
    assert states[rule] == "waived"
    unknown = call("catalog", rule.replace("secret", "secrte"), cwd=repo.path)
    assert (unknown.returncode, unknown.stderr) == (
        2,
        f"diffcourt: there is no rule security.live-secrte; did you mean {rule}?\n",
    )


def test_the_published_schema_fits_a_verdict(repo: Repo, call: Call) -> None:
    import jsonschema_rs

    schema = json.loads(call("schema", "verdict", cwd=repo.path).stdout)
    verdict = json.loads(call("review", "--json", "-", "--quiet", cwd=repo.path).stdout)
    jsonschema_rs.validator_for(schema).validate(verdict)


def test_make_review_ends_as_the_command_where_a_gate_is_asked_for(
    repo: Repo, call: Call, tmp_path: Path
) -> None:
    """A program that ends as the command did before, with its verdict, stands in for a second."""
    script, kept = Path(__file__).parents[2] / "tools/review.sh", tmp_path / "kept.json"

    def make_review(programs: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["sh", str(script), str(repo.path), "", "", "--quiet", *arguments],
            env={**os.environ, "BIN": str(programs)}, capture_output=True, timeout=100, check=False,
        )  # fmt: skip

    done = make_review(Path(sys.executable).parent)
    assert done.returncode == 0, done.stderr.decode()
    ended = call("review", "--fail-on", "merge", "--json", str(kept), "--quiet", cwd=repo.path)
    assert ended.returncode == 1
    again = tmp_path / "diffcourt"
    again.write_text(
        f'#!/bin/sh\nwhile [ "$1" != --json ]; do shift; done\ncp {kept} "$2"\nexit 1\n'
    )
    again.chmod(0o755)
    assert make_review(tmp_path).returncode == 0
    assert make_review(tmp_path, "--fail-on", "merge").returncode == 1
