"""The event file of a new comment on GitHub: untrusted, so facts are read from the API."""

from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from orchestrator.errors import InputError
from orchestrator.foreign_json import parse_json

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
