"""Posting to GitLab and Forgejo: the same promises as for GitHub, by their own calls."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec import to_builtins

from orchestrator.cli.main import main
from orchestrator.code_review.verdict.model import Evidence, Finding, Verdict
from orchestrator.errors import InputError
from orchestrator.posting import forgejo, gitlab
from orchestrator.posting.forge import (
    Forge,
    ForgeError,
    HeadMoved,
    PostingTarget,
    added_lines_of_patch,
    lines_of_diff,
    lines_of_patch,
)
from orchestrator.posting.posting_plan import (
    SUMMARY_MARKER,
    Receipt,
    marker,
    plan_posting,
    post_verdict,
)
from tests.posting import forgejo_server, gitlab_server
from tests.posting.forge_server import TOKEN, ForgeServer, serving
from tests.posting.forgejo_server import ForgejoServer
from tests.posting.gitlab_server import GitLabServer
from tests.report.verdict_samples import finding, fixed, verdict


@pytest.fixture(params=[GitLabServer, ForgejoServer])
def server(request: pytest.FixtureRequest) -> Iterator[ForgeServer]:
    with serving(request.param()) as running:
        yield running


def open_forge(server: ForgeServer) -> Forge:
    if isinstance(server, GitLabServer):
        return gitlab.GitLab(TOKEN, server.url, "acme/shop", 12)
    return forgejo.Forgejo(TOKEN, server.url, "acme/shop", 12)


def post(server: ForgeServer, given: Verdict) -> Receipt:
    return post_verdict(given, open_forge(server), lambda text: text)


def blocked(*lines: int) -> Verdict:
    findings: list[Finding] = [finding(n, rule=f"r{n}", start_line=n, end_line=n) for n in lines]
    return verdict(verdict="block", exit_code=1, findings=tuple(findings))


def state_of(server: ForgeServer) -> str:
    if isinstance(server, GitLabServer):
        return json.dumps([server.discussions, server.statuses])
    assert isinstance(server, ForgejoServer)
    return json.dumps([server.comments, server.reviews, server.statuses])


def statuses(server: ForgeServer) -> list[tuple[str, str]]:
    assert isinstance(server, GitLabServer | ForgejoServer)
    return [(one["state"], one["description"]) for one in server.statuses]


def writes(server: ForgeServer) -> list[str]:
    return [call for call in server.calls if not call.startswith("GET")]


def test_a_verdict_is_posted_once_and_posting_again_changes_nothing(server: ForgeServer) -> None:
    assert post(server, blocked(39, 40, 700)) == Receipt(2, 2, 0, summary=True)
    before = state_of(server)
    assert before.count("finding 0") == 2
    assert before.count(SUMMARY_MARKER) == 1
    assert len(statuses(server)) == 1
    server.calls.clear()
    assert post(server, blocked(39, 40, 700)) == Receipt(0, 0, 0, summary=True)
    assert (state_of(server), writes(server)) == (before, [])


def test_a_later_verdict_renews_summary_and_status(server: ForgeServer) -> None:
    post(server, blocked(39, 40, 41))
    receipt = post(server, verdict())
    assert receipt.resolved == (3 if isinstance(server, GitLabServer) else 0)
    assert [state for state, _ in statuses(server)][1:] == ["success"]
    assert state_of(server).count(SUMMARY_MARKER) == 1


def test_incomplete_is_a_state_of_its_own(server: ForgeServer) -> None:
    post(server, verdict(verdict="needs_changes", exit_code=3, status="incomplete"))
    ((state, description),) = statuses(server)
    assert state == ("canceled" if isinstance(server, GitLabServer) else "error")
    assert description.startswith("incomplete: ")


def test_comments_of_others_are_not_ours_whatever_they_say(server: ForgeServer) -> None:
    forged = f"forged\n{marker(f'{39:064x}')}"
    if isinstance(server, GitLabServer):
        server.add(forged, gitlab_server.OTHER)
        server.add(f"forged\n{SUMMARY_MARKER}", gitlab_server.OTHER)
    elif isinstance(server, ForgejoServer):
        server.comment(f"forged\n{SUMMARY_MARKER}", forgejo_server.OTHER)
        server.review({"comments": [{"body": forged}]}, forgejo_server.OTHER)
    assert post(server, blocked(39)) == Receipt(1, 1, 0, summary=True)
    assert state_of(server).count(SUMMARY_MARKER) == 2


def test_a_rate_limit_is_waited_out_and_the_call_is_made_once(server: ForgeServer) -> None:
    place = "/discussions" if isinstance(server, GitLabServer) else "/reviews"
    server.refuse["POST", place] = [(429, {"Retry-After": "0"}, "slow down")] * 2
    assert post(server, blocked(39)).found == 1
    assert state_of(server).count("finding 0") == 1


def test_a_reply_that_is_lost_after_the_call_was_made_gives_no_double(server: ForgeServer) -> None:
    summary = "/notes" if isinstance(server, GitLabServer) else "/issues/12/comments"
    comments = "/discussions" if isinstance(server, GitLabServer) else "/reviews"
    for place in (comments, summary, "/statuses"):
        server.refuse["POST", place] = [(502, {"performed": "yes"}, "bad gateway")]
        with pytest.raises(ForgeError, match="502"):
            post(server, blocked(39))
    assert post(server, blocked(39)).summary
    assert state_of(server).count("finding 0") == 1
    assert state_of(server).count(SUMMARY_MARKER) == 1
    assert len(statuses(server)) == 1


@pytest.mark.parametrize(("head", "state"), [("0" * 40, ""), (None, "merged")])
def test_nothing_is_posted_to_a_request_that_changed_meanwhile(
    head: str | None, state: str, server: ForgeServer
) -> None:
    assert isinstance(server, GitLabServer | ForgejoServer)
    server.head, server.state = head or server.head, state or server.state
    with pytest.raises(HeadMoved, match="nothing was posted"):
        post(server, blocked(39))
    assert writes(server) == []


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_call_that_is_refused_is_one_line(status: int, server: ForgeServer) -> None:
    server.refuse["GET", "/12"] = [(status, {}, "not for you")]
    with pytest.raises(ForgeError, match=f"did not read the (pull|merge) request: {status} not"):
        post(server, verdict())


def test_a_forge_that_cannot_be_reached_is_one_line(server: ForgeServer) -> None:
    server.url = "http://127.0.0.1:1"
    with pytest.raises(ForgeError, match="did not read the (pull|merge) request: Connect"):
        post(server, verdict())


def test_a_line_that_is_refused_keeps_no_other_comment_from_being_posted(
    server: GitLabServer | ForgejoServer,
) -> None:
    server.bad_lines = {40}
    receipt = post(server, blocked(39, 40, 41))
    assert receipt == Receipt(3, 2, 0, summary=True, refused=("src/upload.py:40",))
    assert post(server, blocked(39, 40, 41)).refused == ("src/upload.py:40",)


def test_the_command_posts_with_the_variables_of_the_job(
    server: ForgeServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "verdict.json"
    file.write_text(json.dumps(to_builtins(blocked(39))))
    name = "gitlab" if isinstance(server, GitLabServer) else "forgejo"
    variables = {
        "GITLAB_TOKEN": TOKEN,
        "CI_PROJECT_ID": "acme/shop",
        "CI_MERGE_REQUEST_IID": "12",
        "CI_SERVER_URL": server.url,
        "FORGEJO_TOKEN": TOKEN,
        "GITHUB_REPOSITORY": "acme/shop",
        "GITHUB_REF": "refs/pull/12/head",
        "GITHUB_SERVER_URL": server.url,
    }
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert main(["post", str(file), "--to", name]) == 0
    assert "1 of 1 new comments" in capsys.readouterr().out


@pytest.mark.parametrize("adapter", [gitlab, forgejo])
def test_a_missing_variable_is_one_line(adapter: object) -> None:
    assert adapter in {gitlab, forgejo}
    opening = gitlab.open_forge if adapter is gitlab else forgejo.open_forge
    token = {"GITLAB_TOKEN": "t", "FORGEJO_TOKEN": "t"}
    with pytest.raises(InputError, match="_TOKEN is not set"):
        opening(PostingTarget("", 0, "", {}))
    with pytest.raises(InputError, match="give --project"):
        opening(PostingTarget("", 0, "", token))
    with pytest.raises(InputError, match="give --request N"):
        opening(PostingTarget("a/b", 0, "", token))
    with pytest.raises(InputError, match="give --url URL"):
        opening(PostingTarget("a/b", 12, "", token))


def test_the_lines_of_a_diff_are_those_of_its_hunks() -> None:
    patch = "@@ -1,2 +1,3 @@ f\n a\n-b\n+@@ -9 +90 @@\n+c\n\\ No newline\n@@ -9 +10 @@\n-x\n+y\n"
    assert lines_of_patch(patch) == {1, 2, 3, 10}
    assert added_lines_of_patch(patch) == {2, 3, 10}
    assert lines_of_diff(forgejo_server.DIFF) == {
        "src/other.py": {1, 2},
        "src/upload.py": {38, 39, 40, 41, 42, 43},
    }


def test_no_text_of_others_begins_a_line_as_a_quick_action_that_gitlab_would_carry_out() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n /merge\n-a\n+/approve\n"
    evidence = Evidence(quote="```\n/merge\n/approve\n```", tool_calls=())
    words = "It is so.\n/merge\n/approve"
    bad = fixed(
        40, patch=patch, start_line=40, end_line=40, evidence=evidence, title=words, detail=words,
        fix_suggestion=words,
    )  # fmt: skip
    given = verdict(
        verdict="block", exit_code=1, findings=(bad,), lead_summary=words, reasons=(words,)
    )
    with serving(GitLabServer()) as server:
        post_verdict(given, open_forge(server), str, partial(plan_posting, suggest_fixes=True))
        texts = [one["notes"][0]["body"] for one in server.discussions]
    assert len(texts) == 2
    for text in texts:
        assert "merge" in text
        assert not re.search(r"^/\w", text, re.MULTILINE)
