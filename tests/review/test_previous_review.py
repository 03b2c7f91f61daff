"""What a review says of the previous one of the same change: new, open, reopened, fixed."""

import time
from pathlib import Path

import anyio
import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from orchestrator.app import previous_reviews
from orchestrator.app.previous_reviews import name_change
from orchestrator.app.run_review import run_review
from orchestrator.app.runs import state_directory, stored_runs
from orchestrator.app.types import ReviewOptions
from orchestrator.code_review.assemble_verdict import digest_of
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.errors import InputError
from orchestrator.report.terminal_escaping import as_json
from orchestrator.report.verdict_text import describe_since_previous, render_verdict
from orchestrator.stores.sql_store import RunStore
from tests.review.review_kit import Repo

ACTIONS = {"CI": "true", "GITHUB_ACTIONS": "true"}
CALL = "    subprocess.run(x, shell=True)\n"
SHELL = f"import subprocess\n\n\ndef run(x):\n{CALL}"
RULE = "security.subprocess-shell"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A branch whose one commit starts a shell."""
    made = Repo(tmp_path / "repo")
    made.commit({"README.md": "# A project\n"})
    made.git("checkout", "-q", "-b", "feature")
    made.commit({"app.py": SHELL})
    return made


def review(repo: Repo, **given: object) -> Verdict:
    options = ReviewOptions(repo=repo.path, base="main", no_cache=True, **given)  # type: ignore[arg-type]
    return run_review(options, lambda event: None)


def states(verdict: Verdict) -> list[tuple[str, str]]:
    return [(one.rule, one.since_previous) for one in verdict.findings if one.rule == RULE]


def test_the_first_review_has_no_previous_one_and_a_second_of_the_same_head_neither(
    repo: Repo,
) -> None:
    first, second = review(repo), review(repo)
    assert first.previous is None
    assert second.previous is None
    assert states(first) == [(RULE, "")]
    assert second.digest == first.digest


def test_a_verdict_of_another_version_is_no_previous_one_and_one_line_says_so(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OtherVersion(Verdict, frozen=True):
        """As a version that has one more field reads it, in which every verdict is unknown."""

        more: int

    review(repo)
    repo.commit({"README.md": "# A project, once more\n"})
    with monkeypatch.context() as other:
        other.setattr(previous_reviews, "Verdict", OtherVersion)
        other.setattr(stored_runs, "Verdict", OtherVersion)
        second = review(repo)
        with pytest.raises(InputError, match="by another version of Diffcourt; use that"):
            stored_runs.load_verdict(repo.path, "latest")
    assert second.previous is None
    assert second.status == "complete"


def test_a_push_says_what_is_open_new_and_fixed_and_a_later_one_what_is_back(repo: Repo) -> None:
    first = review(repo)
    repo.git("mv", "app.py", "moved.py")
    indented = SHELL.replace(CALL, f"    if x:\n    {CALL}") + f"\n\ndef again(y):\n{CALL}"
    repo.commit({"moved.py": f"# moved\n{indented}"})
    second = review(repo)
    assert second.previous is not None
    assert (second.previous.run_id, second.previous.head) == (first.run_id, first.change.head)
    assert states(second) == [(RULE, "open"), (RULE, "new")]
    known = [one.identity for one in first.findings if one.rule == RULE]
    assert [one.identity for one in second.findings if one.rule == RULE][:1] == known
    assert second.previous.fixed == ()
    assert "Since    the review of" in render_verdict(second)

    repo.commit({"moved.py": SHELL.replace("shell=True", "shell=False")})
    third = review(repo)
    assert third.previous is not None
    assert states(third) == []
    fixed = [one for one in third.previous.fixed if one.rule == RULE]
    assert [(one.path, one.severity) for one in fixed] == [("moved.py", "medium")] * 2
    assert f": {len(third.previous.fixed)} fixed\n" in render_verdict(third)

    repo.commit({"moved.py": f"# moved\n{indented}"})
    fourth = review(repo)
    assert states(fourth) == [(RULE, "reopened"), (RULE, "reopened")]
    assert fourth.previous is not None
    assert not set(fourth.previous.fixed_before) & {one.fingerprint for one in fourth.findings}


def test_a_finding_whose_line_was_edited_is_open_and_one_that_was_added_is_new(repo: Repo) -> None:
    first = review(repo)
    edited = CALL.replace("shell=True", "check=True, shell=True")
    other = (
        "    out = subprocess.check_output(y.command_line(), stderr=None, shell=True).decode()\n"
    )
    repo.commit({"app.py": f"{SHELL.replace(CALL, edited)}\n\ndef more(y):\n{other}"})
    second = review(repo)
    assert second.previous is not None
    assert states(second) == [(RULE, "open"), (RULE, "new")]
    assert second.previous.fixed == ()
    (known,) = [one.identity for one in first.findings if one.rule == RULE]
    # Its dismissal in the pull request, which is by identity, does not hold for the edited line.
    assert known not in {one.identity for one in second.findings}

    repo.commit({"app.py": f"import subprocess\n\n\ndef more(y):\n{other}"})
    third = review(repo)
    assert third.previous is not None
    assert states(third) == [(RULE, "open")]
    assert [one.rule for one in third.previous.fixed] == [RULE]


def test_a_finding_whose_file_is_not_examined_again_is_not_fixed(repo: Repo) -> None:
    review(repo)
    repo.commit({"app.py": SHELL + "def broken(:\n"})
    second = review(repo)
    assert second.previous is not None
    assert states(second) == []
    assert RULE in [one.rule for one in second.previous.not_reported]
    assert RULE not in [one.rule for one in second.previous.fixed]
    repo.commit({"app.py": SHELL + "X = 1\n"})
    assert states(review(repo)) == [(RULE, "open")]


def test_a_finding_that_only_the_work_tree_has_is_not_fixed_by_a_review_of_commits(
    repo: Repo,
) -> None:
    repo.write({"new.py": SHELL, "app.py": f"{SHELL}\n\ndef more(y):\n    eval(y)\n"})
    review(repo, worktree=True)
    (repo.path / "other.py").write_text("X = 1\n")
    repo.git("add", "other.py")
    repo.git("commit", "-q", "-m", "Add another")
    second = review(repo)
    assert second.previous is not None
    assert second.previous.fixed == ()
    gone = {(one.path, one.rule) for one in second.previous.not_reported}
    assert {("new.py", RULE), ("app.py", "security.eval")} <= gone
    assert "not looked at" in describe_since_previous(second)


def test_a_finding_outside_the_paths_of_a_review_is_not_looked_at(repo: Repo) -> None:
    repo.commit({"lib/tool.py": SHELL})
    review(repo)
    repo.commit({"lib/tool.py": "X = 1\n"})
    second = review(repo, paths=("app.py",))
    assert second.previous is not None
    assert [one.path for one in second.previous.not_reported] == ["lib/tool.py"]
    assert second.previous.fixed == ()
    repo.commit({"app.py": SHELL + "Y = 1\n"})
    third = review(repo)
    assert third.previous is not None
    assert [one.path for one in third.previous.fixed if one.rule == RULE] == []


def test_a_withheld_finding_is_fixed_only_when_its_file_was_looked_at(repo: Repo) -> None:
    repo.commit({"settings.py": 'PASSWORD = "vT9#qLm2xKp8wZ4r"\n'})
    assert "security.password-literal" in [one.rule for one in review(repo).findings]
    repo.commit({"settings.py": "PASSWORD = None\n"})
    second = review(repo)
    assert second.previous is not None
    assert "security.password-literal" in [one.rule for one in second.previous.fixed]


def test_reviews_of_other_branches_do_not_hide_the_previous_one(repo: Repo) -> None:
    async def fill(store: RunStore) -> None:
        for number in range(60):
            await store.create(f"other-{number}", time.time() + number, {})

    review(repo)
    with state_directory.open_store(repo.path) as store:
        anyio.run(fill, store)
    repo.commit({"app.py": SHELL + "X = 1\n"})
    assert states(review(repo)) == [(RULE, "open")]


def test_another_branch_is_another_change(repo: Repo) -> None:
    review(repo)
    repo.git("checkout", "-q", "-b", "other")
    repo.commit({"app.py": SHELL + "X = 1\n"})
    assert review(repo).previous is None


def test_a_verdict_that_a_person_names_is_compared_with(repo: Repo, tmp_path: Path) -> None:
    file = tmp_path / "verdict.json"
    first = review(repo)
    file.write_text(as_json(to_builtins(first)))
    assert review(repo, previous=str(file)).previous is None
    repo.git("checkout", "-q", "--detach")
    repo.commit({"app.py": SHELL + "X = 1\n"})
    named = review(repo, previous=str(file))
    assert states(named) == [(RULE, "open")]
    alone = review(repo)
    assert alone.previous is None
    assert alone.digest == named.digest == digest_of(replace(named, previous=None))


@pytest.mark.parametrize(
    ("environment", "given", "name"),
    [
        ({**ACTIONS, "GITHUB_REF": "refs/pull/12/merge"}, {}, "pull/12"),
        ({"CI": "true", "GITLAB_CI": "true", "CI_MERGE_REQUEST_IID": "7"}, {}, "merge_request/7"),
        ({**ACTIONS, "GITHUB_REF": "refs/heads/main"}, {}, "branch/feature"),
        ({"CI": "true", "TRAVIS": "true", "TRAVIS_PULL_REQUEST": "false"}, {}, "branch/feature"),
        ({}, {"head": "HEAD"}, "branch/feature"),
        ({}, {"head": "origin/fix"}, "branch/fix"),
        ({}, {"head": "0123456789abcdef"}, ""),
        ({}, {"diff": b""}, ""),
        ({}, {"worktree": True}, "uncommitted/feature"),
        ({}, {"worktree": True, "base": "main"}, "branch/feature"),
    ],
)
def test_a_change_has_the_name_of_its_pull_request_or_branch(
    environment: dict[str, str], given: dict[str, str], name: str, repo: Repo
) -> None:
    change = Change(base="", head="", base_tree="", head_tree="", git_dir=str(repo.path / ".git"))
    assert name_change(ReviewOptions(**given), change, environment) == name  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, ""),
        ({"BRANCH_NAME": "topic"}, ""),  # not in a job of Jenkins
        ({"CI": "true", "BUILD_TAG": "jenkins-7", "BRANCH_NAME": "topic"}, "branch/topic"),
        ({"TF_BUILD": "True", "BUILD_SOURCEBRANCH": "refs/heads/topic"}, "branch/topic"),
        ({"TF_BUILD": "True", "SYSTEM_PULLREQUEST_PULLREQUESTID": "7"}, "pull/7"),
        ({"CI": "true", "CIRCLECI": "true", "CIRCLE_PULL_REQUEST": "https://x.example/pull/7"}, "pull/7"),
        ({"CI": "true", "GITLAB_CI": "true", "CI_COMMIT_REF_NAME": "topic"}, "branch/topic"),
    ],
)  # fmt: skip
def test_a_detached_head_has_the_name_that_the_job_gives(
    environment: dict[str, str], name: str, repo: Repo
) -> None:
    repo.git("checkout", "-q", "--detach")
    change = Change(base="", head="", base_tree="", head_tree="", git_dir=str(repo.path / ".git"))
    assert name_change(ReviewOptions(), change, environment) == name
