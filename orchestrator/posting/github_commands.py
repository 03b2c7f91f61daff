"""What the commands in comments need of GitHub, beside what posting needs.

Source: https://docs.github.com/rest
"""

import re
from typing import Any

from msgspec import Struct

from orchestrator.errors import InputError
from orchestrator.posting.comment_commands import answered_comment
from orchestrator.posting.forge import ForgeError, PostingTarget, PullRequest
from orchestrator.posting.github import QUERIES, GitHub, address_of, calling_github, unless_missing

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
    """A run of the job that reviews.

    Attributes:
        is_over: whether it may be run again.
    """

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
    """One pull request, and the runs of the workflow that reviews it.

    Args:
        workflow: name of its file.
    """

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
