"""What a verdict says of the waivers in base, and of a person who overrides it."""

from typing import Annotated, Literal

from msgspec import Meta

from orchestrator.catalog.shared_literals import Outcome
from orchestrator.engine.field_types import Strict

WaiverState = Literal["used", "expired", "unmatched"]


class WaiverUse(Strict, frozen=True):
    """A waiver that matches a finding, has expired, or can apply to nothing."""

    state: Annotated[
        WaiverState, Meta(description="unmatched: no file of head has a path that it applies to")
    ]
    name: Annotated[str, Meta(description="its rule or fingerprint")]
    paths: tuple[str, ...]
    why: str
    by: Annotated[str, Meta(description="the person who accepts it; empty: not named")] = ""
    until: Annotated[str, Meta(description="its last day; empty: it does not expire")] = ""
    findings: Annotated[tuple[str, ...], Meta(description="ids of those it matches")] = ()


class Override(Strict, frozen=True):
    """A person's decision against the computed outcome, for this head only."""

    verdict: Outcome
    head: Annotated[str, Meta(description="the head commit that it is for")]
    by: Annotated[str, Meta(description="the operating system's user, and what CI calls them")]
    at: Annotated[str, Meta(description="ISO 8601, in UTC")]
    reason: str
