"""No secret of the change or its repository reaches a provider or the journal."""

import json
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from msgspec.structs import replace

from orchestrator.app.rubric_scoring.rescore import JudgeOptions, Rescored, rescore
from orchestrator.app.run_review import resume_review, run_review
from orchestrator.data_directories import data_root
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.types import Json, Rubric
from orchestrator.errors import ProviderRefused
from orchestrator.tuning.file_formats.rubric_file import read_rubric
from tests.diffchecks.secret_samples import b64, rand
from tests.model_server.server_script import Refuse, ServerReply
from tests.providers.whole_kit import POLICY, PROVIDERS, asked, judges, reports, says, serving
from tests.review.review_kit import Repo
from tests.scripted_model import tool_call_reply

STRIPE = "sk_live_" + rand(32, seed=1)
REMOVED = "ghp_" + rand(36, seed=2)
ELSEWHERE = "glpat-" + rand(20, seed=3)
COMMITTED = "ghp_" + rand(36, seed=4)
DESCRIBED = "ghp_" + rand(36, seed=9)
PASSWORD = "tuna" + "Salad41"
WORD = "sword" + "fish"
KEY_LINES = [b64(rand(48, seed=n))[:64] for n in range(5, 9)]
KEY_END = b64(rand(7))
PEM = "\n".join(
    ["-----BEGIN PRIVATE KEY-----", *KEY_LINES, KEY_END, "-----END PRIVATE KEY-----", ""]
)
SECRETS = (STRIPE, REMOVED, ELSEWHERE, COMMITTED, DESCRIBED, PASSWORD, WORD, *KEY_LINES, KEY_END)

BASE = {
    "app.py": f'TOKEN = "{REMOVED}"\n\n\ndef run():\n    return TOKEN\n',
    "deploy.py": f'notes = "first\\n{ELSEWHERE}"\n',
    "server.pem": PEM,
}
HEAD = {
    "app.py": (
        f'STRIPE = "{STRIPE}"\nDB_PASSWORD = "{PASSWORD}"\n\n\ndef run():\n    return STRIPE\n'
    ),
    ".netrc": f"machine a.net login bob password {WORD}\n",
}
SHOWN_QUOTES = ('STRIPE = "[redacted]"', 'DB_PASSWORD = "[redacted]"', 'TOKEN = "[redacted]"')
LOOKS = tool_call_reply(
    ("read_file", {"path": "app.py"}),
    ("read_file", {"path": "app.py", "side": "base"}),
    ("read_file", {"path": "deploy.py"}),
    ("read_file", {"path": "server.pem"}),
    ("read_file", {"path": ".netrc"}),
    ("search", {"pattern": "_live_|glpat|gh._"}),
    ("git_diff", {}),
    ("git_log", {}),
    ("secrets", {}),
)


def finding(quote: str, line: int) -> dict[str, Json]:
    return {
        "path": "app.py", "start_line": line, "end_line": line, "quote": quote,
        "title": "The repository has " + quote.partition(" ")[0],
        "severity": "high",
    }  # fmt: skip


def repository(path: Path) -> Path:
    repo = Repo(path)
    repo.commit({**BASE, **POLICY})
    repo.write(HEAD)
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", f"Move to Stripe\n\nThe old token was {COMMITTED}.")
    return repo.path


def reworded() -> Rubric:
    """The shipped rubric with one judged criterion in other words."""
    shipped = read_rubric(data_root() / "rubrics" / "pr-review.yaml")
    criteria = [
        replace(one, description="Is risk met?") if one.id == "risk-focus" else one
        for one in shipped.criteria
    ]
    return replace(shipped, criteria=tuple(criteria))


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_secret_of_the_repository_is_never_sent_and_findings_about_it_are_held(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    repo = repository(tmp_path / "repo")
    found = [finding(quote, line) for quote, line in zip(SHOWN_QUOTES, (1, 2, 1), strict=True)]
    # It goes back with the lines as they stand, and is on record so when the run is resumed.
    misquoted = reports(findings=[finding("STRIPE = os.environ['STRIPE']", 1)])
    said = f"The key is {DESCRIBED}."
    script: dict[str, list[ServerReply]] = {
        "generalist": [LOOKS, misquoted, Refuse(401)],
        "judge": [judges()],
    }
    with start_blocking_portal() as portal:
        with serving(portal, monkeypatch, name, script) as server:
            with pytest.raises(ProviderRefused):
                run_review(asked(repo, name, pattern="single", description=said), ignore_event)
            requests = list(server.requests)
        script["generalist"] = [reports(summary="Two keys.", findings=found)]
        with serving(portal, monkeypatch, name, script) as server:
            verdict = resume_review(repo, "latest", ignore_event)
            requests += server.requests
        # A judge that is asked again later is sent none either.
        score: dict[str, Json] = {
            "id": "risk-focus",
            "why": "w",
            "evidence": [],
            "score": None,
            "missing": [],
        }
        again: dict[str, list[ServerReply]] = {"judge": [says(criteria=[score])] * 3}
        with serving(portal, monkeypatch, name, again) as server:
            (run,) = rescore(repo, [], reworded(), JudgeOptions(name))
            assert isinstance(run, Rescored), run
            assert server.requests
            requests += server.requests
    sent = "\n".join(json.dumps(seen.body, ensure_ascii=False) for seen in requests)
    state = [path for path in (repo / ".diffcourt/state").rglob("*") if path.is_file()]
    kept = b"\n".join(path.read_bytes() for path in state).decode(errors="replace")
    for secret in SECRETS:
        assert secret not in sent
        assert secret not in kept
    # What was asked for was shown, without its secrets.
    for part in (
        "machine a.net login bob password",
        "The old token was",
        "The key is",
        "notes = ",
        "BEGIN PRIV",
    ):
        assert part in sent
    assert sent.count("[redacted]") >= 12
    assert {one.title for one in verdict.findings} >= {one["title"] for one in found}
    assert not verdict.rejected
