"""What single reporters say of one defect: their reports, and arguments that it is none."""

from typing import Annotated

from msgspec import Meta

from orchestrator.catalog.shared_literals import Severity
from orchestrator.engine.field_types import Strict, UnitFloat


class Reported(Strict, frozen=True):
    """One reporter's word on a defect that several reported."""

    by: str
    proved: Annotated[bool, Meta(description="it is an analyzer's")]
    severity: Severity
    confidence: UnitFloat
    title: str
    detail: str = ""


class Objection(Strict, frozen=True):
    """An argument of an agent or the judge that a finding is no defect."""

    by: str
    reason: str
    evidence: Annotated[tuple[str, ...], Meta(description="what it quotes, and from where")]
    why_not: Annotated[
        str, Meta(description="why it does not set the finding aside; empty: it does")
    ]
    refutes: Annotated[
        bool,
        Meta(
            description="true: its evidence stands, so no finding of agents alone blocks against "
            "it; false: a doubt, or its evidence does not stand"
        ),
    ] = False
    earlier: Annotated[
        bool, Meta(description="true: it was raised in an earlier review of this change")
    ] = False
