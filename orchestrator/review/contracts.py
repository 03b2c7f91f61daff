"""The forms of the agents' final reports; an agent file names one as its ``contract``.

What a report says is a claim. Code holds it against the change before it counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.review.verdict import Severity


class Form(BaseModel):
    """Base of all forms: closed, so that nothing slips in under a name we do not read."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class PlannedTask(Form):
    """A scope for one specialist."""

    agent: str
    paths: list[str]
    why: str = ""


class PlannedSkip(Form):
    """A changed file that no specialist is given, and why."""

    path: str
    why: str


class Question(Form):
    """What the change leaves open. A blocking one stops the review until a person answers."""

    question: str
    blocking: bool = False


class Plan(Form):
    """The lead's report."""

    summary: str = ""
    tasks: list[PlannedTask]
    skips: list[PlannedSkip] = Field(default_factory=list)
    required_checks: list[str] = Field(default_factory=list)
    open_questions: list[Question] = Field(default_factory=list)


class Citation(Form):
    """Where it can be seen. Code looks the quotation up; what does not stand there counts not."""

    source: Literal["file", "diff", "finding", "tool"] = Field(
        description="a file of head; the lines that the change adds or removes in a file; a "
        "finding of this review; what a tool answered in this run"
    )
    name: str = Field(description="the file's path, the finding's id, or the tool's name")
    quote: str = Field(description="text that stands there, letter for letter")


class Link(Form):
    """A line of the change that makes something a defect elsewhere."""

    path: str
    line: int = Field(ge=1)
    removed: bool = Field(default=False, description="the line is one of base that is taken away")


class ReportedFinding(Form):
    """One defect as a specialist reports it. ``fingerprint`` names one that a tool proved."""

    path: str
    start_line: int = Field(ge=1)
    end_line: int = Field(ge=1)
    quote: str = Field(description="text that stands at these lines of head, letter for letter")
    title: str
    severity: Severity
    detail: str = ""
    category: str = ""
    confidence: float = Field(default=0.5, ge=0, le=1)
    rule: str = ""
    cwe: list[int] = Field(default_factory=list, description="weakness numbers, such as 78")
    fingerprint: str = Field(default="", description="of the tool's finding, where it is one")
    fix_suggestion: str = ""
    because_of: Link | None = Field(
        default=None,
        description="needed where the change adds none of these lines: the changed line that "
        "makes them a defect",
    )


class ReportedObjection(Form):
    """An argument that a finding is no defect. It is kept beside the finding; code decides whether
    it sets the finding aside."""

    fingerprint: str = Field(description="of the finding")
    reason: str
    evidence: list[Citation] = Field(min_length=1)


class ReportedGap(Form):
    """What could not be looked at."""

    why: str
    path: str = ""
    tool: str = ""


class SpecialistReport(Form):
    """A specialist's report."""

    summary: str = ""
    findings: list[ReportedFinding] = Field(default_factory=list)
    objections: list[ReportedObjection] = Field(default_factory=list)
    checked: list[str] = Field(default_factory=list)
    gaps: list[ReportedGap] = Field(default_factory=list)


class JudgedCriterion(Form):
    """A judge's score for one criterion; null abstains, and so does one without evidence."""

    id: str
    why: str
    evidence: list[Citation] = Field(
        default_factory=list, description="at least one for a score; none is needed to abstain"
    )
    score: float | None = Field(ge=0, le=1)
    missing: list[str] = Field(
        default_factory=list, description="evidence that a further iteration must get"
    )


class JudgeReport(Form):
    """The judge's report."""

    criteria: list[JudgedCriterion] = Field(description="each once, in the order of the rubric")


FORMS: Mapping[str, type[Form]] = {
    "plan": Plan,
    "report": SpecialistReport,
    "score": JudgeReport,
}


def inlined(form: type[Form]) -> dict[str, Any]:
    """A form's JSON Schema without ``$ref``, as every provider takes it."""
    schema = form.model_json_schema()
    parts = schema.pop("$defs", {})

    def resolve(node: Any) -> Any:
        if isinstance(node, dict) and "$ref" in node:
            return resolve(parts[node["$ref"].rsplit("/", 1)[1]])
        if isinstance(node, dict):
            # pydantic labels every node; a label is a string, a property named "title" is a map.
            labels = {key for key in ("title",) if isinstance(node.get(key), str)}
            return {key: resolve(value) for key, value in node.items() if key not in labels}
        return [resolve(item) for item in node] if isinstance(node, list) else node

    return dict(resolve(schema))


def contracts() -> dict[str, dict[str, Any]]:
    """The contracts by name, as JSON Schemas."""
    return {name: inlined(form) for name, form in FORMS.items()}
