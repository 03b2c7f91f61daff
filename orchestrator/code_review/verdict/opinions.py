"""What each reporter says about a finding: reports, and objections to it."""

from typing import Annotated

from msgspec import Meta

from orchestrator.catalog.shared_literals import Severity
from orchestrator.engine.field_types import Strict, UnitFloat


class Reported(Strict, frozen=True):
    """The report of one reporter of a finding that several reported."""

    by: str
    proved: Annotated[bool, Meta(description="true: reported by an analyzer")]
    severity: Severity
    confidence: UnitFloat
    title: str
    detail: str = ""


class Objection(Strict, frozen=True):
    """An argument by an agent or the judge that a finding is not a defect."""

    by: str
    reason: str
    evidence: Annotated[tuple[str, ...], Meta(description="quotations with their sources")]
    why_not: Annotated[
        str, Meta(description="why the finding still counts; empty: the finding is set aside")
    ]
    refutes: Annotated[
        bool,
        Meta(
            description="true: its evidence was verified, so a finding that only agents "
            "report cannot block; false: a doubt, or its evidence is invalid"
        ),
    ] = False
    earlier: Annotated[
        bool, Meta(description="true: raised in an earlier review of this change")
    ] = False
