"""The port for forges, and what its adapters share: targets, and the lines of diffs."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from orchestrator.code_review.change.numbered_diff import HunkLine, number_hunk_lines
from orchestrator.data_directories import read_table
from orchestrator.errors import DiffcourtError, InputError

Conclusion = Literal["success", "failure", "neutral", "incomplete"]
CONCLUSIONS: Mapping[str, Mapping[Conclusion, str]] = read_table(__file__, "conclusions.yaml")
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

    def write_comments(self, head: str, comments: Sequence[Comment]) -> Sequence[Comment]:
        """Post comments, as one batch if the forge supports it; returns those that it refuses."""

    def resolve(self, threads: Sequence[Thread]) -> None:
        """Resolve threads of ours."""


class ForgeError(DiffcourtError, exit_code=3):
    """A forge refused a call or could not be reached; one line that says what to do.

    Args:
        status: the HTTP status of a refusal; 0 where there is none.
    """

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(why)
        self.status = status


def write_acceptable(
    comments: Sequence[Comment], write: Callable[[Sequence[Comment]], None], refusal: int = 422
) -> list[Comment]:
    """Write comments as one batch, or one by one where it is refused.

    Args:
        refusal: the status with which the forge refuses a comment, or its line, for good.

    Returns:
        Those that are refused alone.

    Raises:
        ForgeError: any other one.
    """
    try:
        write(comments)
    except ForgeError as error:
        if error.status != refusal:
            raise
        if len(comments) == 1:
            return list(comments)
        return [gone for one in comments for gone in write_acceptable([one], write, refusal)]
    return []


class HeadMoved(InputError):
    """The request has another head than the verdict, or is closed: nothing was posted."""


class PostingTarget(Struct, frozen=True):
    """The user's values; empty or 0 for those of the CI's variables."""

    project: str
    request: int
    url: str
    environment: Mapping[str, str]

    def variable(self, given: str, name: str, option: str) -> str:
        """The given value, else that of a variable.

        Args:
            option: the option to suggest if there is neither.
        """
        found = given or self.environment.get(name, "")
        if not found:
            raise InputError(f"give {option}, or set {name}")
        return found

    def repository(self) -> str:
        """The repository as ``OWNER/NAME``, given or of GitHub's variable.

        Raises:
            InputError: it is missing, or of another form.
        """
        project = self.variable(self.project, "GITHUB_REPOSITORY", "--project OWNER/NAME")
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", project):
            raise InputError(f"--project: {project} is not OWNER/NAME")
        return project

    def number(self) -> int:
        """The number of the pull request, given or of GitHub's variable; 0: neither names one."""
        found = re.fullmatch(r"refs/pull/(\d+)/\w+", self.environment.get("GITHUB_REF", ""))
        return self.request or (int(found[1]) if found else 0)

    def token(self, name: str) -> str:
        """The token of a variable."""
        found = self.environment.get(name, "").strip()
        if not found:
            raise InputError(f"{name} is not set; it must hold a token that may write comments")
        return found


_FILE = "+++ b/"


def lines_of_patch(patch: str) -> frozenset[int]:
    """The lines of head, added or context, in the hunks of one file, 1-based."""
    return frozenset(line.new for line in _lines(patch))


def added_lines_of_patch(patch: str) -> frozenset[int]:
    """The lines that the hunks of one file add, 1-based."""
    return frozenset(line.new for line in _lines(patch) if line.sign == "+")


def lines_of_diff(diff: str) -> Mapping[str, frozenset[int]]:
    """Path → the lines of head, added or context, of a diff of several files.

    A file whose name git quotes is left out: its comments are in the summary.
    """
    found: dict[str, frozenset[int]] = {}
    for part in re.split(r"^(?=diff --git )", diff, flags=re.MULTILINE):
        head, mark, rest = part.partition("\n@@ ")
        names = [line for line in head.split("\n") if line.startswith(_FILE)]
        if mark and len(names) == 1:
            name = names[0].removeprefix(_FILE).rstrip("\t")
            found[name] = lines_of_patch(f"@@ {rest}")
    return found


def _lines(patch: str) -> Iterator[HunkLine]:
    """The lines of head that are shown."""
    for line in number_hunk_lines(patch.split("\n")):
        if isinstance(line, HunkLine) and line.new:
            yield line
