"""Merge requests of GitLab, by python-gitlab.

Sources: https://docs.gitlab.com/api/discussions/ and https://docs.gitlab.com/api/commits/
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from orchestrator.errors import InputError
from orchestrator.optional_dependencies import install_command
from orchestrator.posting.forge import (
    CHECK_NAME,
    CONCLUSIONS,
    Comment,
    ForgeCheck,
    ForgeError,
    Posted,
    PostingTarget,
    PullRequest,
    Thread,
    added_lines_of_patch,
    write_acceptable,
)
from orchestrator.posting.posting_plan import comment_text, identity_of, own_posts

try:
    import gitlab
    import requests
except ImportError:
    raise InputError(
        f"posting to GitLab needs python-gitlab; run: {install_command('gitlab')}"
    ) from None

MAX_DESCRIPTION = 255
BAD_REQUEST = 400


def open_forge(target: PostingTarget) -> "GitLab":
    """The merge request of a target; no call is made yet.

    Raises:
        InputError: the token, the project, the number or the address is missing.
    """
    token = target.token("GITLAB_TOKEN")
    project = target.variable(target.project, "CI_PROJECT_ID", "--project GROUP/NAME")
    number = target.request or target.variable("", "CI_MERGE_REQUEST_IID", "--request N")
    url = target.variable(target.url, "CI_SERVER_URL", "--url URL")
    if not str(number).isdigit():
        raise InputError(
            f"CI_MERGE_REQUEST_IID is {number}, which is not a number; give --request N"
        )
    return GitLab(token, url, project, int(number))


@contextmanager
def _calling_gitlab(what: str) -> Iterator[None]:
    """For calls of GitLab; what goes wrong in them is one line."""
    try:
        yield
    except gitlab.GitlabError as error:
        why = f"{error.response_code or ''} {error.error_message}".strip()[:200]
        raise ForgeError(f"GitLab did not {what}: {why}", error.response_code or 0) from error
    except (OSError, AssertionError, KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"[:200]
        raise ForgeError(f"GitLab did not {what}: {why}") from error


class GitLab:
    """One merge request.

    Args:
        url: address of the server, without ``/api``.
        project: its path or id.
    """

    def __init__(self, token: str, url: str, project: str, number: int) -> None:
        session = requests.Session()
        session.max_redirects = 0  # the token's header would be sent to another host
        # A rate limit is waited out; a call whose reply was lost is never sent again.
        self._client = gitlab.Gitlab(
            url.removesuffix("/api/v4"), private_token=token, timeout=60, session=session
        )
        self._project = self._client.projects.get(project, lazy=True)
        self._number = number
        self._old_paths: dict[str, str] = {}
        self._refs: Mapping[str, str] = {}

    @_calling_gitlab("read the merge request")
    def read_pull_request(self) -> PullRequest:
        """Head, state and the added lines of all files: GitLab refuses some lines of context."""
        request = self._project.mergerequests.get(self._number)
        self._refs = request.diff_refs
        diffs = self._client.http_list(
            f"/projects/{self._project.encoded_id}/merge_requests/{self._number}/diffs",
            iterator=True,
        )
        lines = {}
        for diff in diffs:
            path = diff["new_path"]
            self._old_paths[path] = diff["old_path"]
            lines[path] = added_lines_of_patch(diff["diff"])
        return PullRequest(request.sha, request.state == "opened", lines)

    @_calling_gitlab("read the discussions")
    def read_posted(self) -> Posted:
        """The summary and the discussions of this token's user."""
        self._client.auth()
        assert self._client.user is not None
        me = self._client.user.id
        request = self._project.mergerequests.get(self._number, lazy=True)
        discussions = request.discussions.list(iterator=True)
        first = ((one.id, one.attributes["notes"][0]) for one in discussions)
        notes = [(name, note) for name, note in first if note["author"]["id"] == me]
        threads = [
            Thread(name, identity, bool(note.get("resolved", False)))
            for name, note in notes
            if (identity := identity_of(note["body"]))
        ]
        return own_posts(((note["id"], note["body"]) for _, note in notes), threads)

    @_calling_gitlab("write the commit status (the token needs the scope api)")
    def write_check(self, head: str, check: ForgeCheck) -> None:
        """Set the status of the commit; one that says the same already is left."""
        commit = self._project.commits.get(head, lazy=True)
        state, text = CONCLUSIONS["gitlab"][check.conclusion], check.title[:MAX_DESCRIPTION]
        for known in commit.statuses.list(iterator=True, name=CHECK_NAME):
            if (known.status, known.description) == (state, text):
                return
        commit.statuses.create({"state": state, "name": CHECK_NAME, "description": text})

    @_calling_gitlab("write the summary (the token needs the scope api)")
    def write_summary(self, body: str, summary_id: str) -> None:
        """Write the summary as a note."""
        request = self._project.mergerequests.get(self._number, lazy=True)
        if summary_id:
            request.notes.update(int(summary_id), {"body": body})
        else:
            request.notes.create({"body": body})

    def write_comments(self, head: str, comments: Sequence[Comment]) -> Sequence[Comment]:
        """Start a discussion for each."""

        def write(chosen: Sequence[Comment]) -> None:
            self._write_comment(head, *chosen)

        return [gone for one in comments for gone in write_acceptable([one], write, BAD_REQUEST)]

    def _write_comment(self, head: str, comment: Comment) -> None:
        position = {
            "position_type": "text",
            "base_sha": self._refs["base_sha"],
            "start_sha": self._refs["start_sha"],
            "head_sha": head,
            "new_path": comment.path,
            "old_path": self._old_paths[comment.path],
            "new_line": comment.end_line,
        }
        request = self._project.mergerequests.get(self._number, lazy=True)
        # A comment stands at one line; a suggestion says how many above it are replaced too.
        above = comment.end_line - comment.start_line
        body = comment_text(comment, f"suggestion:-{above}+0")
        with _calling_gitlab("write a comment (the token needs the scope api)"):
            request.discussions.create({"body": body, "position": position})

    def resolve(self, threads: Sequence[Thread]) -> None:
        """Resolve discussions, one call each."""
        request = self._project.mergerequests.get(self._number, lazy=True)
        for thread in threads:
            with _calling_gitlab("resolve a discussion"):
                request.discussions.update(thread.id, {"resolved": True})
