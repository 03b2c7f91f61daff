"""The parts of a finding: what its reporters say, its guideline, its context and its patch."""

from typing import Annotated, Literal

from msgspec import Meta

from orchestrator.catalog.shared_literals import Severity
from orchestrator.engine.field_types import Strict, UnitFloat

TEMPLATE = "template"
"""The source of a patch that a rule's template made."""

OUTWEIGHED = Meta(
    description="true: two agents and the judge refute it with verified evidence, so it does not "
    "decide; never above medium, of security, or of a rule that states a fact"
)

FixState = Literal["verified", "applies", "refused"]


class Reported(Strict, frozen=True):
    """The report of one reporter of a finding that several reported."""

    by: str
    proved: Annotated[bool, Meta(description="true: reported by an analyzer")]
    severity: Severity
    confidence: UnitFloat
    title: str
    detail: str = ""
    path: Annotated[str, Meta(description="its file; empty: the lines of the finding")] = ""
    start_line: Annotated[int, Meta(ge=0, description="in path; 0: the lines of the finding")] = 0
    reason: Annotated[str, Meta(description="why it confirms or refines the finding")] = ""


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
    doubts: Annotated[bool, Meta(description="true: a doubt of the judge, no dispute")] = False

    @property
    def verb(self) -> str:
        """What the objection does to the finding."""
        return "doubts" if self.doubts else "disputes"


class Remark(Strict, frozen=True):
    """Why the judge confirms a finding, or why its author changed it."""

    by: str
    action: Literal["confirms", "refined"]
    reason: str


class Guideline(Strict, frozen=True):
    """A line of the repository's own guidance in base that a finding says is violated."""

    path: Annotated[str, Meta(description="path of the guidance file")]
    line: Annotated[int, Meta(ge=1)]
    quote: Annotated[str, Meta(description="verbatim text of that line")]


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


class Fix(Strict, frozen=True, kw_only=True):
    """A patch for one finding. Code decides its state, not a model."""

    state: Annotated[
        FixState,
        Meta(
            description="verified: with the patch, the analyzers that reported the finding "
            "no longer report it, and report nothing new; applies: they report nothing "
            "new, but cannot tell whether the finding is gone; refused: do not use it, see "
            "reason"
        ),
    ]
    patch: Annotated[str, Meta(description="a unified diff against head")]
    source: Annotated[str, Meta(description="the analyzer or agent that proposed it, or template")]
    proved_by: Annotated[
        tuple[str, ...], Meta(description="the tools that ran on head with the patch")
    ] = ()
    reason: Annotated[str, Meta(description="why it is refused, or why it is not verified")] = ""
    excludes: Annotated[
        tuple[str, ...], Meta(description="ids of findings whose patch conflicts with this one")
    ] = ()

    @property
    def is_verified(self) -> bool:
        """Whether it is proven that the finding is gone with it."""
        return self.state == "verified"
