"""Pull requests of GitHub, and what the commands in comments need of it, by PyGithub.

Sources: https://docs.github.com/rest and https://docs.github.com/graphql
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct

from orchestrator.data_directories import read_table
from orchestrator.errors import InputError
from orchestrator.foreign_json import parse_json
from orchestrator.optional_dependencies import install_command
from orchestrator.posting.comment_commands import (
    WrongCommand,
    accepted_dismissal,
    answered_comment,
    is_command,
    parse_command,
)
from orchestrator.posting.forge import (
    CHECK_NAME,
    CONCLUSIONS,
    Comment,
    ForgeCheck,
    ForgeError,
    HeadMoved,
    Posted,
    PostedDismissal,
    PostingTarget,
    PullRequest,
    Thread,
    lines_of_patch,
    write_acceptable,
)
from orchestrator.posting.posting_plan import comment_text, identity_of, own_posts

try:
    import github
except ImportError:
    raise InputError(
        f"posting to GitHub needs PyGithub; run: {install_command('github')}"
    ) from None

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_URL = "https://api.github.com"
SECONDS_BETWEEN_WRITES = 0.75
"""GitHub allows 80 creations a minute."""
MISSING = 404
MAX_EVENT = 8 << 20
"""Bytes of an event file."""
MAX_WAIT = 15 * 60.0
"""Seconds to wait at most for a rate limit."""

MAY_WRITE = frozenset({"admin", "maintain", "write"})
_LOGIN = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")

QUERIES: Mapping[str, str] = read_table(__file__, "github_queries.yaml")


def unless_missing(call: Callable[P, T]) -> Callable[P, T | None]:
    """Returns None where GitHub has no such thing, or shows none to this token."""

    @wraps(call)
    def unless(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return call(*args, **kwargs)
        except github.GithubException as error:
            if error.status != MISSING:
                raise
            return None

    return unless


@contextmanager
def calling_github(what: str) -> Iterator[None]:
    """For calls of GitHub; what goes wrong in them is one line."""
    try:
        yield
    except github.GithubException as error:
        data = error.data if isinstance(error.data, dict) else {}
        why = str(data.get("message") or "no reason given")[:200]
        raise ForgeError(f"GitHub did not {what}: {error.status} {why}", error.status) from error
    # RuntimeError: a redirect to another host, which is not followed
    except (OSError, AssertionError, KeyError, RuntimeError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"[:200]
        raise ForgeError(f"GitHub did not {what}: {why}") from error


def _count_thumbs(comment: dict[str, Any]) -> tuple[int, int]:
    """Thumbs up and thumbs down of a comment."""
    groups = comment.get("reactionGroups") or ()
    found = {group["content"]: int(group["reactors"]["totalCount"]) for group in groups}
    return found.get("THUMBS_UP", 0), found.get("THUMBS_DOWN", 0)


def open_forge(target: PostingTarget) -> "GitHub":
    """The pull request of a target; no call is made yet.

    Raises:
        InputError: the token, the project or the number is missing.
    """
    token = target.token("GITHUB_TOKEN")
    project, url = target.repository(), address_of(target)
    if number := target.number():
        return GitHub(token, url, project, number)
    if run := _read_workflow_run(target.environment.get("GITHUB_EVENT_PATH", "")):
        return GitHub(token, url, project, _find_request(connect(token, url), project, run))
    raise InputError("give --request N; neither GITHUB_REF nor the event names a pull request")


def address_of(target: PostingTarget) -> str:
    """The address of the API: given, of GitHub's variable, or the public one."""
    return target.url or target.environment.get("GITHUB_API_URL") or DEFAULT_URL


class _Owner(Struct, frozen=True):
    login: str


class _Repository(Struct, frozen=True):
    owner: _Owner


class WorkflowRun(Struct, frozen=True):
    """What the event ``workflow_run`` says of the run whose verdict is posted."""

    head_sha: str
    head_branch: str
    head_repository: _Repository


class _Event(Struct, frozen=True):
    workflow_run: WorkflowRun | None = None


def _read_workflow_run(event: str) -> WorkflowRun | None:
    """The run of an event file, None where it is of another kind or cannot be read."""
    try:
        with Path(event).open("rb") as file:  # the runner names it
            return parse_json(file.read(MAX_EVENT), _Event).workflow_run
    except (OSError, ValueError):
        return None


@calling_github("find the pull request")
def _find_request(client: "github.Github", project: str, run: WorkflowRun) -> int:
    """The open pull request of a run's head: the event names none where it comes from a fork."""
    head = f"{run.head_repository.owner.login}:{run.head_branch}"
    for pull in client.get_repo(project).get_pulls(state="open", head=head):
        if pull.head.sha == run.head_sha:
            return int(pull.number)
    raise HeadMoved(f"no open pull request has the head {run.head_sha[:12]}; nothing was posted")


def connect(token: str, url: str) -> "github.Github":
    """A client that waits out rate limits and repeats nothing else."""
    # A call whose reply was lost may have been performed, so it is never sent again.
    retry = github.GithubRetry(
        total=6, read=0, status_forcelist=[429], max_rate_limit_wait=MAX_WAIT
    )
    return github.Github(
        auth=github.Auth.Token(token),
        base_url=url.rstrip("/"),
        retry=retry,
        seconds_between_requests=None,
        seconds_between_writes=SECONDS_BETWEEN_WRITES,
        per_page=100,
        lazy=True,
    )


class GitHub:
    """One pull request.

    Args:
        url: address of the REST API.
        project: ``OWNER/NAME``.
    """

    def __init__(self, token: str, url: str, project: str, number: int) -> None:
        self._client = connect(token, url)
        self._project, self._number = project, number
        self._repo = self._client.get_repo(project)
        self._permissions: dict[str, str | None] = {}

    @calling_github("read the pull request")
    def read_pull_request(self) -> PullRequest:
        """Head, state and the lines of all files of the diff."""
        pull = self._repo.get_pull(self._number)
        pull.complete()
        lines = {
            file.filename: lines_of_patch(file.patch) for file in pull.get_files() if file.patch
        }
        return PullRequest(pull.head.sha, pull.state == "open", lines)

    @calling_github("read the comments")
    def read_posted(self) -> Posted:
        """The summary comment and the review threads of this token's user."""
        comments = list(self._pages(QUERIES["comments"]))
        threads = [
            Thread(node["id"], identity, bool(node["isResolved"]), *_count_thumbs(first))
            for node in self._pages(QUERIES["threads"])
            for first in node["comments"]["nodes"]
            if first["viewerDidAuthor"] and (identity := identity_of(first["body"]))
        ]
        ours = ((_number_of(node), node["body"]) for node in comments if node["viewerDidAuthor"])
        return own_posts(ours, threads, tuple(self._dismissals(comments)))

    def may_write(self, login: str) -> bool:
        """Whether a person has write permission to the repository, asked of the API.

        Raises:
            ForgeError: GitHub does not say.
        """
        if not _LOGIN.fullmatch(login):
            return False
        if login not in self._permissions:
            with calling_github(f"say what {login} may do"):
                ask = unless_missing(self._repo.get_collaborator_permission)
                self._permissions[login] = ask(login)
        return self._permissions[login] in MAY_WRITE

    def _dismissals(self, comments: Iterable[Mapping[str, Any]]) -> Iterator[PostedDismissal]:
        """The dismissals that a comment of ours accepted, as their authors wrote them.

        Our comment only says which: others may make our user post text of theirs.
        """
        accepted = {
            accepted_dismissal(node["body"]) for node in comments if node["viewerDidAuthor"]
        } - {0}
        for node in comments:
            if _number_of(node) not in accepted or not _is_untouched(node):
                continue
            try:
                command = parse_command(node["body"])
            except WrongCommand:
                continue
            login = node["author"]["login"]
            if command.name == "dismiss" and self.may_write(login):
                yield PostedDismissal(command.identity, login, command.reason)

    def _pages(self, query: str) -> Iterator[dict[str, Any]]:
        """The nodes of all pages of a connection named ``page``."""
        owner, name = self._project.split("/")
        after = None
        while True:
            variables = {"owner": owner, "name": name, "number": self._number, "after": after}
            _, data = self._repo.requester.graphql_query(query, variables)
            page = data["data"]["repository"]["pullRequest"]["page"]
            yield from page["nodes"]
            if not page["pageInfo"]["hasNextPage"]:
                return
            after = page["pageInfo"]["endCursor"]

    @calling_github("write the check run (the token needs checks: write)")
    def write_check(self, head: str, check: ForgeCheck) -> None:
        """Make the check run of a commit, or change the one that is there."""
        output: dict[str, Any] = {"title": check.title, "summary": check.summary}
        conclusion = CONCLUSIONS["github"][check.conclusion]
        known = self._repo.get_commit(head).get_check_runs(check_name=CHECK_NAME)
        for run in known:
            run.edit(status="completed", conclusion=conclusion, output=output)
            return
        self._repo.create_check_run(
            CHECK_NAME, head, status="completed", conclusion=conclusion, output=output
        )

    @calling_github("write the summary (the token needs pull-requests: write)")
    def write_summary(self, body: str, summary_id: str) -> None:
        """Write the summary as a comment of the conversation."""
        pull = self._repo.get_pull(self._number)
        if summary_id:
            pull.get_issue_comment(int(summary_id)).edit(body)
        else:
            pull.create_issue_comment(body)

    def write_comments(self, head: str, comments: Sequence[Comment]) -> Sequence[Comment]:
        """Post the comments as one review."""

        def write(chosen: Sequence[Comment]) -> None:
            with calling_github("write the comments (the token needs pull-requests: write)"):
                self._repo.get_pull(self._number).create_review(
                    commit=self._repo.get_commit(head),
                    event="COMMENT",
                    comments=[_review_comment(comment) for comment in chosen],
                )

        return write_acceptable(comments, write)

    def resolve(self, threads: Sequence[Thread]) -> None:
        """Resolve review threads, one call each."""
        for thread in threads:
            with calling_github("resolve a thread"):
                self._repo.requester.graphql_named_mutation(
                    "resolveReviewThread", {"threadId": thread.id}, "thread { isResolved }"
                )


def _number_of(node: Mapping[str, Any]) -> int:
    """The id of a comment by its address: as ``databaseId`` it may be more than GraphQL counts."""
    return int(node["url"].rpartition("#issuecomment-")[2])


def _is_untouched(node: Mapping[str, Any]) -> bool:
    """Whether a comment is a person's command that nobody has edited: others may, in their name."""
    author = node["author"]
    is_person = author is not None and author["__typename"] == "User"
    return is_person and node["lastEditedAt"] is None and is_command(node["body"])


def _review_comment(comment: Comment) -> Any:
    given: dict[str, Any] = {
        "path": comment.path,
        "body": comment_text(comment, "suggestion"),
        "line": comment.end_line,
        "side": "RIGHT",
    }
    if comment.start_line < comment.end_line:
        given |= {"start_line": comment.start_line, "start_side": "RIGHT"}
    return given


WAITING = "action_required"
"""Conclusion of a run that a person must approve first, as for a new contributor."""


class ForgeComment(Struct, frozen=True):
    """A comment, as read from the forge.

    Attributes:
        author: the login; empty if the account is gone.
        is_person: the author is a person's account, not a program's.
        is_here: the comment is one of this request.
    """

    body: str
    author: str
    is_person: bool
    is_edited: bool
    is_here: bool


class ReviewRun(Struct, frozen=True):
    """A run of the job that reviews."""

    id: int
    is_over: bool


def open_commands(target: PostingTarget, workflow: str) -> "GitHubCommands":
    """The pull request of a target, with its number; no call is made yet.

    Args:
        workflow: name of the file of the workflow that reviews.

    Raises:
        InputError: the token or the project is missing, or no name of a workflow was given.
    """
    token = target.token("GITHUB_TOKEN")
    if not re.fullmatch(r"[\w.-]+\.ya?ml", workflow):
        raise InputError(f"--workflow: {workflow} is not the name of a workflow file")
    return GitHubCommands(token, address_of(target), target.repository(), target.request, workflow)


class GitHubCommands(GitHub):
    """One pull request, and the runs of the workflow that reviews it."""

    def __init__(self, token: str, url: str, project: str, number: int, workflow: str) -> None:
        super().__init__(token, url, project, number)
        self._workflow = workflow

    @calling_github("read the comment")
    @unless_missing
    def read_comment(self, comment_id: int) -> ForgeComment | None:
        """A comment of the conversation as it is now; None where it is gone."""
        found = self._repo.get_issue(self._number).get_comment(comment_id).raw_data
        issue = f"/issues/{self._number}"
        author: Any = found["user"] or {}
        return ForgeComment(
            body=str(found["body"]),
            author=str(author.get("login", "")),
            is_person=author.get("type") == "User",
            is_edited=found["created_at"] != found["updated_at"],
            is_here=str(found["issue_url"]).endswith(issue),
        )

    @calling_github("read the pull request")
    @unless_missing
    def read_state(self) -> PullRequest | None:
        """Head and state, without lines; None where the number is of an issue."""
        pull = self._repo.get_pull(self._number)
        pull.complete()
        return PullRequest(pull.head.sha, pull.state == "open", {})

    @calling_github("read the comments")
    def is_answered(self, comment_id: int) -> bool:
        """Whether a comment of ours answers this one."""
        return any(
            node["viewerDidAuthor"] and answered_comment(node["body"]) == comment_id
            for node in self._pages(QUERIES["comments"])
        )

    def find_review(self, head: str) -> ReviewRun | None:
        """The newest run of the workflow that reviewed a head; None where there is none."""
        with calling_github(f"list the runs of {self._workflow}"):
            runs = self._repo.get_workflow(self._workflow).get_runs(
                event="pull_request", head_sha=head
            )
            for run in runs:
                if run.head_sha == head:
                    waits = run.conclusion == WAITING
                    return ReviewRun(int(run.id), run.status == "completed" and not waits)
        return None

    def run_again(self, run: ReviewRun) -> None:
        """Run a workflow again, with the permissions that it had."""

        what = "run the review again (the token needs actions: write; a run is kept for 30 days)"
        with calling_github(what):
            is_running = self._repo.get_workflow_run(run.id).rerun()
        if not is_running:
            raise ForgeError(f"GitHub did not {what}")

    @calling_github("write the answer (the token needs pull-requests: write)")
    def write_answer(self, body: str) -> None:
        """Write a comment of the conversation."""
        self._repo.get_issue(self._number).create_comment(body)
