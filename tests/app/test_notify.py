"""People are told of runs that need them: over real servers on loopback, at most once."""

import base64
import hashlib
import hmac
import json
import os
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from orchestrator.app.notify import channels as sending
from orchestrator.app.notify.run_alerts import notify_of_alerts
from orchestrator.app.statistics.threshold_alerts import Alert, AlertState
from orchestrator.cli.main import main
from tests.providers import test_escalation_over_the_wire as wire
from tests.providers.test_escalation_over_the_wire import REFUSED, REVIEW, WORK, Says, says
from tests.providers.whole_kit import BASE, HEAD, POLICY
from tests.review.review_kit import Repo, change

__all__ = ["says"]  # a fixture

SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"
SECRET = "a-key-that-nobody-else-has-4711"


class Inbox:
    """What a server on loopback was sent; ``statuses`` are its answers, then 200."""

    def __init__(self, *statuses: int) -> None:
        self.statuses, self.url = list(statuses), ""
        self.got: list[tuple[dict[str, str], bytes]] = []


@contextmanager
def webhook(*statuses: int) -> Iterator[Inbox]:
    inbox = Inbox(*statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            inbox.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(inbox.statuses.pop(0) if inbox.statuses else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with _serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        inbox.url = f"http://127.0.0.1:{port}/hook"
        yield inbox


@contextmanager
def _serving(server: socketserver.TCPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "FIRST_WAIT", 0.01)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return change(tmp_path / "repo", {}, {"app.py": SHELL})


def mine(**channels: Any) -> None:
    """Write the user's own file."""
    place = Path(os.environ["XDG_CONFIG_HOME"], "diffcourt")
    place.mkdir(parents=True, exist_ok=True)
    (place / "notify.yaml").write_text(json.dumps({"channels": channels}))


def reviewed(repo: Repo, *arguments: str) -> dict[str, Any]:
    target = repo.path.parent / "verdict.json"
    main([*(arguments or ("review",)), "--json", str(target), "--repo", str(repo.path)])
    found: dict[str, Any] = json.loads(target.read_text())
    return found


LIMIT = ("review", "--max-tool-calls", "2", "--pattern", "single")  # one agent: the same calls


def test_a_webhook_gets_a_signed_message_once_with_the_command_that_answers(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setenv("DIFFCOURT_VIEW_URL", "https://reviews.example.org/")
    with webhook(500, 429) as inbox:
        mine(team={"webhook": inbox.url, "secret_env": "HOOK_SECRET"})
        verdict = reviewed(repo, *LIMIT)
        assert reviewed(repo, "resume")["digest"] == verdict["digest"]
    assert len(inbox.got) == 3
    headers, body = inbox.got[-1]
    told, run = json.loads(body), verdict["run_id"]
    assert (told["event"], told["run_id"]) == ("budget", run)
    assert told["command"] == f"diffcourt resume {run} --max-tool-calls N"
    assert told["link"] == f"https://reviews.example.org/runs/{run}"
    assert {given["webhook-id"] for given, _ in inbox.got} == {headers["webhook-id"]}
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    mac = base64.b64encode(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{mac}"
    assert main(["audit", "verify", "latest", "--repo", str(repo.path)]) == 0


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise imports it
def test_a_command_and_apprise_get_the_same_message(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("apprise", reason="apprise is not installed")
    seen = tmp_path / "seen"
    command = [
        sys.executable,
        "-c",
        f"import sys; open({str(seen)!r}, 'w').write(sys.stdin.read())",
    ]
    with webhook() as inbox:
        monkeypatch.setenv("CHAT", inbox.url.replace("http:", "json:"))
        mine(
            bell={"command": command},
            chat={"apprise_env": "CHAT"},
            quiet={"command": ["/bin/false"], "events": ["question"]},
        )
        verdict = reviewed(repo, *LIMIT)
    assert json.loads(seen.read_text())["event"] == "budget"
    ((_, posted),) = inbox.got
    told = json.loads(posted)
    assert told["title"] == "Diffcourt: A review stopped at a limit"
    assert f"diffcourt resume {verdict['run_id']} --max-tool-calls N" in told["message"]


def test_a_dead_channel_is_a_note_and_changes_neither_run_nor_digest(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = reviewed(repo, *LIMIT)
    capsys.readouterr()
    monkeypatch.setenv("HOOK", f"http://127.0.0.1:9/{SECRET}")
    with webhook(404) as gone:
        mine(
            gone={"webhook": gone.url},
            down={"webhook_env": "HOOK"},
            unset={"webhook_env": "NOT_SET"},
            bell={"command": ["no-such-program"]},
        )
        told = reviewed(repo, *LIMIT)
        assert len(gone.got) == 1
    assert (told["digest"], told["exit_code"]) == (alone["digest"], alone["exit_code"])
    said = capsys.readouterr().err
    lines = [line for line in said.splitlines() if "was not notified" in line]
    assert len(lines) == 4
    assert "the channel gone was not notified (budget): it answered 404" in said
    assert "the channel unset was not notified (budget): the environment variable NOT_SET" in said
    assert "the channel bell was not notified (budget): no-such-program cannot be started" in said
    assert SECRET not in said
    rows = main(["audit", "verify", "latest", "--repo", str(repo.path)])
    assert rows == 0


STRICT = {".diffcourt/config/verdict.yaml": "block_at: medium\nblock_confidence: 0.0\n"}


@pytest.mark.parametrize(
    ("base", "head", "events"),
    [
        ({}, {"app.py": "X = 1\n"}, []),
        (STRICT, {"app.py": SHELL}, ["blocked"]),
        ({}, {"app.cob": "STOP RUN.\n"}, ["incomplete"]),
    ],
)
def test_each_kind_of_event_has_its_message(
    tmp_path: Path, base: dict[str, str], head: dict[str, str], events: list[str]
) -> None:
    repo = change(tmp_path / "r", base, head)
    with webhook() as inbox:
        mine(team={"webhook": inbox.url})
        run = reviewed(repo)["run_id"]
    told = [json.loads(body) for _, body in inbox.got]
    assert [one["event"] for one in told] == events
    assert all(one["command"] == f"diffcourt show {run}" for one in told)


def test_a_question_is_announced_once_however_often_the_run_is_resumed(
    tmp_path: Path, says: Says
) -> None:
    repo = change(tmp_path / "r", {**BASE, **POLICY}, HEAD).path
    with webhook() as inbox, says(REFUSED, REFUSED, *WORK):
        mine(team={"webhook": inbox.url}, other={"webhook": inbox.url, "events": ["blocked"]})
        for arguments in (REVIEW, ("resume",), ("resume", "latest", "--quiet")):
            assert wire.command(repo, *arguments) == 3
        assert wire.command(repo, "runs") == 0
        ((_, body),) = inbox.got
        told = json.loads(body)
        assert told["event"] == "question"
        name = told["id"].split("/", 2)[2]
        assert told["command"] == f"diffcourt resume {told['run_id']} --answer TEXT --to {name}"
        assert wire.command(repo, "resume", "latest", "--answer", "Go on.", "--quiet") == 1
    assert len(inbox.got) == 1


def test_only_base_configures_channels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = ".diffcourt/config/notify.yaml"
    team = {"channels": {"team": {"webhook_env": "DIFFCOURT_NOTIFY_URL"}}}
    other = {"channels": {"team": {"webhook": "http://127.0.0.1:9/elsewhere"}}}
    repo = change(
        tmp_path / "r", {name: json.dumps(team)}, {"app.py": SHELL, name: json.dumps(other)}
    )
    with webhook() as inbox:
        monkeypatch.setenv("DIFFCOURT_NOTIFY_URL", inbox.url)
        reviewed(repo, *LIMIT)
        monkeypatch.setenv("CI", "false")
        reviewed(repo, *LIMIT)
        assert inbox.got == []  # base may be a stranger's: nobody here allowed it
        monkeypatch.setenv("DIFFCOURT_NOTIFY", "1")
        reviewed(repo, *LIMIT)
        assert len(inbox.got) == 1
    for wrong, why in (
        ({"command": ["sh", "-c", "id"]}, "has a command, which only a user's own file may have"),
        ({"webhook_env": "AWS_SECRET_ACCESS_KEY"}, "must begin with DIFFCOURT_NOTIFY_"),
        ({"webhook": "http://example.org/x"}, "must begin with https://"),
        ({"webhook": "https://a.example", "apprise_env": "DIFFCOURT_NOTIFY_X"}, "and only one"),
    ):
        repo.commit({name: json.dumps({"channels": {"team": wrong}})})
        repo.commit({"app.py": SHELL + f"# {why}\n"})
        capsys.readouterr()
        reviewed(repo, *LIMIT)
        assert why in capsys.readouterr().err
        assert main(["catalog", "--repo", str(repo.path)]) == 2
        assert why in capsys.readouterr().err


def test_an_alert_is_announced_once_each_time_it_begins_to_fire(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(*states: AlertState) -> list[str]:
        alerts = [Alert(f"a{n}", state, f"a{n}: 9 of 10") for n, state in enumerate(states)]
        return notify_of_alerts(repo.path, alerts)

    with webhook() as inbox:
        mine(team={"webhook": inbox.url}, dead={"command": ["no-such-program"]})
        (line,) = check("firing", "ok")
        assert line.startswith("the channel dead was not notified (alert): no-such-program")
        assert check("firing", "unknown") == check("unknown", "ok") == []
        assert len(check("firing", "firing")) == 1
        check("ok", "firing")
        check("firing", "firing")
        assert [json.loads(body)["title"] for _, body in inbox.got] == [
            "Alert: a0",
            "Alert: a1",
            "Alert: a0",
        ]
        assert main(["stats", "--check", "--repo", str(repo.path)]) == 3
