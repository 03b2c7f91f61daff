"""Pull requests of Forgejo, and of Gitea, whose API is the same here.

The API cannot resolve a conversation, so fixed findings are named only in the summary. Forgejo does
not support suggestions, so a patch is shown as a diff.

Source: https://codeberg.org/api/swagger
"""

from collections.abc import Iterator, Sequence
from time import sleep
from typing import Any

import httpx2

from orchestrator.errors import InputError
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
    lines_of_diff,
    write_acceptable,
)
from orchestrator.posting.posting_plan import comment_text, identity_of, own_posts

TRIES = 5
"""Of a call that is refused by a rate limit."""
MAX_WAIT = 300.0
"""Seconds that a rate limit may ask for at once."""
TOO_MANY = 429
ERROR = 400
PAGE = 50


def open_forge(target: PostingTarget) -> "Forgejo":
    """The pull request of a target; no call is made yet.

    Raises:
        InputError: the token, the project, the number or the address is missing.
    """
    token = target.token("FORGEJO_TOKEN")
    project, number = target.repository(), target.number()
    if not number:
        raise InputError("give --request N; GITHUB_REF names no pull request")
    url = target.variable(target.url, "GITHUB_SERVER_URL", "--url URL")
    return Forgejo(token, url, project, number)


class Forgejo:
    """One pull request.

    Args:
        url: address of the server, without ``/api``.
        project: ``OWNER/NAME``.
    """

    def __init__(self, token: str, url: str, project: str, number: int) -> None:
        self._api = f"{url.rstrip('/').removesuffix('/api/v1')}/api/v1"
        self._client = httpx2.Client(
            base_url=f"{self._api}/repos/{project}/",
            headers={"Authorization": f"token {token}"},
            timeout=60,
        )
        self._number = number

    def read_pull_request(self) -> PullRequest:
        """Head, state and the lines of the diff."""
        what = "read the pull request"
        request = self._call(what, "GET", f"pulls/{self._number}").json()
        diff = self._call(what, "GET", f"pulls/{self._number}.diff").text
        return PullRequest(request["head"]["sha"], request["state"] == "open", lines_of_diff(diff))

    def read_posted(self) -> Posted:
        """The summary and the review comments of this token's user."""
        me = self._call("read the token's user", "GET", f"{self._api}/user").json()["id"]
        ours = (
            (comment["id"], comment["body"])
            for comment in self._pages(f"issues/{self._number}/comments")
            if comment["user"]["id"] == me
        )
        threads = [
            Thread(str(comment["id"]), identity, comment.get("resolver") is not None)
            for review in self._pages(f"pulls/{self._number}/reviews")
            if review["user"]["id"] == me
            for comment in self._pages(f"pulls/{self._number}/reviews/{review['id']}/comments")
            if (identity := identity_of(comment["body"]))
        ]
        return own_posts(ours, threads)

    def _pages(self, path: str) -> Iterator[dict[str, Any]]:
        """The entries of a list, which ends with a page without new entries."""
        seen: set[int] = set()
        page = 1
        while True:
            parameters = {"page": page, "limit": PAGE}
            found = self._call("read the comments", "GET", path, params=parameters).json()
            fresh = [entry for entry in found if entry["id"] not in seen]
            if not fresh:  # some lists have one page, whatever is asked for
                return
            yield from fresh
            seen |= {entry["id"] for entry in fresh}
            page += 1

    def write_check(self, head: str, check: ForgeCheck) -> None:
        """Set the status of the commit, unless it is the same already."""
        state, text = CONCLUSIONS["forgejo"][check.conclusion], check.title
        for known in self._pages(f"commits/{head}/statuses"):
            if known["context"] == CHECK_NAME:
                if (known["status"], known["description"]) == (state, text):
                    return
                break
        given = {"context": CHECK_NAME, "state": state, "description": text}
        self._call("write the commit status", "POST", f"statuses/{head}", json=given)

    def write_summary(self, body: str, summary_id: str) -> None:
        """Write the summary as a comment of the conversation."""
        new = "POST", f"issues/{self._number}/comments"
        place = ("PATCH", f"issues/comments/{summary_id}") if summary_id else new
        self._call("write the summary", *place, json={"body": body})

    def write_comments(self, head: str, comments: Sequence[Comment]) -> Sequence[Comment]:
        """Post the comments as one review."""

        def write(chosen: Sequence[Comment]) -> None:
            written = [
                {"path": one.path, "new_position": one.end_line, "body": comment_text(one)}
                for one in chosen
            ]
            given = {"commit_id": head, "event": "COMMENT", "comments": written}
            path = f"pulls/{self._number}/reviews"
            self._call("write the comments", "POST", path, json=given)

        return write_acceptable(comments, write)

    def resolve(self, threads: Sequence[Thread]) -> None:
        """Do nothing: the API has no such call."""

    def _call(self, what: str, method: str, path: str, **given: Any) -> httpx2.Response:
        """Make a call, with retries only for rate limits."""
        for _ in range(TRIES):
            try:
                response = self._client.request(method, path, **given)
            except httpx2.HTTPError as error:
                why = f"{type(error).__name__}: {error}"[:200]
                raise ForgeError(f"Forgejo did not {what}: {why}") from error
            if response.status_code != TOO_MANY:
                break
            asked = response.headers.get("Retry-After", "")
            sleep(min(float(asked) if asked.isdigit() else 10.0, MAX_WAIT))
        if response.status_code >= ERROR or response.is_redirect:
            why = _message(response)
            status = response.status_code
            raise ForgeError(f"Forgejo did not {what}: {status} {why}".rstrip(), status)
        return response


def _message(response: httpx2.Response) -> str:
    try:
        return str(response.json()["message"])[:200]
    except (ValueError, KeyError, TypeError):
        return ""
