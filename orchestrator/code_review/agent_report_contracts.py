"""The schemas of the agents' final reports; an agent file names one as its ``contract``.

A report makes claims, which code checks against the change before they count.
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, convert, field

from orchestrator.catalog.shared_literals import Severity
from orchestrator.code_review.json_schema_generation import inlined
from orchestrator.code_review.verdict.document_parts import Guideline, RuledOut
from orchestrator.code_review.verdict.model import Cause
from orchestrator.engine.field_types import Strict, UnitFloat
from orchestrator.engine.types import Json

F = TypeVar("F", bound=Strict)

Filled = Annotated[str, Meta(min_length=1)]
Line = Annotated[int, Meta(ge=1, le=1_000_000_000_000_000)]


class PlannedTask(Strict, frozen=True):
    """A scope for one specialist."""

    agent: str
    paths: list[str]
    question: Annotated[
        str, Meta(description="what it has to answer, with yes or no and evidence; empty: nothing")
    ] = ""
    priority: Annotated[int, Meta(ge=1, le=9, description="1 is first")] = 5
    why: Annotated[str, Meta(description="the reason for the task")] = ""

    @property
    def asks(self) -> str:
        """The question, or what stands in its place."""
        return self.question or self.why


class PlannedSkip(Strict, frozen=True):
    """A changed file that no specialist reviews, and why."""

    path: str
    why: str


class OpenQuestion(Strict, frozen=True):
    """An open question. A blocking one stops the review until a person answers."""

    question: str
    blocking: bool = False


class ReviewPlan(Strict, frozen=True, kw_only=True):
    """The lead's report."""

    summary: str = ""
    tasks: list[PlannedTask]
    skips: list[PlannedSkip] = field(default_factory=list)
    required_checks: list[str] = field(default_factory=list)
    open_questions: list[OpenQuestion] = field(default_factory=list)


class Citation(Strict, frozen=True):
    """A quotation as evidence. Code looks it up; one that is not found does not count."""

    source: Annotated[
        Literal["file", "diff", "finding", "tool"],
        Meta(
            description="file: a file of head, or of the guidance in base; diff: lines that the "
            "change adds or removes; finding: a finding of this review; tool: a result in this run"
        ),
    ]
    name: Annotated[str, Meta(description="the file's path, the finding's id, or the tool's name")]
    quote: Annotated[str, Meta(description="verbatim text from there")]


class ReportedFinding(Strict, frozen=True):
    """One defect. Give ``fingerprint`` if a tool or an earlier iteration reported it already."""

    path: str
    start_line: Line
    end_line: Line
    quote: Annotated[
        str, Meta(description="verbatim text of these lines; from base if the change removes them")
    ]
    title: Annotated[str, Meta(description="at most 120 characters")]
    severity: Severity
    detail: str = ""
    category: str = ""
    confidence: UnitFloat = 0.5
    rule: str = ""
    cwe: Annotated[list[int], Meta(description="weakness numbers, such as 78")] = field(
        default_factory=list
    )
    fingerprint: Annotated[
        str, Meta(description="of the same finding by a tool, or its id; empty: a new finding")
    ] = ""
    fix_suggestion: str = ""
    patch: Annotated[
        str, Meta(description="a unified diff against head that fixes it; empty: none")
    ] = ""
    because_of: Annotated[
        Cause | None,
        Meta(
            description="required if the change adds none of these lines: the changed line that "
            "makes them a defect"
        ),
    ] = None
    guideline: Annotated[
        Guideline | None,
        Meta(description="the line of the repository's guidance that this violates, if any"),
    ] = None


class FindingResponse(Strict, frozen=True, kw_only=True):
    """A response to an existing finding of a tool or an agent. Code decides its effect.

    confirm: it is a defect; refine: it is a defect, but its wording or severity should change;
    dispute: it is not a defect; duplicate: it is the same defect as ``duplicate_of``; withdraw: it
    is your own, and you no longer hold it.
    """

    finding: Annotated[str, Meta(description="its id, such as F2, or its fingerprint")]
    action: Literal["confirm", "refine", "dispute", "duplicate", "withdraw"]
    reason: str
    evidence: Annotated[
        list[Citation], Meta(description="required to confirm or dispute, else empty")
    ] = field(default_factory=list)
    severity: Annotated[Severity | None, Meta(description="null: unchanged")] = None
    confidence: Annotated[UnitFloat | None, Meta(description="null: unchanged")] = None
    title: Annotated[str, Meta(description="empty: unchanged")] = ""
    detail: Annotated[str, Meta(description="empty: unchanged")] = ""
    fix_suggestion: Annotated[str, Meta(description="empty: unchanged")] = ""
    duplicate_of: Annotated[str, Meta(description="id or fingerprint, for a duplicate")] = ""


class ReportedGap(Strict, frozen=True):
    """Something that could not be reviewed."""

    why: str
    path: str = ""
    tool: str = ""


class SpecialistReport(Strict, frozen=True, kw_only=True):
    """A specialist's report. An empty object is none: what was found and checked must be said."""

    summary: str = ""
    findings: list[ReportedFinding]
    responses: list[FindingResponse] = field(default_factory=list)
    checked: list[str]
    gaps: list[ReportedGap] = field(default_factory=list)
    ruled_out: Annotated[
        list[RuledOut], Meta(description="what you looked into without a finding; at most ten")
    ] = field(default_factory=list)


class JudgedCriterion(Strict, frozen=True, kw_only=True):
    """A score for one criterion; null abstains, and a score without evidence counts as null."""

    id: str
    why: str
    evidence: Annotated[
        list[Citation], Meta(description="at least one for a score; not needed to abstain")
    ] = field(default_factory=list)
    score: UnitFloat | None
    missing: Annotated[
        list[str], Meta(description="evidence that a further iteration must provide")
    ] = field(default_factory=list)


class JudgeReport(Strict, frozen=True):
    """The judge's report."""

    criteria: Annotated[list[JudgedCriterion], Meta(description="each once, in the rubric's order")]


class QuotedCode(Strict, frozen=True):
    """Lines of a file of head, or of base where the change removes them."""

    file: Annotated[str, Meta(description="its path")]
    quote: Annotated[str, Meta(description="verbatim text of at most 20 lines")]


class ClaimVerdict(Strict, frozen=True, kw_only=True):
    """A verdict on one claim. Code looks up its quotations and what connects them."""

    finding: Annotated[str, Meta(description="the claim's id, such as F2")]
    verdict: Literal["confirmed", "refuted", "cannot_tell"]
    reason: Annotated[
        str,
        Meta(
            description="confirmed: what goes wrong along the path; refuted: how the quoted code "
            "stops it; cannot_tell: what is missing"
        ),
    ]
    quotes: Annotated[
        list[QuotedCode],
        Meta(
            description="confirmed: the path from input to harm, with the place of the claim and "
            "one that leads to it; refuted: what stops it; cannot_tell: empty"
        ),
    ] = field(default_factory=list)
    one_place: Annotated[
        str, Meta(description="why a path of one place is enough; empty: it has several")
    ] = ""
    duplicate_of: Annotated[
        str, Meta(description="id of another claim that is the same defect; empty: none")
    ] = ""


class VerifierReport(Strict, frozen=True, kw_only=True):
    """The verifier's report."""

    summary: str = ""
    verdicts: Annotated[list[ClaimVerdict], Meta(description="one for each claim")]


class WrittenPatch(Strict, frozen=True):
    """A patch for one finding."""

    finding: Annotated[str, Meta(description="its id, such as F2, or its fingerprint")]
    patch: Annotated[str, Meta(description="a unified diff against head")]


class FixReport(Strict, frozen=True, kw_only=True):
    """The fixer's report."""

    summary: str = ""
    fixes: list[WrittenPatch]


class WrittenTest(Strict, frozen=True):
    """A test of one claim of a finding, and how head is to fail it."""

    finding: Annotated[str, Meta(description="its id, such as F2, or its fingerprint")]
    claim: Annotated[
        Filled,
        Meta(description="what goes wrong, for which input, in one sentence", max_length=400),
    ]
    path: Annotated[
        Filled, Meta(description="of the new test file, in the repository", max_length=300)
    ]
    test: Annotated[Filled, Meta(description="the whole file, with one test", max_length=8192)]
    exception: Annotated[
        Filled,
        Meta(
            description="the exception with which head fails it, such as AssertionError",
            max_length=100,
        ),
    ]
    value: Annotated[
        Filled,
        Meta(description="text that the failure's message has: the wrong value", max_length=300),
    ]
    oracle: Annotated[
        Literal["base", "same"],
        Meta(
            description="base: base passes the test; same: base lacks the feature, and the test "
            "compares two ways of head that have to agree"
        ),
    ] = "base"


class ProofReport(Strict, frozen=True, kw_only=True):
    """The prover's report."""

    summary: str = ""
    tests: list[WrittenTest]


FORMS: Mapping[str, type[Strict]] = {
    "plan": ReviewPlan,
    "report": SpecialistReport,
    "score": JudgeReport,
    "fixes": FixReport,
    "proofs": ProofReport,
    "verify": VerifierReport,
}


def as_form(form: type[F], report: Json) -> F:
    """A report that kept its contract, in its form."""
    # Not strict: JSON Schema takes 5.0 for a whole number, and models write it.
    return convert(report, form, strict=False)


@cache
def contracts() -> Mapping[str, Mapping[str, Any]]:
    """The contracts by name, as JSON Schemas."""
    return {name: inlined(form) for name, form in FORMS.items()}
