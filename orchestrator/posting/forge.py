"""The port for forges, which each adapter of this package implements (``Forge``)."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from orchestrator.errors import DiffcourtError, InputError

Conclusion = Literal["success", "failure", "neutral", "incomplete"]
"""Of a check: passed; gated; nothing gates; or something was not reviewed, which is no failure."""


CHECK_NAME = "Diffcourt"
"""Of the check, or of the status where the forge has no checks."""


class PullRequest(Struct, frozen=True):
    """The present state of a pull or merge request.

    Attributes:
        head: the commit id of its newest push.
        lines: path → lines of head that its diff shows, where a comment is possible.
    """

    head: str
    is_open: bool
    lines: Mapping[str, frozenset[int]]


class Comment(Struct, frozen=True):
    """A comment to be posted at lines of head.

    Attributes:
        identity: of its finding.
        body: Markdown, without the marker that identifies the comment.
        patch: Markdown after the body: the finding's patch, to read.
        suggestion: the replacement of the lines to commit, without the last line end; shown
            instead of the patch if the forge supports suggestions. None: there is none.
    """

    identity: str
    path: str
    start_line: int
    end_line: int
    body: str
    patch: str = ""
    suggestion: str | None = None


class ForgeCheck(Struct, frozen=True):
    """The state of the review at the head commit.

    Attributes:
        title: one line.
        summary: Markdown.
    """

    conclusion: Conclusion
    title: str
    summary: str


class Thread(Struct, frozen=True):
    """An existing comment of ours.

    Attributes:
        id: the forge's.
        identity: of its finding.
        likes, dislikes: people's thumbs up and down; 0 if the forge does not provide them.
    """

    id: str
    identity: str
    is_resolved: bool
    likes: int = 0
    dislikes: int = 0


class PostedDismissal(Struct, frozen=True):
    """A finding that a person with write permission has dismissed in a pull request.

    Attributes:
        identity: of the finding.
        by: the person's name, as read from the forge.
        reason: one line.
    """

    identity: str
    by: str
    reason: str


class Posted(Struct, frozen=True):
    """Our own comments on a pull request, recognized by author and marker.

    Attributes:
        summary_id: of the summary comment; empty if there is none.
        dismissals: commands of people that a comment of ours accepted.
    """

    summary_id: str = ""
    summary: str = ""
    threads: Sequence[Thread] = ()
    dismissals: Sequence[PostedDismissal] = ()


class Forge(Protocol):
    """One pull request of one forge.

    Every method may raise ``ForgeError``. Creations are paced by the adapter, which also waits as
    long as the forge asks when it limits the rate.
    """

    def read_pull_request(self) -> PullRequest:
        """The present state of the request."""

    def read_posted(self) -> Posted:
        """All our own comments, from all pages."""

    def write_check(self, head: str, check: ForgeCheck) -> None:
        """Set the check of a commit, replacing one of the same name."""

    def write_summary(self, body: str, summary_id: str) -> None:
        """Write the summary comment; one with an id is edited."""

    def write_comments(self, head: str, comments: Sequence[Comment]) -> None:
        """Post all comments, as one batch if the forge supports it."""

    def resolve(self, threads: Sequence[Thread]) -> None:
        """Resolve threads of ours."""


class ForgeError(DiffcourtError):
    """A forge refused a call or could not be reached; one line that says what to do."""

    exit_code = 3


class HeadMoved(InputError):
    """The request has another head than the verdict, or is closed: nothing was posted."""
