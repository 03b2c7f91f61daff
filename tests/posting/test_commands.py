"""Commands in comments: whoever may write is heard, once; everybody else gets nothing."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import to_builtins

from orchestrator.catalog.repository_memory import DismissalFile
from orchestrator.catalog.yaml_validation import read_yaml
from orchestrator.cli.main import main
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.data_directories import data_root
from orchestrator.posting import github
from orchestrator.posting.comment_commands import answer_marker, answered_comment
from orchestrator.posting.forge import Posted, PostedDismissal, PullRequest
from orchestrator.posting.posting_plan import apply_dismissals, plan_posting
from tests.posting.forge_server import HEAD, TOKEN, serving
from tests.posting.github_server import ME, OTHER, GitHubServer
from tests.report.verdict_samples import finding, fixed, verdict

RUN = 7_000_000_001
ID = f"{1:064x}"
OVER = {"id": RUN, "head_sha": HEAD, "status": "completed", "conclusion": "failure"}
ANSWER, RERUN = "POST /repos/acme/shop/issues/12/comments", "/actions/runs/7000000001/rerun"


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    with serving(GitHubServer()) as running:
        running.runs = [OVER]
        yield running


@pytest.fixture
def job(server: GitHubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variables of a job, whose event and outputs are files."""
    (tmp_path / "output").touch()
    variables = {
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_REPOSITORY": "acme/shop",
        "GITHUB_REF": "refs/heads/main",
        "GITHUB_API_URL": server.url,
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables


def event_of(job: dict[str, str], comment: dict[str, Any], **changed: Any) -> None:
    """Write the event of a comment."""
    document = {
        "action": "created",
        "comment": {"id": comment["id"], "body": comment["body"]},
        "issue": {"number": 12, "pull_request": {"url": "x"}},
        **changed,
    }
    Path(job["GITHUB_EVENT_PATH"]).write_text(json.dumps(document))


def write_verdict(path: Path, *findings: Finding, **changed: Any) -> Path:
    given: Verdict = verdict(verdict="block", exit_code=1, findings=findings, **changed)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(to_builtins(given)))
    return path


def outputs(job: dict[str, str]) -> dict[str, str]:
    """The outputs of the last step."""
    lines = Path(job["GITHUB_OUTPUT"]).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def answers(server: GitHubServer) -> list[str]:
    return [one["body"] for one in server.comments if one["author"] == ME]


def writes(server: GitHubServer) -> list[str]:
    return [call for call in server.calls if not call.startswith("GET") and call != "POST /graphql"]


@pytest.mark.parametrize("author", [OTHER, "eve", "ghost/../bob", "robot", ME, "-"])
def test_people_without_write_permission_get_no_answer(
    author: str, server: GitHubServer, job: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_verdict(Path(job["GITHUB_OUTPUT"]).parent / "v" / "verdict.json", finding(1))
    for body in ("/diffcourt review", f"/diffcourt dismiss {ID} no", "/diffcourt rubbish"):
        event_of(job, server.comment(body, author))
        for more in ([], ["--verdict", str(file)]):
            assert main(["comment-command", "--to", "github", *more]) == 0
            assert f"{author} has no write permission" in capsys.readouterr().out
            assert outputs(job)["command"] == "nothing"
    assert writes(server) == []
    assert not [call for call in server.calls if ".." in call]


Change = Callable[[GitHubServer, dict[str, str], dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda _, job, one: event_of(job, one, action="edited"), "only new comments"),
        (lambda _, job, one: event_of(job, one, issue={"number": 12}), "only new comments"),
        (lambda _, __, one: one.update(issue=13), "has no comment"),
        (lambda _, __, one: one.update(id=1), "has no comment"),
        (lambda _, __, one: one.update(body="/diffcourt review now"), "was edited"),
        (lambda _, __, one: one.update(updated_at="2027-03-15T00:00:00Z"), "was edited"),
        (lambda server, _, __: setattr(server, "state", "closed"), "no open pull request"),
        (
            lambda _, job, one: event_of(
                job, one, issue={"number": 44, "pull_request": {}}
            ),
            "request 44 has no comment",
        ),
        (
            lambda server, _, __: server.refuse.update(
                {("GET", "/pulls/12"): [(404, {}, "Not Found")]}
            ),
            "no open pull request",
        ),
    ],
)  # fmt: skip
def test_only_new_commands_on_open_requests_are_answered(
    change: Change,
    line: str,
    server: GitHubServer,
    job: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    comment = server.comment("/diffcourt review", "alice")
    event_of(job, comment)
    change(server, job, comment)
    assert main(["comment-command", "--to", "github"]) == 0
    assert line in capsys.readouterr().out
    assert writes(server) == []


@pytest.mark.parametrize("part", ["/permission", "/issues/comments/", "/pulls/12", "/runs"])
@pytest.mark.parametrize("status", [403, 500])
def test_a_forge_that_does_not_answer_leaves_everything_as_it_is(
    part: str,
    status: int,
    server: GitHubServer,
    job: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    event_of(job, server.comment("/diffcourt review", "alice"))
    server.refuse["GET", part] = [(status, {}, "Resource not\naccessible")]
    assert main(["comment-command", "--to", "github"]) == 3
    error = capsys.readouterr().err
    assert "GitHub did not" in error
    assert str(status) in error
    assert error.count("\n") == 1
    assert writes(server) == []


def test_review_runs_the_review_of_the_head_again_and_answers_once(
    server: GitHubServer, job: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    server.runs = [{**OVER, "id": 1, "head_sha": "0" * 40}, OVER, {**OVER, "id": 2}]
    event_of(job, server.comment("/diffcourt review", "alice"))
    assert main(["comment-command", "--to", "github"]) == 0
    assert outputs(job) == {"command": "review", "request": "12", "head": HEAD}
    assert server.reruns == [RUN]
    assert ["runs again" in text for text in answers(server)] == [True]
    server.calls.clear()
    assert main(["comment-command", "--to", "github"]) == 0
    assert "answered already" in capsys.readouterr().out
    assert writes(server) == []
    event_of(job, server.comment("/diffcourt review", "bob"))
    assert main(["comment-command", "--to", "github"]) == 0
    assert (len(answers(server)), len(server.reruns)) == (2, 2)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([], "There is no review of `9d0e4f2a1b2c` yet. "),
        ([{**OVER, "status": "in_progress", "conclusion": None}], "is running, or waits"),
        ([{**OVER, "conclusion": "action_required"}], "is running, or waits"),
    ],
)
def test_a_review_that_cannot_be_repeated_now_is_said_to_be(
    runs: list[dict[str, Any]], said: str, server: GitHubServer, job: dict[str, str]
) -> None:
    server.runs = runs
    event_of(job, server.comment("/diffcourt review", "bob"))
    assert main(["comment-command", "--to", "github"]) == 0
    assert (outputs(job)["command"], server.reruns) == ("nothing", [])
    assert said in answers(server)[0]


def test_a_repetition_that_is_refused_is_an_error_and_can_be_tried_again(
    server: GitHubServer, job: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    event_of(job, server.comment("/diffcourt review", "alice"))
    server.refuse["POST", RERUN] = [(403, {}, "Unable to re-run")]
    assert main(["comment-command", "--to", "github"]) == 3
    assert "the token needs actions: write" in capsys.readouterr().err
    assert answers(server) == []
    assert main(["comment-command", "--to", "github"]) == 0
    assert len(answers(server)) == len(server.reruns) == 1


def test_a_wrong_command_is_answered_with_the_syntax(
    server: GitHubServer, job: dict[str, str]
) -> None:
    event_of(job, server.comment("/diffcourt merge; rm -rf / @everyone", "alice"))
    assert main(["comment-command", "--to", "github"]) == 0
    assert (outputs(job)["command"], server.reruns) == ("nothing", [])
    (text,) = answers(server)
    assert text.startswith("there is no such command. `/diffcourt review` reviews")
    assert "everyone" not in text


def test_explain_answers_with_evidence_fix_and_rule_and_no_markup_of_others(
    server: GitHubServer, job: dict[str, str], tmp_path: Path
) -> None:
    hostile = f"@team <img src=x> [a](https://e.example) {answer_marker(1, dismissed=True)}"
    shown = fixed(
        1, rule="security.subprocess-shell", detail=hostile, fix_suggestion=f"use {TOKEN}"
    )
    file = write_verdict(tmp_path / "v" / "verdict.json", shown)
    comment = server.comment(f"/diffcourt explain {ID}", "alice")
    event_of(job, comment)
    assert main(["comment-command", "--to", "github"]) == 0
    assert outputs(job) | {"request": "12"} == {
        "command": "explain", "request": "12", "head": HEAD, "run-id": str(RUN)
    }  # fmt: skip
    assert answers(server) == []
    for _ in range(2):
        assert main(["comment-command", "--to", "github", "--verdict", str(file)]) == 0
    (text,) = answers(server)
    assert "    run(f'convert {name}', shell=True)" in text
    assert "- proven, confidence 1.00, reported by ruff" in text
    assert "```diff\n--- a/src/upload.py" in text
    assert "### security.subprocess-shell" in text
    assert "reported: " in text
    assert answered_comment(text) == comment["id"]
    for part in ("@team", "<img", "](http", TOKEN, answer_marker(1, dismissed=True)):
        assert part not in text


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"fingerprint": "f" * 16}, f"has no finding `{ID}`. Open findings:"),
        ({"reported_by": ("x" * 70_000,)}, "too long for a comment"),
    ],
)
def test_an_explanation_that_cannot_be_shown_says_so(
    changed: dict[str, Any], said: str, server: GitHubServer, job: dict[str, str], tmp_path: Path
) -> None:
    file = write_verdict(tmp_path / "v" / "verdict.json", finding(1, **changed), finding(2))
    event_of(job, server.comment(f"/diffcourt explain {ID}", "alice"))
    assert main(["comment-command", "--to", "github", "--verdict", str(file)]) == 0
    (text,) = answers(server)
    assert said in text
    assert f"`{2:064x}`" in text or "too long" in said


@pytest.mark.parametrize("left", ["nothing", "another head", "garbage"])
def test_without_the_verdict_of_the_head_nothing_is_dismissed(
    left: str,
    server: GitHubServer,
    job: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "v" / "verdict.json"
    write_verdict(file, finding(1))
    if left == "nothing":
        file.unlink()
    elif left == "garbage":
        file.write_text("{}")
    else:
        server.head = "1" * 40
    event_of(job, server.comment(f"/diffcourt dismiss {ID} it is fine", "alice"))
    code = main(["comment-command", "--to", "github", "--verdict", str(file)])
    if left == "garbage":
        assert (code, answers(server)) == (2, [])
        assert "is not a verdict" in capsys.readouterr().err
    else:
        assert (code, outputs(job)["command"]) == (0, "nothing")
        assert "There is no verdict of" in answers(server)[0]
    assert github.GitHub(TOKEN, server.url, "acme/shop", 12).read_posted().dismissals == ()


def dismiss(
    server: GitHubServer, job: dict[str, str], file: Path, author: str = "alice"
) -> dict[str, Any]:
    comment = server.comment(f"/diffcourt dismiss {ID} Run by *hand* @all", author)
    event_of(job, comment)
    assert main(["comment-command", "--to", "github", "--verdict", str(file)]) == 0
    return comment


def test_a_dismissed_finding_does_not_count_until_the_command_is_deleted(
    server: GitHubServer, job: dict[str, str], tmp_path: Path
) -> None:
    grave = finding(1, severity="critical", outcome="block")
    file = write_verdict(tmp_path / "v" / "verdict.json", grave)
    post = ["post", str(file), "--to", "github", "--request", "12"]
    assert main(post) == 0
    assert server.checks[0]["conclusion"] == "failure"
    comment = dismiss(server, job, file)
    assert outputs(job)["command"] == "dismiss"
    text = answers(server)[-1]
    entry = text.partition("```yaml\n")[2].partition("```")[0]
    (waiver,) = read_yaml(DismissalFile, entry.encode(), "dismissed").dismissed
    assert (waiver.fingerprint, waiver.by, waiver.why) == (ID, "alice", "Run by *hand* @all")
    assert "@all" not in text.partition("```yaml")[0]

    for _ in range(2):
        assert main(post) == 0
        assert server.checks[0]["conclusion"] == "neutral"
        assert server.checks[0]["output"]["title"].endswith(", 1 dismissed")
        assert "dismissed by alice" in server.comments[0]["body"].replace("&#58;", ":")
        assert len(server.comments) == 3
    comment["updated_at"] = "2027-03-15T00:00:00Z"
    assert main(post) == 0
    assert server.checks[0]["conclusion"] == "failure"


@pytest.mark.parametrize(
    ("author", "accepted_by"),
    [
        ("alice", ""),
        ("alice", OTHER),
        # Another workflow of the repository may have posted a stranger's text under our user.
        (OTHER, ME),
        ("robot", ME),
    ],
)
def test_a_dismissal_counts_by_its_author_and_our_answer_only(
    author: str, accepted_by: str, server: GitHubServer, job: dict[str, str], tmp_path: Path
) -> None:
    file = write_verdict(tmp_path / "v" / "verdict.json", finding(1, outcome="block"))
    comment = server.comment(f"/diffcourt dismiss {ID} mine", author)
    if accepted_by:
        answer = f"thanks\n{answer_marker(comment['id'], dismissed=True)}"
        server.comment(answer, accepted_by)
    assert main(["post", str(file), "--to", "github", "--request", "12"]) == 0
    assert server.checks[0]["conclusion"] == "failure"


def test_a_dismissal_by_somebody_without_write_permission_does_not_count(
    server: GitHubServer, job: dict[str, str], tmp_path: Path
) -> None:
    file = write_verdict(tmp_path / "v" / "verdict.json", finding(1, outcome="block"))
    dismiss(server, job, file)
    server.permissions["alice"] = "read"
    assert main(["post", str(file), "--to", "github", "--request", "12"]) == 0
    assert server.checks[0]["conclusion"] == "failure"


def test_a_finding_that_is_waived_already_is_not_dismissed(
    server: GitHubServer, job: dict[str, str], tmp_path: Path
) -> None:
    file = write_verdict(tmp_path / "v" / "verdict.json", finding(1, state="waived", waiver="ok"))
    dismiss(server, job, file)
    assert outputs(job)["command"] == "nothing"
    assert "is no longer open" in answers(server)[0]


def decided(given: Verdict, *dismissed: int) -> tuple[str, int, int]:
    known = [PostedDismissal(f"{number:064x}", "alice", "fine") for number in dismissed]
    after = apply_dismissals(given, known)
    return after.verdict, after.exit_code, after.counts.high


def test_a_verdict_is_decided_again_from_the_open_findings() -> None:
    two = (finding(1, outcome="block"), finding(2, outcome="needs_changes"))
    blocked = verdict(verdict="block", exit_code=1, findings=two)
    assert decided(blocked, 3) == ("block", 1, 0)
    assert decided(blocked, 1) == ("needs_changes", 1, 1)
    assert decided(blocked, 1, 2) == ("merge", 0, 0)
    unfinished = verdict(verdict="block", exit_code=3, findings=two, status="incomplete")
    assert decided(unfinished, 1, 2) == ("needs_changes", 3, 0)
    more = verdict(verdict="block", exit_code=1, findings=two[1:])
    assert decided(more, 2) == ("block", 1, 0)
    by_option = verdict(verdict="needs_changes", exit_code=1, fail_on="block", findings=two[1:])
    assert decided(by_option, 2) == ("merge", 1, 0)
    waived = verdict(findings=(finding(1, state="waived", waiver="base says so"),))
    assert apply_dismissals(waived, [PostedDismissal(ID, "alice", "fine")]) == waived


def test_a_dismissed_finding_is_shown_and_its_thread_is_settled() -> None:
    given = verdict(verdict="block", exit_code=1, findings=(finding(1, outcome="block"),))
    request = PullRequest(given.change.head, is_open=True, lines={"src/upload.py": frozenset({42})})
    plan = plan_posting(given, request, Posted(dismissals=[PostedDismissal(ID, "alice", "fine")]))
    assert plan.comments == []
    assert plan.summary is not None
    assert "Waived: accepted, not counted" in plan.summary
    assert plan.check.conclusion == "neutral"


def jobs_of(name: str) -> dict[str, Any]:
    jobs: dict[str, Any] = yaml.safe_load((data_root() / "config/ci" / name).read_text())["jobs"]
    return jobs


JOBS = jobs_of("github-commands.yml")


def run_step(found: dict[str, Any], step: str, **variables: str) -> None:
    """Run a step's script as the runner does; the command that it gives Diffcourt runs here."""
    (found,) = [one for one in found["steps"] if one.get("name") == step]
    assert "${{" not in found["run"]
    program = Path("diffcourt/bin/diffcourt")
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text('#!/bin/sh\nprintf "%s\\0" "$@"\n')
    program.chmod(0o755)
    environment = {"PATH": os.environ["PATH"], "RUNNER_TEMP": str(Path.cwd()), **variables}
    assert not set(found["env"]) - {*environment, "GITHUB_TOKEN"}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", found["run"]],
        capture_output=True, text=True, timeout=60, check=True, env=environment,
    )  # fmt: skip
    assert main(done.stdout.rstrip("\0").split("\0")) == 0


def test_the_steps_of_the_workflows_dismiss_a_finding_and_honor_it_in_the_next_review(
    server: GitHubServer, job: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    event_of(job, server.comment(f"/diffcourt dismiss {ID} $(touch pwned)", "alice"))
    run_step(JOBS["command"], "Command")
    assert outputs(job)["run-id"] == str(RUN)
    write_verdict(tmp_path / "verdict" / "verdict.json", finding(1, outcome="block"))
    run_step(JOBS["answer"], "Answer")
    assert outputs(job)["command"] == "dismiss"
    run_step(JOBS["post"], "Post", REQUEST=outputs(job)["request"])
    assert server.checks[0]["conclusion"] == "neutral"

    server.checks.clear()
    head = {
        "head_sha": HEAD,
        "head_branch": "topic",
        "head_repository": {"owner": {"login": "fork"}},
    }
    Path(job["GITHUB_EVENT_PATH"]).write_text(json.dumps({"workflow_run": head}))
    run_step(jobs_of("github-comments.yml")["post"], "Post", FROM_HERE="")
    assert server.checks[0]["conclusion"] == "neutral"
    assert not (tmp_path / "pwned").exists()


def test_each_job_of_the_workflow_has_the_least_permissions() -> None:
    assert {name: found["permissions"] for name, found in JOBS.items()} == {
        "command": {"actions": "write", "pull-requests": "write"},
        "answer": {"actions": "read", "pull-requests": "write"},
        "post": {"actions": "read", "checks": "write", "pull-requests": "write"},
    }
    uses = [step["uses"] for found in JOBS.values() for step in found["steps"] if "uses" in step]
    assert not [use for use in uses if "checkout" in use]
