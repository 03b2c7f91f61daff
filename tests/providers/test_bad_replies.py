"""Whole reviews whose models reply badly, over the strict server: nothing is lost, each ends as usual."""

import re
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal

from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.types import Json, Response, Text
from tests.model_server.server_script import ServerReply
from tests.providers.whole_kit import (
    FINDING,
    SUMMARY,
    TEAM,
    reports,
    repository,
    review,
    serving,
    team,
)
from tests.server_replies import raw
from tests.torture.malformed_replies import malformed, malformed_stream

pytestmark = pytest.mark.attack("hostile replies of a model's server")

LGTM = Response((Text("LGTM"),), "end")
TITLES = {FINDING["title"], "Text evaluated as code"}
INVENTED = {"source": "file", "name": "app.py", "quote": "os.system(text)"}
SEEN = {"source": "file", "name": "app.py", "quote": "return eval(text)"}


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("bad"))


def _wrong_references(body: dict[str, Json]) -> Response:
    """Responses to no finding and to an analyzer's, which the opening names by its fingerprint."""
    (known,) = set(re.findall(r"- fingerprint ([0-9a-f]+): ", str(body)))
    return reports(
        summary="Responses.",
        responses=[
            {"finding": "F99", "action": "confirm", "reason": "So.", "evidence": [SEEN]},
            {"finding": known, "action": "withdraw", "reason": "No.", "evidence": [SEEN]},
            {"finding": known, "action": "confirm", "reason": "So.", "evidence": [INVENTED]},
        ],
    )


def test_wrong_references_and_lgtm_are_one_observation_each_and_lose_nothing(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    good = reports(summary="Nothing.")
    lines = team(qa=[_wrong_references] * 2, docs=[LGTM, good], architecture=[*[LGTM] * 2, good])
    with serving(portal, monkeypatch, "anthropic", lines) as server:
        verdict = review(repo, "anthropic")
    server.finish()
    sent = {seen.agent: str(seen.body["messages"]) for seen in server.requests}
    assert (
        sent["qa"].count("Parts of that report are wrong"),
        sent["docs"].count("not valid JSON"),
    ) == (1, 1)
    (qa,) = [one for one in verdict.agents if one.agent == "qa"]
    assert [note.split(": ", 1)[1] for note in qa.notes] == [
        "there is no finding 'F99'",
        "it is not a finding of yours; dispute it, with evidence",
        "its quote is not in file app.py",
    ]
    ((agent, stage),) = [(step.agent, step.to_stage) for step in verdict.escalations]
    assert (agent, stage) == ("architecture", "strongest")
    _assert_whole(verdict)


def test_a_malformed_first_reply_of_every_agent_loses_nothing(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    """Each agent's first reply is malformed, as a document or a stream.

    That a malformed reply of any API is a failed attempt is shown by a sample of ``malformed``.
    """
    name = "openai"
    script: dict[str, list[ServerReply]] = {}
    for seed, (agent, lines) in enumerate(team().items()):
        kind = malformed_stream if seed % 2 else malformed
        broken = raw(kind(name, seed), "text/event-stream" if seed % 2 else "application/json")
        script[agent] = [broken, *lines]
    with serving(portal, monkeypatch, name, script):
        verdict = review(repo, name)
    failed = {step.agent: step.why for step in verdict.escalations}
    assert len(failed) == len(verdict.escalations) > 0
    assert all("sent an invalid reply: " in why for why in failed.values())
    _assert_whole(verdict)


def _assert_whole(verdict: Verdict) -> None:
    assert {(one.agent, one.status) for one in verdict.agents} == {
        (agent, "ok") for agent in ("lead", *TEAM, "judge")
    }
    assert {found.title for found in verdict.findings} == TITLES
    assert (verdict.stop.reason, verdict.lead_summary) == ("done", SUMMARY)
