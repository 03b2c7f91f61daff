"""Escalation of the command over HTTP: it asks, waits, is killed, is answered, and goes on."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal

from orchestrator.app.run_review import run_review
from orchestrator.cli.main import main
from orchestrator.engine.observer_events import Event, ignore_event
from orchestrator.engine.types import Json, Response
from tests.model_server.server import ModelServer
from tests.model_server.server_script import Refuse, ServerReply
from tests.providers.whole_kit import BASE, HEAD, POLICY, judges, reports, serving
from tests.review.review_kit import change, options
from tests.scripted_model import tool_call_reply
from tests.server_replies import cut

NAME = "openai-compatible"
REVIEW = ("review", "--provider", NAME, "--pattern", "single", "--base", "HEAD~1", "--quiet")
NOTHING = reports(summary="Nothing.", checked=["app.py"])
WORK = (tool_call_reply(("ruff_bugs", {"paths": ["app.py"]})), NOTHING)
REFUSED = Refuse(400, "not today")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return change(tmp_path, {**BASE, **POLICY}, HEAD).path


Says = Callable[..., AbstractContextManager[ModelServer]]


@pytest.fixture
def says(portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch) -> Says:
    @contextmanager
    def open_server(*generalist: ServerReply) -> Iterator[ModelServer]:
        script = {"generalist": generalist, "judge": [judges()]}
        with serving(portal, monkeypatch, NAME, script) as server:
            yield server

    return open_server


def command(repo: Path, *arguments: str) -> int:
    return main([*arguments, "--repo", str(repo)])


def test_a_question_to_a_person_is_shown_everywhere_and_the_answer_continues_the_run(
    repo: Path, says: Says, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with says(REFUSED, REFUSED, *WORK) as server:
        assert command(repo, *REVIEW) == 3
        out = capsys.readouterr().out
        assert "Waiting for your answer" in out
        assert "not today" in out
        assert f"--answer TEXT --repo {repo}" in out

        assert command(repo, "runs") == 0
        assert "waiting" in capsys.readouterr().out
        assert command(repo, "runs", "--json") == 0
        assert json.loads(capsys.readouterr().out)[0]["state"] == "waiting"

        assert command(repo, "resume", "latest", "--quiet") == 3
        assert "--answer TEXT" in capsys.readouterr().out
        assert command(repo, "resume", "latest", "--answer", "Go on.", "--to", "2/plan") == 2
        assert (
            "no question 2/plan waits for a person here; waiting: 1/act/g"
            in capsys.readouterr().err
        )
        assert len(server.requests) == 2

        with monkeypatch.context() as without:
            for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
                without.delenv(name)
            assert command(repo, "resume", "latest", "--answer", "Lost?") == 2
        capsys.readouterr()

        said = ("--answer", "Mind the key sk-0123456789abcdef.")
        monkeypatch.setenv("A_SECRET", "sk-0123456789abcdef")
        # Code called the analyzers while the agent waited, and one of them found something.
        assert command(repo, "resume", "latest", *said, "--quiet", "--json", "-") == 1
        verdict = json.loads(capsys.readouterr().out)
        assert "Mind the key [redacted]." in json.dumps(server.requests[2].body)
        server.finish()
    assert verdict["stop"]["reason"] == "done"
    assert [step["to_stage"] for step in verdict["escalations"]] == ["strongest", "human"]
    assert verdict["questions"][0]["answered_by"]

    assert command(repo, "show", "latest") == 0
    out = capsys.readouterr().out
    assert "generalist (iteration 1) strong -> strongest" in out
    assert "Answered questions" in out
    assert "escalates from strong to strongest" in " ".join(out.split())
    assert "StopHuman" in out
    assert command(repo, "audit", "show", "latest") == 0
    assert "answers: Mind the key" in " ".join(capsys.readouterr().out.split())
    assert command(repo, "resume", "latest", "--answer", "More.") == 2
    said_so = capsys.readouterr().err
    assert "this run has no question for a person" in said_so
    assert f"continue with: diffcourt resume {verdict['run_id']}" in said_so


def test_a_fork_goes_on_with_an_answer_and_the_run_it_is_from_still_waits(
    repo: Path, says: Says, capsys: pytest.CaptureFixture[str]
) -> None:
    with says(REFUSED, REFUSED, *WORK) as server:
        assert command(repo, *REVIEW) == 3
        said = ("--at", "StopHuman", "--answer", "Look at the parser.")
        capsys.readouterr()
        assert command(repo, "fork", "latest", *said, "--quiet", "--json", "-") == 1
        verdict = json.loads(capsys.readouterr().out)
        assert "Look at the parser." in json.dumps(server.requests[2].body)
        server.finish()
    assert verdict["stop"]["reason"] == "done"
    assert command(repo, "runs", "--json") == 0
    states = [run["state"] for run in json.loads(capsys.readouterr().out)]
    assert states == ["finished", "waiting"]


def test_the_journal_of_a_waiting_run_can_be_verified(
    repo: Path, says: Says, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("out") / "verdict.json"
    with says(REFUSED, REFUSED, *WORK) as server:
        assert command(repo, *REVIEW, "--json", str(file)) == 3
        assert command(repo, "resume", "latest", "--answer", "Go on.", "--quiet") == 1
        server.finish()
    assert command(repo, "audit", "verify", "latest", "--verdict", str(file)) == 0


def test_a_run_killed_between_two_stages_pays_for_nothing_twice(repo: Path, says: Says) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def killed(body: Json) -> Response:
        started[0].kill()
        return NOTHING

    with says(REFUSED, killed, *WORK) as server:
        arguments = [sys.executable, "-m", "orchestrator", *REVIEW, "--repo", str(repo)]
        started.append(subprocess.Popen(arguments))
        assert started[0].wait(60) == -signal.SIGKILL
        assert command(repo, "resume", "latest", "--quiet") == 1
        server.finish()
    asked = [seen.body["max_tokens"] for seen in server.requests if seen.agent == "generalist"]
    assert len(asked) == 4
    assert asked[0] < asked[1] == asked[2]  # the stage that was reached, and not the first again


@pytest.mark.parametrize("status", [401, 307])
def test_a_key_that_is_refused_in_the_middle_is_one_line_and_the_run_goes_on_with_a_good_one(
    repo: Path, says: Says, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    """Nothing escalates and nobody is asked for a wrong key, and nothing is paid twice."""
    with says(WORK[0], Refuse(status), WORK[1]) as server:
        assert command(repo, *REVIEW) == 2
        out, err = capsys.readouterr()
        (line,) = err.splitlines()
        setting = "_API_KEY" if status == 401 else "_BASE_URL"
        assert setting in line
        run_id = json.loads((command(repo, "runs", "--json"), capsys.readouterr().out)[1])[0]
        assert line.endswith(
            f"then continue with: diffcourt resume {run_id['run_id']} --repo {repo}"
        )
        assert (out, run_id["state"]) == ("", "interrupted")
        assert command(repo, "resume", "latest", "--json", "-") == 1
        verdict = json.loads(capsys.readouterr().out)
        server.finish()
    assert [agent["status"] for agent in verdict["agents"]] == ["ok", "ok"]
    assert verdict["escalations"] == []
    assert verdict["usage"]["model_calls"] == len(server.requests) - 1
    assert verdict["usage"]["uncertain_tokens"] == 0


PATIENT = {
    **POLICY,
    ".diffcourt/config/models.yaml": "calls: {attempts: 4, timeout: 20, deadline: 30, first_wait: "
    "0.01, longest_wait: 0.02, breaker: {failures: 2, cooldown: 0.05}}\n",
    ".diffcourt/config/prices.yaml": "prices: {}\n",
}


def test_events_around_calls_are_in_the_journal_and_not_in_the_digest(
    says: Says, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = change(tmp_path, {**BASE, **PATIENT}, HEAD).path
    asked = options(repo, provider=NAME, pattern="single")
    down = Refuse(503, "down"), cut(30, NOTHING)
    with says(*WORK) as server:
        calm = run_review(asked, ignore_event, backend="trio")
        server.finish()
    told: list[Event] = []
    with says(Refuse(429, headers={"retry-after": "0.01"}), *down, *WORK) as server:
        verdict = run_review(asked, told.append, backend="asyncio")
        server.finish()
    assert verdict.digest == calm.digest
    assert command(repo, "show", verdict.run_id, "--json") == 0
    timeline = json.loads(capsys.readouterr().out)["timeline"]
    around = [(e["key"], e["summary"]) for e in timeline if e["key"].startswith("calls/")]
    assert [key.split("/")[2] for key, _ in around] == [
        "note", "retry", "retry", "breaker", "retry", "breaker", "breaker",
    ]  # fmt: skip
    lines = [line for _, line in around]
    assert "no price is known for local-model" in lines[0]
    assert lines[1].startswith(
        "generalist, openai-compatible local-model: attempt 1 failed (status 429"
    )
    assert "attempt 3 failed, which may have been billed (the connection was lost" in lines[4]
    assert [line.split(": ")[1] for line in lines if "the breaker of" in line] == [
        "closed -> open",
        "open -> half-open",
        "half-open -> closed",
    ]
    assert [event.detail for event in told if event.kind == "note"][-6:] == lines[1:]


def test_a_last_try_that_was_lost_is_in_the_journal(
    repo: Path, says: Says, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = options(repo, provider=NAME, pattern="single")
    with says(*[cut(30, NOTHING)] * 3, *WORK) as server:
        verdict = run_review(asked, ignore_event, backend="trio")
        server.finish()
    assert [step.to_stage for step in verdict.escalations] == ["strongest"]
    assert command(repo, "show", "latest", "--json") == 0
    (lost,) = [e for e in json.loads(capsys.readouterr().out)["timeline"] if "/lost" in e["key"]]
    assert "the last attempt may have been billed" in lost["summary"]
