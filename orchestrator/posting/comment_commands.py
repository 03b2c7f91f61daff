"""Commands that people write as comments on a pull request, and the marks of their answers.

Whether a command counts depends on its author, as read from the forge. Its text is untrusted data.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct

from orchestrator.data_directories import read_table
from orchestrator.errors import InputError
from orchestrator.foreign_json import parse_json
from orchestrator.posting.posting_plan import MARKER

WORD = "/diffcourt"
_USAGE = read_table(__file__, "comment_usage.yaml")
USAGE, SERVICE_USAGE = _USAGE["usage"], f"{_USAGE['usage']} {_USAGE['of_service']}"
MAX_REASON = 500
"""Characters of a reason."""

CommandName = Literal["review", "explain", "dismiss", "full", "pause"]

_WITHOUT_ID = ("review", "full", "pause")
_OF_THE_SERVICE = ("full", "pause")

_ID = re.compile(r"`?([0-9a-f]{16,64})`?")
_MARKS = re.compile(rf"{re.escape(MARKER)}(answer|dismissed) ([1-9][0-9]{{0,18}}) -->\s*\Z")


class CommentCommand(Struct, frozen=True):
    """A person's command.

    Attributes:
        identity: of the finding; empty for a review.
        reason: of a dismissal, on one line.
    """

    name: CommandName
    identity: str = ""
    reason: str = ""


class WrongCommand(InputError):
    """A comment begins like a command but is invalid; the message says why."""


def is_command(body: str) -> bool:
    """Whether a comment is meant as a command."""
    return body.split(maxsplit=1)[:1] == [WORD] and body.startswith(WORD)


def parse_command(body: str, *, of_service: bool = False) -> CommentCommand:
    """Parse a comment; the lines after the first one belong to a reason only.

    Args:
        of_service: accept commands that only ``diffcourt serve`` supports.

    Raises:
        WrongCommand: it is no known command, or lacks an argument.
    """
    first, _, more = body.partition("\n")
    _, *words = first.split()
    name = next((one for one in get_args(CommandName) if words[:1] == [one]), None)
    if name is None or (name in _OF_THE_SERVICE and not of_service):
        raise WrongCommand("there is no such command")
    if name in _WITHOUT_ID:
        if words[1:]:
            raise WrongCommand(f"{name} takes no further words")
        return CommentCommand(name)
    found = _ID.fullmatch(words[1]) if words[1:] else None
    if found is None:
        raise WrongCommand(f"{name} needs the ID of a finding")
    if name == "explain":
        if words[2:]:
            raise WrongCommand("explain takes no words after the ID")
        return CommentCommand(name, found[1])
    reason = " ".join([*words[2:], *more.split()])
    if not 0 < len(reason) <= MAX_REASON:
        raise WrongCommand(f"dismiss needs a reason of at most {MAX_REASON} characters")
    return CommentCommand(name, found[1], reason)


def answer_marker(comment_id: int, *, dismissed: bool) -> str:
    """The hidden line that marks the answer to a comment.

    Args:
        dismissed: the command was a dismissal, and is accepted.
    """
    return f"{MARKER}{'dismissed' if dismissed else 'answer'} {comment_id} -->"


def answered_comment(body: str) -> int:
    """The id of the comment that a comment of ours answers; 0 where it answers none."""
    found = _MARKS.search(body)
    return int(found[2]) if found else 0


def accepted_dismissal(body: str) -> int:
    """The id of the dismissal that a comment of ours accepts; 0 where it accepts none."""
    found = _MARKS.search(body)
    return int(found[2]) if found and found[1] == "dismissed" else 0


MAX_EVENT_BYTES = 8 << 20
"""Bytes of an event file."""

Number = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class EventComment(Struct, frozen=True):
    """The comment as the event has it."""

    id: Number
    body: str | None = None


class EventIssue(Struct, frozen=True):
    """The issue or pull request that was commented on."""

    number: Number
    pull_request: Any = None


class CommentEvent(Struct, frozen=True):
    """The used fields of the event ``issue_comment``."""

    action: str
    comment: EventComment
    issue: EventIssue


def read_comment_event(name: str) -> CommentEvent:
    """Read an event file.

    Raises:
        InputError: it cannot be read, is too large, or is of another event.
    """
    try:
        with Path(name).open("rb") as file:
            data = file.read(MAX_EVENT_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"cannot read the event file {name}: {why}") from None
    if len(data) > MAX_EVENT_BYTES:
        raise InputError(
            f"{name} is larger than {MAX_EVENT_BYTES >> 20} MB, too large for an event"
        )
    try:
        return parse_json(data, CommentEvent)
    except ValueError:
        raise InputError(f"{name} is not an issue_comment event of GitHub") from None
