"""What all agents of a run are sent first: written by code, the same for all, cached for all."""

import json
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from orchestrator.code_review.verdict.model import Verdict
from tests.model_server.server import ReceivedRequest
from tests.providers.whole_kit import (
    HEAD,
    POLICY,
    judges,
    plans,
    reports,
    review,
    says,
    serving,
    sums_up,
)
from tests.review.review_kit import change
from tests.scripted_model import tool_call_reply

TEAM = ("security", "qa", "docs", "architecture")
LONG = HEAD["app.py"] + "".join(f"\n\ndef f{n}(x):\n    return x + {n}\n" for n in range(300))
TESTED = 'import requests\n\nrequests.get("https://x.test", verify=False, timeout=5)\n'
DROP = "def drop(user, doc):\n    doc.delete()\n"
GUARDED = DROP.replace("    doc", "    if doc.size > MAX_SIZE:\n        raise TooLarge\n    doc")
CHECKED = ".diffcourt/config/verdict.yaml"


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    policy = {name: text for name, text in POLICY.items() if name != CHECKED}
    head = {"app.py": LONG, "tests/test_app.py": TESTED, "batch.cob": "IDENTIFICATION DIVISION.\n"}
    base = {"app.py": "X = 1\n", "drop.py": GUARDED, **policy}
    return change(tmp_path_factory.mktemp("opening"), base, {**head, "drop.py": DROP}).path


def first_text(request: ReceivedRequest) -> str:
    content: Any = request.body["messages"][0]["content"]
    return str(content[0]["text"])


def silent() -> dict[str, Any]:
    """A team whose members only say that all is well, and call nothing."""
    return {
        "lead": [plans(), sums_up("It adds functions.")],
        **{name: [reports(summary="LGTM")] for name in TEAM},
    }


Reviewed = tuple[Verdict, list[ReceivedRequest]]


@pytest.fixture(scope="module")
def reviewed(portal: BlockingPortal, repo: Path) -> Reviewed:
    """A review of a silent team, one of which calls the tool of another first."""
    script = {**silent(), "judge": [judges()]}
    script["security"] = [tool_call_reply(("git_log", {})), reports(summary="LGTM")]
    with (
        pytest.MonkeyPatch.context() as patch,
        serving(portal, patch, "anthropic", script) as server,
    ):
        return review(repo, "anthropic"), server.requests


def test_the_analyzers_and_required_checks_run_independent_of_the_models(
    reviewed: Reviewed,
) -> None:
    verdict, requests = reviewed
    assert len(requests) >= 6
    assert {check.status for check in verdict.required_checks} <= {"ran", "not_applicable"}
    assert "ran" in {check.status for check in verdict.required_checks}
    assert "Text evaluated as code" in {finding.title for finding in verdict.findings}
    assert verdict.verdict == "needs_changes"


def test_every_agent_begins_with_the_same_bytes(reviewed: Reviewed) -> None:
    members = {"lead", *TEAM}
    tooled = [seen for seen in reviewed[1] if seen.body.get("tools")]
    requests = {seen.agent: seen for seen in tooled if seen.agent in members}
    assert requests.keys() == members
    shared = {
        json.dumps(
            [seen.body["tools"], seen.body["system"], seen.body["output_config"], first_text(seen)]
        )
        for seen in requests.values()
    }
    assert len(shared) == 1
    opening = first_text(requests["qa"])
    assert f"+{LONG.count(chr(10)) - 1} -0" in opening
    assert "return eval(text)" in opening
    # What counts as a finding is said once, to all.
    said_once = ("what breaks and for whom", "at most 10 above `info`", "`because_of`")
    assert [str(requests["qa"].body).count(text) for text in said_once] == [1, 1, 1]
    assert "- batch.cob: added, other, +1 -0, read by no analyzer as code\n" in opening
    assert opening.count("read by no analyzer as code") == 1
    assert "Required checks, which code has run: no-secrets, " in opening
    assert "Text evaluated as code" in opening
    findings, _, leads = opening.partition("Leads (2): ")
    assert "- drop.py:2: protections removed-condition\n" in leads
    assert "- tests/test_app.py:3: ruff S501\n" in leads
    assert "S501" not in findings
    names = {tool["name"] for tool in requests["qa"].body["tools"]}
    assert {"read_file", "search", "git_diff"} <= names
    assert len(names) <= 20


def test_an_agent_is_given_only_the_files_of_its_task_since_code_has_run_the_checks(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    tasks = [{"agent": "security", "paths": ["app.py"], "why": "Is text evaluated?"},
             {"agent": "qa", "paths": ["tests/test_app.py"], "why": ""},
             {"agent": "architecture", "paths": ["batch.cob", "drop.py"], "why": ""}]  # fmt: skip
    script = {**silent(), "lead": [says(tasks=tasks), sums_up("It adds.")], "judge": []}
    with serving(portal, monkeypatch, "anthropic", script) as server:
        verdict = review(repo, "anthropic")
    content: Any = {seen.agent: seen.body["messages"][0]["content"] for seen in server.requests}
    assert (
        '"paths": ["app.py"], "questions": [{"question": "Is text evaluated?", "priority": 5}]}'
        in content["security"][-1]["text"]
    )
    assert '"paths": ["tests/test_app.py"]}' in content["qa"][-1]["text"]
    assert {check.status for check in verdict.required_checks} <= {"ran", "not_applicable"}


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_later_agents_of_a_model_read_the_opening_from_the_cache(
    portal: BlockingPortal,
    monkeypatch: pytest.MonkeyPatch,
    repo: Path,
    reviewed: Reviewed,
    provider: str,
) -> None:
    found = reviewed[1]
    if provider == "openai":
        with serving(portal, monkeypatch, provider, {**silent(), "judge": [judges()]}) as server:
            review(repo, provider)
        found = server.requests
    by_model: dict[str, list[ReceivedRequest]] = {}
    for seen in found:
        if seen.agent in {"lead", *TEAM} and seen.body.get("tools"):
            by_model.setdefault(str(seen.body["model"]), []).append(seen)
    later = [seen for requests in by_model.values() for seen in requests[1:]]
    assert "security" in {seen.agent for seen in later}
    assert len(later) >= 3
    for seen in later:
        used = seen.usage
        assert used is not None
        assert used.cached_tokens >= 0.8 * used.input_tokens


def test_the_judge_reads_findings_and_names_of_files_and_not_the_whole_change(
    reviewed: Reviewed,
) -> None:
    (judge,) = [seen for seen in reviewed[1] if seen.agent == "judge"]
    text = str(judge.body)
    assert "app.py: modified, code, +" in text
    assert "Text evaluated as code" in text
    assert not [said for said in ("diff --git", "Rules for reports", "SpecialistReport", "git_blame")
                if said in text]  # fmt: skip
    assert {tool["name"] for tool in judge.body["tools"]} == {"read_file", "search", "git_diff"}


def test_a_call_of_another_agents_tool_is_refused_and_no_gap(reviewed: Reviewed) -> None:
    verdict, requests = reviewed
    assert any("refused: security has no tool git_log" in str(seen.body) for seen in requests)
    assert {agent.status for agent in verdict.agents if agent.agent == "security"} == {"ok"}
    assert "git_log" not in {skip.tool for skip in verdict.skipped}
