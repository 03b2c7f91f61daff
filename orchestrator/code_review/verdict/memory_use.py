"""The parts of a verdict about the repository's memory, and the context of findings."""

from typing import Annotated, Literal

from msgspec import Meta

from orchestrator.engine.field_types import Strict

MemoryEffect = Literal[
    "dismissed", "reopened", "lowered", "cited", "unnamed", "expired", "unmatched"
]


class FindingContext(Strict, frozen=True):
    """The code around a finding; a dismissal applies as long as it is unchanged."""

    lines: Annotated[
        str, Meta(description="digest of its function, or of the surrounding lines; 16 hex digits")
    ]
    flow: Annotated[
        str, Meta(description="digest of lines elsewhere that lead to it; empty: none")
    ] = ""
    scope: Annotated[str, Meta(description="the first line of its function; empty: none")] = ""
    start_line: Annotated[int, Meta(ge=1)] = 1
    end_line: Annotated[int, Meta(ge=1)] = 1


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
