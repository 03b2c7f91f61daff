"""Reviews of several pushes as the command runs them: from the store, from a file, and resumed."""

import json
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal
from msgspec import to_builtins

from orchestrator.app.previous_reviews import UNNAMED
from orchestrator.app.run_review import resume_review, run_review
from orchestrator.app.runs.stored_runs import list_runs
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.types import Response
from orchestrator.errors import ProviderRefused
from orchestrator.report.terminal_escaping import as_json
from tests.model_server.server_script import Refuse, ServerReply
from tests.providers.whole_kit import NO_FIXER, POLICY, asked, reports, serving
from tests.review.review_kit import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A branch of one commit."""
    made = Repo(tmp_path / "repo")
    unjudged = {".diffcourt/config/defaults.yaml": f"{NO_FIXER}judge: false\n"}
    made.commit({"app.py": "X = 1\n", **POLICY, **unjudged})
    made.git("checkout", "-q", "-b", "feature")
    made.commit({"app.py": "X = 1\n\n\ndef ask(text):\n    return text.strip(1)\n"})
    return made


CLAIM = {
    "path": "app.py", "start_line": 5, "end_line": 5, "quote": "return text.strip(1)",
    "title": "strip takes a string", "severity": "medium", "confidence": 0.8,
}  # fmt: skip


def review(
    portal: BlockingPortal,
    patch: pytest.MonkeyPatch,
    repo: Repo,
    *said: ServerReply,
    **given: object,
) -> Verdict:
    with serving(portal, patch, "anthropic", {"generalist": list(said)}):
        options = asked(repo.path, "anthropic", base="main", pattern="single", **given)
        return run_review(options, ignore_event)


def silent() -> Response:
    return reports(summary="Nothing.")


def carried(verdict: Verdict) -> list[tuple[str, str]]:
    return [(one.title, one.since_previous) for one in verdict.findings if one.carried_over]


def test_the_store_and_a_file_carry_over_the_same_to_the_same_digest(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Repo, tmp_path: Path
) -> None:
    first = review(portal, monkeypatch, repo, reports(summary="One.", findings=[CLAIM]))
    assert first.provenance.carried_over == ""
    file = tmp_path / "verdict.json"
    file.write_text(as_json(to_builtins(first)))
    repo.commit({"new.py": "Y = 2\n"})
    second = review(portal, monkeypatch, repo, silent())
    assert carried(second) == [("strip takes a string", "open")]
    assert second.provenance.carried_over
    repo.git("checkout", "-q", "--detach")
    named = review(portal, monkeypatch, repo, silent(), previous=str(file))
    assert carried(named) == carried(second)
    assert named.digest == second.digest
    alone = review(portal, monkeypatch, repo, silent())
    assert carried(alone) == []
    assert alone.digest != second.digest
    assert [UNNAMED in one.change.notes for one in (second, named, alone)] == [False, False, True]


def test_a_repeated_job_on_the_same_head_keeps_what_the_first_one_found(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Repo
) -> None:
    review(portal, monkeypatch, repo, reports(summary="One.", findings=[CLAIM]))
    again = review(portal, monkeypatch, repo, silent())
    assert (again.previous, len(carried(again))) == (None, 1)
    repo.commit({"new.py": "Y = 2\n"})
    later = run_review(asked(repo.path, "offline", base="main"), ignore_event)
    assert carried(later) == [("strip takes a string", "open")]


def test_a_resumed_run_has_what_was_handed_to_it_though_the_file_is_gone(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Repo, tmp_path: Path
) -> None:
    file = tmp_path / "verdict.json"
    first = review(portal, monkeypatch, repo, reports(summary="One.", findings=[CLAIM]))
    file.write_text(as_json(to_builtins(first)))
    repo.commit({"new.py": "Y = 2\n"})
    whole = review(portal, monkeypatch, repo, silent(), previous=str(file))
    with pytest.raises(ProviderRefused):
        review(portal, monkeypatch, repo, Refuse(401), previous=str(file))
    file.write_text(json.dumps({"schema_version": "1.0"}))
    newest = list_runs(repo.path)[0].run_id
    with serving(portal, monkeypatch, "anthropic", {"generalist": [silent()]}):
        resumed = resume_review(repo.path, newest, ignore_event)
    assert carried(resumed) == [("strip takes a string", "open")]
    assert resumed.digest == whole.digest


def test_an_offline_review_keeps_open_what_a_model_found(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Repo
) -> None:
    review(portal, monkeypatch, repo, reports(summary="One.", findings=[CLAIM]))
    repo.commit({"new.py": "Y = 2\n"})
    offline = run_review(asked(repo.path, "offline", base="main"), ignore_event)
    assert carried(offline) == [("strip takes a string", "open")]
    assert offline.verdict == "merge"  # a claim below high decides nothing
