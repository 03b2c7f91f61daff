"""What posting needs of a forge; each adapter of this package implements ``Forge``."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from orchestrator.errors import DiffcourtError, InputError

Conclusion = Literal["success", "failure", "neutral", "incomplete"]
"""Of a check: passed; gated; nothing gates; or something was not reviewed, which is no failure."""


CHECK_NAME = "Diffcourt"
"""Of the check, or of the status where the forge has no checks."""


class PullRequest(Struct, frozen=True):
    """A pull or merge request as it is now.

    Attributes:
        head: the commit id of its newest push.
        lines: path → lines of head that its diff shows, so that a comment can stand at them.
    """

    head: str
    is_open: bool
    lines: Mapping[str, frozenset[int]]


class Comment(Struct, frozen=True):
    """A comment to be posted at lines of head.

    Attributes:
        identity: of its finding.
        body: Markdown, without the marker by which it is found again.
        patch: Markdown behind the body: the finding's patch to be read.
        suggestion: what can be committed in place of the lines, without the last line end; shown
            instead of the patch where the forge knows suggestions. None: there is none.
    """

    identity: str
    path: str
    start_line: int
    end_line: int
    body: str
    patch: str = ""
    suggestion: str | None = None


class Check(Struct, frozen=True):
    """The state of the review at the head commit.

    Attributes:
        title: one line.
        summary: Markdown.
    """

    conclusion: Conclusion
    title: str
    summary: str


class Thread(Struct, frozen=True):
    """A comment of ours that is there already.

    Attributes:
        id: the forge's.
        identity: of its finding.
        likes, dislikes: people's thumbs up and down, 0 where the forge does not tell.
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
        by: the person's name, which the forge says.
        reason: one line.
    """

    identity: str
    by: str
    reason: str


class Posted(Struct, frozen=True):
    """What of ours a pull request has, told from others' by its author and its marker.

    Attributes:
        summary_id: of the summary comment; empty where there is none.
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
        """The request as it is now."""

    def read_posted(self) -> Posted:
        """What of ours is there, all pages of it."""

    def write_check(self, head: str, check: Check) -> None:
        """Set the check of a commit; the one of the same name is replaced."""

    def write_summary(self, body: str, summary_id: str) -> None:
        """Write the summary comment, in place where it has an id."""

    def write_comments(self, head: str, comments: Sequence[Comment]) -> None:
        """Post all comments, as one batch where the forge has such."""

    def resolve(self, threads: Sequence[Thread]) -> None:
        """Resolve threads of ours."""


class ForgeError(DiffcourtError):
    """A forge refused a call, or could not be reached; one line that says what to do."""

    exit_code = 3


class HeadMoved(InputError):
    """The request has another head than the verdict, or is closed: nothing was posted."""
