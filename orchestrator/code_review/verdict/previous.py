"""The previous review of the same change, and the present state of its findings."""

from typing import Annotated, Literal

from msgspec import Meta

from orchestrator.catalog.shared_literals import Severity
from orchestrator.engine.field_types import Strict

SincePrevious = Literal["", "new", "open", "reopened"]
"""The state of a finding; empty if no previous review is known."""


class PreviousFinding(Strict, frozen=True):
    """A finding that was open in the previous review and is not in this one."""

    fingerprint: str
    severity: Severity
    rule: str
    title: str
    path: Annotated[str, Meta(description="path and start_line are those of the previous review")]
    start_line: Annotated[int, Meta(ge=1)]


class PassedReview(Strict, frozen=True):
    """A complete review of the same change, and what its agents read."""

    head: str
    base: str
    policy: Annotated[str, Meta(description="SHA-256 of its provenance's digests")]
    read: Annotated[tuple[str, ...], Meta(description="the changed files that agents read")]


class PreviousReview(Strict, frozen=True, kw_only=True):
    """The earlier review of the same change, at another head, with which this one is compared."""

    run_id: str
    head: Annotated[str, Meta(description="the head that it reviewed")]
    status: Literal["complete", "incomplete"]
    fixed: Annotated[
        tuple[PreviousFinding, ...],
        Meta(description="the cited text is gone, and the file was examined again"),
    ] = ()
    not_reported: Annotated[
        tuple[PreviousFinding, ...],
        Meta(description="the cited text is still there, or the file was not examined"),
    ] = ()
    fixed_before: Annotated[
        tuple[str, ...], Meta(description="fingerprints of findings fixed in any review so far")
    ] = ()
    passed: Annotated[
        PassedReview | None,
        Meta(
            description="this review, or the newest complete one before it: on unchanged "
            "lines that agents read in it, they report only findings at high or above; "
            "null: none"
        ),
    ] = None
    settles_nothing: Annotated[
        str,
        Meta(
            description="why this review settles no lines; empty: it settles the "
            "lines that agents read"
        ),
    ] = ""
