"""What a verdict says of the repository's memory, and what a dismissal needs to know a finding."""

from typing import Annotated, Literal

from msgspec import Meta

from orchestrator.engine.field_types import Strict

MemoryEffect = Literal[
    "dismissed", "reopened", "lowered", "cited", "unnamed", "expired", "unmatched"
]


class FindingContext(Strict, frozen=True):
    """What a finding stands in; a dismissal holds while it is equal."""

    lines: Annotated[
        str, Meta(description="digest of its function, or of the lines around it; 16 hex digits")
    ]
    flow: Annotated[
        str, Meta(description="digest of lines elsewhere that lead to it; empty: there are none")
    ] = ""
    scope: Annotated[str, Meta(description="the first line of its function; empty: none")] = ""
    start_line: Annotated[int, Meta(ge=1)] = 1
    end_line: Annotated[int, Meta(ge=1)] = 1


class MemoryUse(Strict, frozen=True, kw_only=True):
    """An entry of the repository's memory, as of base, and what it did in this review."""

    file: str
    entry: Annotated[str, Meta(description="a fingerprint, a rule, or the text of a line")]
    effect: Annotated[
        MemoryEffect,
        Meta(
            description="dismissed: findings are waived; reopened: what it dismissed has changed, "
            "so the finding is open; lowered: findings weigh less; cited: findings rest on the "
            "line; unnamed: they are critical, which takes a person's name; expired: its last day "
            "is over; unmatched: head has no such file"
        ),
    ]
    why: str = ""
    by: Annotated[str, Meta(description="who dismissed it or wants it")] = ""
    until: Annotated[str, Meta(description="its last day; empty: it does not expire")] = ""
    findings: Annotated[tuple[str, ...], Meta(description="ids of those it is about")] = ()
