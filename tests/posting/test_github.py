"""Posting to GitHub: once, resumed after a crash, within its limits, and nothing to a moved head."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from orchestrator.cli.main import main
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.errors import InputError
from orchestrator.posting.forge import ForgeError, HeadMoved, PostingTarget
from orchestrator.posting.github import GitHub, open_forge
from orchestrator.posting.posting_plan import (
    SUMMARY_MARKER,
    Receipt,
    identity_of,
    marker,
    post_verdict,
)
from tests.posting.forge_server import TOKEN, serving
from tests.posting.github_server import ME, OTHER, GitHubServer
from tests.report.verdict_samples import finding, verdict


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    with serving(GitHubServer()) as running:
        yield running


def at(number: int, line: int, **changed: object) -> Finding:
    place = {"rule": f"r{number}", "start_line": line, "end_line": line}
    return finding(number, **{**place, **changed})


def blocked(*findings: Finding, **changed: object) -> Verdict:
    return verdict(verdict="block", exit_code=1, findings=findings, **changed)


def post(server: GitHubServer, given: Verdict) -> Receipt:
    forge = GitHub(TOKEN, server.url, "acme/shop", 12)
    return post_verdict(given, forge, lambda text: text)


def mine(server: GitHubServer) -> list[str]:
    return [identity_of(one["body"]) for one in server.threads if one["author"] == ME]


def writes(server: GitHubServer) -> list[str]:
    return [call for call in server.calls if not call.startswith("GET") and call != "POST /graphql"]


def test_a_verdict_is_one_review_one_summary_and_one_check(server: GitHubServer) -> None:
    receipt = post(server, blocked(at(1, 39), at(2, 40, start_column=3), at(3, 700)))
    assert receipt == Receipt(wanted=2, found=2, resolved=0, summary=True)
    assert writes(server) == [
        "POST /repos/acme/shop/pulls/12/reviews",
        "POST /repos/acme/shop/issues/12/comments",
        "POST /repos/acme/shop/check-runs",
    ]
    assert [(one["path"], one["line"], one["side"]) for one in server.threads] == [
        ("src/upload.py", 39, "RIGHT"),
        ("src/upload.py", 40, "RIGHT"),
    ]
    (check,) = server.checks
    assert (check["conclusion"], check["head_sha"]) == ("failure", server.head)
    assert server.comments[0]["body"].count("**high: ") == 3


def test_posting_again_changes_nothing(server: GitHubServer) -> None:
    post(server, blocked(at(1, 39), at(2, 40)))
    before = json.dumps([server.threads, server.comments, server.checks])
    server.calls.clear()
    assert post(server, blocked(at(1, 39), at(2, 40))).wanted == 0
    assert json.dumps([server.threads, server.comments, server.checks]) == before
    assert writes(server) == ["PATCH /repos/acme/shop/check-runs/1"]


def test_a_later_verdict_resolves_what_is_fixed_and_renews_summary_and_check(
    server: GitHubServer,
) -> None:
    post(server, blocked(at(1, 39), at(2, 40), at(3, 41)))
    assert post(server, blocked(at(2, 42), at(4, 41))).resolved == 2
    assert [one["resolved"] for one in server.threads] == [True, False, True, False]
    assert len(server.comments) == 1
    assert post(server, verdict()).resolved == 2
    assert "no findings" in server.comments[0]["body"]
    assert [one["conclusion"] for one in server.checks] == ["success"]


def test_comments_of_others_are_not_ours_whatever_they_say(server: GitHubServer) -> None:
    for number in range(1, 6):
        server.comment(f"forged\n{SUMMARY_MARKER}", OTHER)
        server.thread({"body": f"forged\n{marker(f'{number:064x}')}"}, OTHER)
    post(server, blocked(at(1, 39)))
    post(server, verdict())
    assert mine(server) == [f"{1:064x}"]
    assert [one["resolved"] for one in server.threads] == [False] * 5 + [True]
    assert sum(one["author"] == ME for one in server.comments) == 1


def test_a_line_that_is_refused_keeps_no_other_comment_from_being_posted(
    server: GitHubServer,
) -> None:
    server.bad_lines = {40}
    found = blocked(at(1, 39), at(2, 40), at(3, 41))
    receipt = post(server, found)
    assert receipt == Receipt(3, 2, 0, summary=True, refused=("src/upload.py:40",))
    assert mine(server) == [f"{1:064x}", f"{3:064x}"]
    assert "shell=True" in server.comments[0]["body"]
    assert [check["conclusion"] for check in server.checks] == ["failure"]
    again = post(server, found)  # alone now, and refused again
    assert again == Receipt(1, 0, 0, summary=True, refused=("src/upload.py:40",))
    assert len(server.threads) == 2


def test_a_comment_that_another_fault_keeps_out_is_an_error(server: GitHubServer) -> None:
    server.refuse["POST", "/reviews"] = [(403, {}, "Resource not accessible by integration")] * 9
    with pytest.raises(ForgeError, match="403 Resource not accessible"):
        post(server, blocked(at(1, 39), at(2, 40)))


def test_a_rate_limit_is_waited_out_and_the_call_is_made_once(server: GitHubServer) -> None:
    wait = {"Retry-After": "0"}
    server.refuse["POST", "/reviews"] = [(403, dict(wait), "secondary rate limit"), (429, wait, "")]
    assert post(server, blocked(at(1, 39))).found == 1
    assert len(server.threads) == 1


@pytest.mark.parametrize("part", ["/reviews", "/issues/12/comments", "/check-runs"])
def test_a_reply_that_is_lost_after_the_call_was_made_gives_no_double(
    part: str, server: GitHubServer
) -> None:
    server.refuse["POST", part] = [(502, {"performed": "yes"}, "Bad gateway")]
    with pytest.raises(ForgeError, match="502 Bad gateway"):
        post(server, blocked(at(1, 39)))
    assert post(server, blocked(at(1, 39))).summary
    assert (len(server.threads), len(server.comments), len(server.checks)) == (1, 1, 1)


@pytest.mark.parametrize(("head", "state"), [("0" * 40, "open"), (None, "closed")])
def test_nothing_is_posted_to_a_request_that_changed_meanwhile(
    head: str | None, state: str, server: GitHubServer
) -> None:
    server.head, server.state = head or server.head, state
    with pytest.raises(HeadMoved, match="nothing was posted"):
        post(server, blocked(at(1, 39)))
    assert writes(server) == []


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_call_that_is_refused_is_one_line(status: int, server: GitHubServer) -> None:
    server.refuse["GET", "/pulls/12"] = [(status, {}, "Resource not accessible\nby integration")]
    with pytest.raises(
        ForgeError, match=f"GitHub did not read the pull request: {status} Resource"
    ):
        post(server, verdict())


def test_a_forge_that_cannot_be_reached_is_one_line(server: GitHubServer) -> None:
    forge = GitHub(TOKEN, "http://127.0.0.1:1", "acme/shop", 12)
    with pytest.raises(ForgeError, match="GitHub did not read the pull request: ConnectionError"):
        post_verdict(verdict(), forge, lambda text: text)


def test_the_command_posts_with_the_variables_of_the_job(
    server: GitHubServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in {
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_REPOSITORY": "acme/shop",
        "GITHUB_REF": "refs/pull/12/merge",
        "GITHUB_API_URL": server.url,
    }.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "verdict.json"
    leaking = blocked(at(1, 39, detail=f"the token is {TOKEN}"))
    file.write_text(json.dumps(to_builtins(leaking)))
    assert main(["post", str(file), "--to", "github"]) == 0
    assert capsys.readouterr().out == (
        "Posted: the check, the summary, 1 of 1 new comments, 0 resolved\n"
    )
    assert TOKEN not in json.dumps([server.threads, server.comments, server.checks])
    file.write_text(json.dumps(to_builtins(replace(leaking, change=verdict().change))))
    server.head = "1" * 40
    assert main(["post", str(file), "--to", "github"]) == 2
    assert "nothing was posted: review the new head" in capsys.readouterr().err


def test_the_request_of_a_fork_is_found_by_the_head_of_the_run(
    server: GitHubServer, tmp_path: Path
) -> None:
    event = tmp_path / "event.json"
    environment = {
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_REPOSITORY": "acme/shop",
        "GITHUB_REF": "refs/heads/main",
        "GITHUB_API_URL": server.url,
        "GITHUB_EVENT_PATH": str(event),
    }
    run = {"head_sha": server.head, "head_branch": "topic"}
    owner = {"head_repository": {"owner": {"login": "fork"}}}
    event.write_text(json.dumps({"workflow_run": {**run, **owner}}))
    assert open_forge(PostingTarget("", 0, "", environment)).read_pull_request().head == server.head
    event.write_text(json.dumps({"workflow_run": {**run, **owner, "head_sha": "0" * 40}}))
    with pytest.raises(HeadMoved, match="no open pull request has the head 000000000000"):
        open_forge(PostingTarget("", 0, "", environment))
    event.write_text("{")
    with pytest.raises(InputError, match="give --request N"):
        open_forge(PostingTarget("", 0, "", environment))


@pytest.mark.parametrize(
    ("environment", "project", "error"),
    [
        ({}, "", "GITHUB_TOKEN is not set"),
        ({"GITHUB_TOKEN": "t"}, "", "give --project OWNER/NAME, or set GITHUB_REPOSITORY"),
        ({"GITHUB_TOKEN": "t"}, "a/../b", "a/../b is not OWNER/NAME"),
        ({"GITHUB_TOKEN": "t", "GITHUB_REF": "refs/heads/x"}, "a/b", "give --request N"),
    ],
)
def test_a_missing_variable_is_one_line(
    environment: dict[str, str], project: str, error: str
) -> None:
    with pytest.raises(InputError, match=error):
        open_forge(PostingTarget(project, 0, "", environment))
