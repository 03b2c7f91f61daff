"""The parts of a verdict about waivers in base, and about a person's override."""

from typing import Annotated, Literal

from msgspec import Meta

from orchestrator.catalog.shared_literals import Outcome
from orchestrator.engine.field_types import Strict

WaiverState = Literal["used", "expired", "unmatched"]


class WaiverUse(Strict, frozen=True):
    """A waiver that matches a finding, has expired, or matches no file."""

    state: Annotated[WaiverState, Meta(description="unmatched: it applies to no file of head")]
    name: Annotated[str, Meta(description="its rule or fingerprint")]
    paths: tuple[str, ...]
    why: str
    by: Annotated[
        str, Meta(description="the person who accepted the findings; empty: not named")
    ] = ""
    until: Annotated[str, Meta(description="its last day; empty: it does not expire")] = ""
    findings: Annotated[
        tuple[str, ...], Meta(description="ids of the findings that it matches")
    ] = ()


class Override(Strict, frozen=True):
    """A person's decision against the computed outcome, for this head only."""

    verdict: Outcome
    head: Annotated[str, Meta(description="the head commit that it applies to")]
    by: Annotated[str, Meta(description="the operating system's user, and the name that CI gives")]
    at: Annotated[str, Meta(description="ISO 8601, in UTC")]
    reason: str
