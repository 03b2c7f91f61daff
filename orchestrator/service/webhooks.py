"""Reads webhooks of forges: verifies their origin, and parses pull and merge requests.

Formats as documented by GitHub ("Validating webhook deliveries", event ``pull_request``), GitLab
("Webhook events", Merge Request Hook) and Forgejo ("Webhooks").
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct, field

from orchestrator.errors import InputError
from orchestrator.foreign_json import parse_json
from orchestrator.posting.comment_commands import CommentEvent, is_command
from orchestrator.posting.forge import CHECK_NAME
from orchestrator.service.changes import Push
from orchestrator.service.settings import ForgeSettings

MAX_BYTES = 25 << 20
"""GitHub sends no more."""

_PART = r"(?!\.{1,2}(?:/|$))[\w.-]+"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})+")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SIGNATURE = re.compile(r"[0-9a-f]{64}")
_BRANCH = re.compile(r"(?!-)[^\x00-\x20\x7f~^:?*\[\\]+")
_PORTS = {"http": 80, "https": 443}
_TITLE, _DESCRIPTION = 1000, 60_000
_MAX_LINES = 1_000_000

_REVIEWED = frozenset({"opened", "reopened", "synchronize", "synchronized", "ready_for_review"})
_REVIEWED_GITLAB = frozenset({"open", "reopen"})


class WrittenComment(Struct, frozen=True):
    """A comment that begins like a command; its author is read from the forge later.

    Attributes:
        change: of its request.
        id: of the forge.
    """

    change: str
    id: int
    body: str


class Delivery(Struct, frozen=True):
    """One authentic webhook.

    Attributes:
        id: the forge's id of the delivery, equal for a redelivery.
        push: to be reviewed; may be None.
        closed: the change that needs no review any more; may be empty.
        comment: a command; may be None.
        rerun: repository and head of a check that a person requested again; may be empty.
    """

    id: str
    push: Push | None = None
    closed: str = ""
    comment: WrittenComment | None = None
    rerun: tuple[str, str] = ("", "")


class NotAuthentic(InputError):
    """A webhook has a wrong signature or token."""


class _Commit(Struct, frozen=True):
    sha: str


class _Named(Struct, frozen=True):
    full_name: str


class _Repository(_Named, frozen=True):
    clone_url: str


class _Base(Struct, frozen=True):
    sha: str
    repo: _Repository


class EventPullRequest(Struct, frozen=True):
    """A pull request of GitHub or Forgejo, in an event or a list."""

    number: int
    head: _Commit
    base: _Base
    title: str = ""
    body: str | None = None
    additions: int | None = None
    deletions: int | None = None


class _Installation(Struct, frozen=True):
    id: int


class _PullRequestEvent(Struct, frozen=True):
    """GitHub's and Forgejo's ``pull_request``."""

    action: str
    pull_request: EventPullRequest
    installation: _Installation | None = None
    changes: dict[str, Any] | None = None


class _CommentEvent(CommentEvent, frozen=True):
    """GitHub's ``issue_comment``."""

    repository: _Named


class _CheckRun(Struct, frozen=True):
    name: str
    head_sha: str


class _CheckRunEvent(Struct, frozen=True):
    """GitHub's ``check_run``; only people with write permission can request one again."""

    action: str
    check_run: _CheckRun
    repository: _Named


class _Project(Struct, frozen=True):
    id: int
    path_with_namespace: str
    git_http_url: str


class EventMergeRequest(Struct, frozen=True):
    """A merge request of GitLab, in an event or a list."""

    iid: int
    target_branch: str
    title: str = ""
    description: str | None = None


class _MergeRequest(EventMergeRequest, frozen=True, kw_only=True):
    action: str
    last_commit: Any
    oldrev: str | None = None


class _MergeRequestEvent(Struct, frozen=True):
    """GitLab's Merge Request Hook."""

    project: _Project
    object_attributes: _MergeRequest
    changes: dict[str, Any] = field(default_factory=dict)


def read_delivery(
    name: str, forge: ForgeSettings, headers: Mapping[str, str], body: bytes | bytearray
) -> Delivery:
    """Check a webhook's signature over its raw body, then read it.

    Args:
        name: of the forge in the configuration.
        headers: with names in lower case.

    Raises:
        NotAuthentic: it is not from the forge.
        InputError: it does not have the documented form.
    """
    _authenticate(forge, headers, body)
    event = _header(headers, "x-github-event", "x-forgejo-event", "x-gitea-event", "x-gitlab-event")
    ids = ("x-github-delivery", "x-forgejo-delivery", "x-gitea-delivery", "x-gitlab-event-uuid")
    delivery = _header(headers, *ids)
    if not delivery or len(delivery) > 200:
        raise InputError("the webhook has no delivery id")
    try:
        if event in {"pull_request", "pull_request_sync"}:
            return _checked(forge, _of_pull_request(name, delivery, body))
        if event == "Merge Request Hook":
            return _checked(forge, _of_merge_request(name, delivery, body))
        if event == "issue_comment" and forge.kind == "github":
            return _of_comment(name, delivery, body)
        if event == "check_run":
            return _of_check_run(delivery, body)
    except ValueError as error:
        raise InputError(f"the webhook {event} is not as documented: {error}") from None
    return Delivery(delivery)


def _header(headers: Mapping[str, str], *names: str) -> str:
    return next((headers[name] for name in names if name in headers), "")


def check_headers(forge: ForgeSettings, headers: Mapping[str, str]) -> None:
    """Check what can be checked of a webhook's origin before its body is read.

    Raises:
        NotAuthentic: it has no signature, or not GitLab's token.
    """
    if forge.kind == "gitlab":
        _require_equal(headers.get("x-gitlab-token", ""), forge.webhook_secret.read())
    elif not _SIGNATURE.fullmatch(_signature(headers)):
        raise NotAuthentic("the webhook has no signature; set the secret on both sides")


def _authenticate(
    forge: ForgeSettings, headers: Mapping[str, str], body: bytes | bytearray
) -> None:
    check_headers(forge, headers)
    if forge.kind != "gitlab":
        secret = forge.webhook_secret.read()
        signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        _require_equal(_signature(headers), signature)


def _signature(headers: Mapping[str, str]) -> str:
    given = _header(headers, "x-hub-signature-256", "x-forgejo-signature", "x-gitea-signature")
    return given.removeprefix("sha256=")


def _require_equal(given: str, wanted: str) -> None:
    if not hmac.compare_digest(given.encode(), wanted.encode()):
        raise NotAuthentic("the webhook's signature is wrong; compare the secret on both sides")


def push_of(forge: str, installation: str, request: EventPullRequest) -> Push:
    """The newest push of a pull request, not validated yet."""
    lines = None
    if request.additions is not None and request.deletions is not None:
        lines = min(request.additions + request.deletions, _MAX_LINES)
    return Push(
        forge=forge,
        installation=installation,
        repository=request.base.repo.full_name,
        number=request.number,
        clone_url=request.base.repo.clone_url,
        base=request.base.sha,
        head=request.head.sha,
        title=_text(request.title, _TITLE),
        description=_text(request.body, _DESCRIPTION),
        lines=lines,
    )


def push_of_merge_request(request: EventMergeRequest, **fields: Any) -> Push:
    """The newest push of a merge request, with the other fields of ``Push``; not validated yet."""
    return Push(
        number=request.iid,
        base=f"refs/heads/{request.target_branch}",
        title=_text(request.title, _TITLE),
        description=_text(request.description, _DESCRIPTION),
        **fields,
    )


def _text(given: str | None, most: int) -> str:
    """A person's text, cut to the stored length; PostgreSQL stores no NUL."""
    return (given or "").replace("\0", "\N{REPLACEMENT CHARACTER}")[:most]


def _of_pull_request(name: str, delivery: str, body: bytes | bytearray) -> Delivery:
    event = parse_json(body, _PullRequestEvent)
    installation = str(event.installation.id) if event.installation else ""
    push = push_of(name, installation, event.pull_request)
    if event.action == "closed":
        return Delivery(delivery, closed=push.change)
    moved = event.action == "edited" and (event.changes or {}).get("base")
    return Delivery(delivery, push if event.action in _REVIEWED or moved else None)


def _of_comment(name: str, delivery: str, body: bytes | bytearray) -> Delivery:
    event = parse_json(body, _CommentEvent)
    text = _text(event.comment.body, _DESCRIPTION)
    if event.action != "created" or event.issue.pull_request is None or not is_command(text):
        return Delivery(delivery)
    change = f"{name}:{event.repository.full_name}#{event.issue.number}"
    return Delivery(delivery, comment=WrittenComment(change, event.comment.id, text))


def _of_check_run(delivery: str, body: bytes | bytearray) -> Delivery:
    event = parse_json(body, _CheckRunEvent)
    if event.action != "rerequested" or event.check_run.name != CHECK_NAME:
        return Delivery(delivery)
    return Delivery(delivery, rerun=(event.repository.full_name, event.check_run.head_sha))


def _of_merge_request(name: str, delivery: str, body: bytes | bytearray) -> Delivery:
    event = parse_json(body, _MergeRequestEvent)
    request = event.object_attributes
    head = request.last_commit.get("id") if isinstance(request.last_commit, dict) else None
    push = push_of_merge_request(
        request,
        head=str(head),
        forge=name,
        installation="",
        repository=event.project.path_with_namespace,
        clone_url=event.project.git_http_url,
    )
    if request.action in {"close", "merge"}:
        return Delivery(delivery, closed=push.change)
    moved = request.action == "update" and (request.oldrev or "target_branch" in event.changes)
    return Delivery(delivery, push if request.action in _REVIEWED_GITLAB or moved else None)


def _checked(forge: ForgeSettings, delivery: Delivery) -> Delivery:
    if delivery.push is not None:
        checked_push(forge, delivery.push)
    return delivery


def checked_push(forge: ForgeSettings, push: Push) -> Push:
    """A push whose values are safe for git and for file names.

    The clone address must be on the forge itself, because our token is sent there.

    Raises:
        InputError: a value is invalid.
    """
    branch = push.base.removeprefix("refs/heads/")
    wrong = [
        what
        for what, right in (
            ("repository", _REPOSITORY.fullmatch(push.repository)),
            ("head", _COMMIT.fullmatch(push.head)),
            ("base", _COMMIT.fullmatch(push.base) or (branch != push.base and _is_branch(branch))),
            ("clone address", _is_of(forge, push.clone_url)),
            ("number", 0 < push.number < 2**31),
        )
        if not right
    ]
    if wrong:
        raise InputError(f"the webhook's {wrong[0]} is malformed")
    return push


def _is_of(forge: ForgeSettings, address: str) -> bool:
    """Whether an address is on the forge's origin; our token is sent there, so nothing else is."""
    try:
        (scheme, host, port), given = _origin(urlsplit(forge.url)), urlsplit(address)
        if forge.kind == "github":
            host = host.removeprefix("api.")
        same = _origin(given) == (scheme, host, port)
    except ValueError:
        return False
    return same and "@" not in given.netloc and address.isprintable() and " " not in address


def _origin(address: SplitResult) -> tuple[str, str, int | None]:
    """Scheme, host and port of an address, as RFC 6454 has it.

    Raises:
        ValueError: its port is no number.
    """
    port = _PORTS.get(address.scheme) if address.port is None else address.port
    return address.scheme, address.hostname or "", port


def _is_branch(name: str) -> bool:
    """Whether a name is valid for a branch (git-check-ref-format(1))."""
    unsafe = ("..", "@{", "//", "/.", ".lock/")
    return bool(
        _BRANCH.fullmatch(name)
        and not any(part in name for part in unsafe)
        and not name.startswith((".", "/"))
        and not name.endswith(("/", ".", ".lock"))
    )
