"""The schemas of the agents' final reports; an agent file names one as its ``contract``.

A report makes claims, which code checks against the change before they count. What a model is told
of fields is in ``contracts.yaml``.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, convert, field

from orchestrator.catalog.shared_literals import Ruling, Severity
from orchestrator.code_review.json_schema_generation import inlined
from orchestrator.code_review.verdict.document_parts import Guideline, RuledOut
from orchestrator.code_review.verdict.model import Cause
from orchestrator.data_directories import read_table
from orchestrator.engine.field_types import Strict, UnitFloat
from orchestrator.engine.types import Json

F = TypeVar("F", bound=Strict)

Filled = Annotated[str, Meta(min_length=1)]
Line = Annotated[int, Meta(ge=1, le=1_000_000_000_000_000)]


class PlannedTask(Strict, frozen=True):
    """A scope for one specialist."""

    agent: str
    paths: list[str]
    question: str = ""
    priority: Annotated[int, Meta(ge=1, le=9)] = 5
    why: str = ""

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

    source: Literal["file", "diff", "finding", "tool"]
    name: str
    quote: str


class ReportedFinding(Strict, frozen=True):
    """One defect. Give ``fingerprint`` if a tool or an earlier iteration reported it already."""

    path: str
    start_line: Line
    end_line: Line
    quote: str
    title: str
    severity: Severity
    detail: str = ""
    category: str = ""
    confidence: UnitFloat = 0.5
    rule: str = ""
    cwe: list[int | Annotated[str, Meta(pattern=r"^CWE-\d{1,5}$")]] = field(default_factory=list)
    fingerprint: str = ""
    fix_suggestion: str = ""
    patch: str = ""
    ran: Annotated[list[str], Meta(max_length=3)] = field(default_factory=list)
    older: bool = False
    because_of: Cause | None = None
    guideline: Guideline | None = None


class FindingResponse(Strict, frozen=True, kw_only=True):
    """A response to an existing finding of a tool or an agent. Code decides its effect.

    confirm: it is a defect; refine: it is a defect, but its wording or severity should change;
    dispute: it is not a defect; duplicate: it is the same defect as ``duplicate_of``; withdraw: it
    is your own, and you no longer hold it.
    """

    finding: str
    action: Literal["confirm", "refine", "dispute", "duplicate", "withdraw"]
    reason: str
    evidence: list[Citation] = field(default_factory=list)
    severity: Severity | None = None
    confidence: UnitFloat | None = None
    title: str = ""
    detail: str = ""
    fix_suggestion: str = ""
    duplicate_of: str = ""


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
    ruled_out: list[RuledOut] = field(default_factory=list)


class JudgedCriterion(Strict, frozen=True, kw_only=True):
    """A score for one criterion; null abstains, and a score without evidence counts as null."""

    id: str
    why: str
    evidence: list[Citation] = field(default_factory=list)
    score: UnitFloat | None
    missing: list[str] = field(default_factory=list)


class JudgeReport(Strict, frozen=True):
    """The judge's report."""

    criteria: list[JudgedCriterion]


class QuotedCode(Strict, frozen=True):
    """Lines of a file of head, or of base where the change removes them."""

    file: str
    quote: str


class ClaimVerdict(Strict, frozen=True, kw_only=True):
    """A verdict on one claim. Code looks up its quotations and what connects them."""

    finding: str
    verdict: Ruling
    reason: str
    quotes: list[QuotedCode] = field(default_factory=list)
    one_place: str = ""
    duplicate_of: str = ""


class VerifierReport(Strict, frozen=True, kw_only=True):
    """The verifier's report."""

    summary: str = ""
    verdicts: list[ClaimVerdict]


class WrittenPatch(Strict, frozen=True):
    """A patch for one finding."""

    finding: str
    patch: str


class FixReport(Strict, frozen=True, kw_only=True):
    """The fixer's report."""

    summary: str = ""
    fixes: list[WrittenPatch]


class WrittenTest(Strict, frozen=True):
    """A test of one claim of a finding, and how head is to fail it."""

    finding: str
    claim: Annotated[Filled, Meta(max_length=400)]
    path: Annotated[Filled, Meta(max_length=300)]
    test: Annotated[Filled, Meta(max_length=8192)]
    exception: Annotated[Filled, Meta(max_length=100)]
    value: Annotated[Filled, Meta(max_length=300)]
    oracle: Literal["base", "same"] = "base"
    not_shown: Annotated[str, Meta(max_length=300)] = ""


class ProofReport(Strict, frozen=True, kw_only=True):
    """The prover's report."""

    summary: str = ""
    tests: list[WrittenTest]


FORMS: Mapping[str, type[Strict]] = {
    "plan": ReviewPlan, "report": SpecialistReport, "score": JudgeReport, "fixes": FixReport,
    "proofs": ProofReport, "verify": VerifierReport,
}  # fmt: skip


def as_form(form: type[F], report: Json) -> F:
    """A report that kept its contract, in its form."""
    # Not strict: JSON Schema takes 5.0 for a whole number, and models write it.
    return convert(report, form, strict=False)


@cache
def contracts() -> Mapping[str, Mapping[str, Any]]:
    """The contracts by name, as JSON Schemas."""
    texts = read_table(__file__, "contracts.yaml")
    return {name: inlined(form, texts) for name, form in FORMS.items()}


@cache
def contract_of_one(*, responds: bool) -> Mapping[str, Any]:
    """A report's contract without what only a team needs, which has others' findings."""
    found = deepcopy(contracts()["report"])
    if not responds:
        found["properties"]["responses"] = {"type": "array", "maxItems": 0}
        return found
    response = found["properties"]["responses"]["items"]
    for name in ("confidence", "title", "detail", "fix_suggestion", "duplicate_of"):
        del response["properties"][name]
    response["properties"]["action"]["enum"] = ["confirm", "dispute", "refine"]
    response["description"] = "A response to an analyzer's finding. Code decides its effect."
    return found


def score_contract(levels: Sequence[float]) -> Mapping[str, Any]:
    """The judge's contract with no other scores than these; none: as it is."""
    found = deepcopy(contracts()["score"])
    score = found["properties"]["criteria"]["items"]["properties"]["score"]
    if levels:
        score["anyOf"] = [{"type": "number", "enum": [*levels]}, {"type": "null"}]
    return found
