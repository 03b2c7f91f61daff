"""What a change's author says of it: title and description, given or taken from the CI's variables.

Both are untrusted text. Agents are shown them to compare with the diff; nothing is decided by them.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from orchestrator.foreign_json import parse_json

MAX_TITLE = 300
MAX_DESCRIPTION = 8_000
"""Characters; what is longer is cut, with a mark."""

MAX_EVENT = 8 << 20
"""Bytes of an event file; a description has at most 256 kB."""

GITHUB_EVENT = "GITHUB_EVENT_PATH"
GITLAB_TITLE = "CI_MERGE_REQUEST_TITLE"
GITLAB_DESCRIPTION = "CI_MERGE_REQUEST_DESCRIPTION"

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class ChangeDescription(Struct, frozen=True):
    """What a change's author says of it.

    Attributes:
        title: one line.
        notes: why the CI's variables could not be used.
    """

    title: str = ""
    text: str = ""
    notes: tuple[str, ...] = ()


class _PullRequest(Struct, frozen=True):
    title: str | None = None
    body: str | None = None


class _Event(Struct, frozen=True):
    pull_request: _PullRequest | None = None


def describe_change(
    title: str | None, text: str | None, environment: Mapping[str, str]
) -> ChangeDescription:
    """The title and description of the change under review.

    Args:
        title, text: as given; None: as the CI's pull or merge request has them.
        environment: the variables of the process.
    """
    found = ChangeDescription()
    if title is None or text is None:
        found = _read_event(environment) or _read_gitlab_variables(environment)
    return ChangeDescription(
        _cut(" ".join(storable(found.title if title is None else title).split()), MAX_TITLE),
        _cut(storable(found.text if text is None else text).strip(), MAX_DESCRIPTION),
        found.notes,
    )


def _read_event(environment: Mapping[str, str]) -> ChangeDescription | None:
    """What GitHub's event file says; None where it is about no pull request.

    A file that cannot be read costs the description only, never the review.
    """
    name = environment.get(GITHUB_EVENT)
    if not name:
        return None
    # Only a CI job has such a file, and every command imports this module.
    from diffchecks.safe_paths import read_safely  # noqa: PLC0415

    path = Path(name)
    try:
        data = read_safely(path.parent, path.name, MAX_EVENT + 1)
    except OSError as error:
        return _unusable(error.strerror or str(error))
    if len(data) > MAX_EVENT:
        return _unusable(f"it is larger than {MAX_EVENT >> 20} MB")
    try:
        event = parse_json(data, _Event)
    except ValueError:
        return _unusable("it is not the JSON of an event")
    if event.pull_request is None:
        return None
    return ChangeDescription(event.pull_request.title or "", event.pull_request.body or "")


def _unusable(why: str) -> ChangeDescription:
    note = f"{GITHUB_EVENT}: {why}, so the change has no title or description"
    return ChangeDescription(notes=(f"{note}; give --title and --description-file",))


def _read_gitlab_variables(environment: Mapping[str, str]) -> ChangeDescription:
    text = environment.get(GITLAB_DESCRIPTION, "")
    if environment.get(f"{GITLAB_DESCRIPTION}_IS_TRUNCATED") == "true":
        text += "\n[cut by GitLab]"
    return ChangeDescription(environment.get(GITLAB_TITLE, ""), text)


def storable(text: str) -> str:
    """A text that every store may keep: without control characters, halves of ones, and secrets."""
    from diffchecks.secrets.live_secrets import redact_live_secrets  # noqa: PLC0415 - slow

    whole = text.replace("\r\n", "\n").encode("utf-8", "replace").decode()
    return redact_live_secrets(_CONTROL.sub("\ufffd", whole))


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} [cut: {len(text)} characters]"
