"""What became of the findings of the previous review of the same change."""

from typing import Annotated, Literal

from msgspec import Meta

from orchestrator.catalog.shared_literals import Severity
from orchestrator.engine.field_types import Strict

SincePrevious = Literal["", "new", "open", "reopened"]
"""Of a finding: empty where no previous review is known."""


class PreviousFinding(Strict, frozen=True):
    """A finding that was open in the previous review and is none of this one's."""

    fingerprint: str
    severity: Severity
    rule: str
    title: str
    path: Annotated[str, Meta(description="path and line as they were then")]
    start_line: Annotated[int, Meta(ge=1)]


class PassedReview(Strict, frozen=True):
    """A complete review of the same change, and what its agents read."""

    head: str
    base: str
    policy: Annotated[str, Meta(description="SHA-256 of its provenance's digests")]
    read: Annotated[tuple[str, ...], Meta(description="the changed files that agents read")]


class PreviousReview(Strict, frozen=True, kw_only=True):
    """The review that this one is compared with: of the same change, with another head."""

    run_id: str
    head: Annotated[str, Meta(description="the head that it reviewed")]
    status: Literal["complete", "incomplete"]
    fixed: Annotated[
        tuple[PreviousFinding, ...],
        Meta(description="what it cited is gone, and its file was examined again"),
    ] = ()
    not_reported: Annotated[
        tuple[PreviousFinding, ...],
        Meta(description="what it cited is still there, or its file was not examined"),
    ] = ()
    fixed_before: Annotated[
        tuple[str, ...], Meta(description="fingerprints of findings fixed in any review so far")
    ] = ()
    passed: Annotated[
        PassedReview | None,
        Meta(
            description="this review, or the newest complete one before it: agents raise nothing "
            "below high on lines that they read in it and that are unchanged; null: there is none"
        ),
    ] = None
    settles_nothing: Annotated[
        str, Meta(description="why nothing is settled by it; empty: what agents read is")
    ] = ""
