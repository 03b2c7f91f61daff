"""The parts of a verdict about base's waivers, memory and guidance, and a person's override."""

from typing import Annotated, Literal

from msgspec import Meta

from orchestrator.catalog.shared_literals import Outcome
from orchestrator.engine.field_types import Strict

WaiverState = Literal["used", "expired", "unmatched"]
MemoryEffect = Literal[
    "dismissed", "reopened", "lowered", "cited", "unnamed", "expired", "unmatched"
]


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


class MemoryUse(Strict, frozen=True, kw_only=True):
    """An entry of the repository's memory in base, and its effect on this review."""

    file: str
    entry: Annotated[str, Meta(description="a fingerprint, a rule, or the text of a line")]
    effect: Annotated[
        MemoryEffect,
        Meta(
            description="dismissed: findings are waived; reopened: the dismissed code has "
            "changed, so the finding is open; lowered: findings have less weight; cited: "
            "findings cite the line; unnamed: the findings are critical, which needs a "
            "person's name; expired: its last day has passed; unmatched: head has no such "
            "file"
        ),
    ]
    why: str = ""
    by: Annotated[str, Meta(description="the person who dismissed it or added the entry")] = ""
    until: Annotated[str, Meta(description="its last day; empty: it does not expire")] = ""
    findings: Annotated[
        tuple[str, ...], Meta(description="ids of the findings that it applies to")
    ] = ()


class GuidanceFile(Strict, frozen=True):
    """A guidance file of the repository in base that agents were shown as data."""

    path: str
    applies_to: Annotated[str, Meta(description="globs or a directory; empty: the whole change")]
    lines: Annotated[int, Meta(ge=0)]
    shown: Annotated[int, Meta(ge=0, description="number of lines that agents were shown")]
    sha256: str
    why_not: Annotated[str, Meta(description="why some or all lines were not shown")] = ""


class Override(Strict, frozen=True):
    """A person's decision against the computed outcome, for this head only."""

    verdict: Outcome
    head: Annotated[str, Meta(description="the head commit that it applies to")]
    by: Annotated[str, Meta(description="the operating system's user, and the name that CI gives")]
    at: Annotated[str, Meta(description="ISO 8601, in UTC")]
    reason: str
