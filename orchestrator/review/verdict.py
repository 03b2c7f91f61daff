"""The verdict: the document a CI job gates on and a person argues with.

These models are the published JSON Schema (``diffcourt schema verdict``).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from orchestrator.review.verdict_account import Doc, Escalation, GuardRuling, HumanQuestion, Usage

SCHEMA_VERSION: Literal["1.0"] = "1.0"

Severity = Literal["critical", "high", "medium", "low", "info"]
Outcome = Literal["merge", "needs_changes", "block"]
StopReason = Literal["done", "budget", "stagnation", "human"]
SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low", "info")
OUTCOMES: tuple[Outcome, ...] = ("merge", "needs_changes", "block")

Unit = Annotated[float, Field(ge=0, le=1)]


class ChangeRef(Doc):
    """What was reviewed."""

    base: str
    head: str
    files: int = Field(ge=0, description="number of changed files")
    added_lines: int = Field(ge=0)
    removed_lines: int = Field(ge=0)
    notes: tuple[str, ...] = ()


class Evidence(Doc):
    """Why a finding is believed."""

    quote: str = Field(description="the text at the cited lines of head, secrets redacted")
    tool_calls: tuple[str, ...] = Field(description="ids of the calls that showed it")


class Reported(Doc):
    """One reporter's word on a defect that several reported."""

    by: str
    proved: bool = Field(description="it is an analyser's")
    severity: Severity
    confidence: Unit
    title: str
    detail: str = ""


class Objection(Doc):
    """An agent's argument that a finding is no defect."""

    by: str
    reason: str
    evidence: tuple[str, ...] = Field(description="what it quotes, and from where")
    why_not: str = Field(description="why it does not set the finding aside; empty: it does")


class Cause(Doc):
    """The line of the change that makes something a defect elsewhere."""

    path: str
    line: int = Field(ge=1)
    removed: bool = Field(default=False, description="the line is one of base that is taken away")


class Finding(Doc):
    """One defect that the change brings in."""

    id: str = Field(description="F1, F2, ... in the order of the report")
    fingerprint: str = Field(description="stable across runs and line moves")
    severity: Severity
    confidence: Unit
    title: str
    detail: str
    category: str = Field(description="security, qa, docs or architecture")
    rule: str
    cwe: tuple[int, ...] = ()
    path: str
    start_line: int = Field(ge=1)
    end_line: int = Field(ge=1)
    evidence: Evidence
    fix_suggestion: str = ""
    reported_by: tuple[str, ...] = Field(description="tools and agents that reported it")
    state: Literal["open", "waived", "rejected"] = "open"
    waiver: str = Field(default="", description="why a person accepted it, or that this has ended")
    because_of: Cause | None = Field(
        default=None, description="for a finding outside the lines that the change adds"
    )
    reports: tuple[Reported, ...] = Field(
        default=(), description="what each reporter said, where there are several"
    )
    objections: tuple[Objection, ...] = ()

    @property
    def contested(self) -> bool:
        """Whether an agent contradicts another reporter: on its severity, or on its being one.

        What two analysers' rules say of the same line is no dispute.
        """
        reasoned = any(not said.proved for said in self.reports)
        severities = {said.severity for said in self.reports}
        return bool(self.objections) or (reasoned and len(severities) > 1)


class Rejected(Doc):
    """A finding that does not count, and why: marked, not dropped."""

    finding: Finding
    reason: str
    cause: Literal["", "unverified", "outside", "constant", "argued"] = Field(
        default="",
        description="unverified: its quote or place does not hold; outside: the change has no part "
        "in it; constant: nothing but constants gets there; argued: agents showed that it is none",
    )
    argued_by: tuple[str, ...] = ()


class Checked(Doc):
    """A changed file and what looked at it."""

    path: str
    by: tuple[str, ...]
    tool_calls: tuple[str, ...]


class Skipped(Doc):
    """A changed file, or a part of its review, that did not happen."""

    path: str
    why: str
    tool: str = Field(default="", description="the tool that could not look; empty: none did")
    gap: bool = Field(
        description="true: this makes the review incomplete; false: left out by policy"
    )


class RequiredCheck(Doc):
    """A check that must have run for the verdict to be complete."""

    name: str
    status: Literal["passed", "failed", "not_run", "not_applicable"]
    detail: str = ""


class CriterionScore(Doc):
    """One line of the rubric."""

    id: str
    kind: Literal["measured", "judged"]
    weight: float
    score: Unit | None = Field(description="null: not scored")
    why: str
    missing: tuple[str, ...] = Field(
        default=(), description="evidence a further iteration must get"
    )
    evidence: tuple[str, ...] = Field(
        default=(), description="what a judge's score rests on, each looked up"
    )


class Score(Doc):
    """The judge's score of the review (not of the change)."""

    total: Unit | None
    threshold: Unit
    criteria: tuple[CriterionScore, ...]


class Stop(Doc):
    """Why the run ended."""

    reason: StopReason
    detail: str
    uncertain: tuple[str, ...] = ()
    next_human_action: str


class AgentReport(Doc):
    """One agent's own report in the same terms."""

    agent: str
    iteration: int = Field(ge=1)
    status: Literal["ok", "failed", "timeout", "budget", "skipped", "waiting"]
    summary: str = ""
    findings: tuple[str, ...] = Field(default=(), description="ids of the findings it reported")
    checked: int = Field(default=0, ge=0, description="files it looked at")
    gaps: tuple[str, ...] = ()
    turns: int = Field(default=0, ge=0)
    tool_calls: int = Field(default=0, ge=0)


class Iteration(Doc):
    """One round of Plan to Evaluate."""

    number: int = Field(ge=1)
    score: Unit | None
    new_findings: int
    new_evidence: int
    gaps: int
    decision: str


class Artifact(Doc):
    """A file the run left behind."""

    name: str
    path: str


class Provenance(Doc):
    """What decided: with these equal, the verdict is equal."""

    version: str
    provider: str
    models: tuple[str, ...] = ()
    policy_commit: str | None = None
    digests: dict[str, str] = Field(description="agents, skills, rubric, config, by name")
    analysers: dict[str, str] = Field(description="tool → version")
    journal_head: str = ""
    journal_length: int = 0


class Verdict(Doc):
    """The verdict document, schema version 1."""

    schema_version: Literal["1.0"] = SCHEMA_VERSION
    run_id: str
    change: ChangeRef
    verdict: Outcome
    status: Literal["complete", "incomplete"]
    fail_on: Literal["needs_changes", "block"] = Field(
        default="needs_changes", description="the outcome at which the base wants a gate to fail"
    )
    confidence: Unit
    reasons: tuple[str, ...] = Field(description="the rules of the verdict policy that decided")
    stop: Stop
    score: Score
    findings: tuple[Finding, ...]
    rejected: tuple[Rejected, ...]
    checked: tuple[Checked, ...]
    skipped: tuple[Skipped, ...]
    required_checks: tuple[RequiredCheck, ...]
    next_actions: tuple[str, ...]
    agents: tuple[AgentReport, ...]
    escalations: tuple[Escalation, ...] = ()
    questions: tuple[HumanQuestion, ...] = ()
    iterations: tuple[Iteration, ...]
    guards: tuple[GuardRuling, ...] = Field(
        default=(), description="what the guards ruled; none of it decides the outcome"
    )
    usage: Usage
    artifacts: tuple[Artifact, ...] = ()
    provenance: Provenance
    summary: str = Field(default="", description="counted: files, findings, gaps")
    lead_summary: str = Field(
        default="", description="what the lead says the review came to; it decides nothing"
    )
    digest: str = Field(
        default="", description="SHA-256 of the canonical document, volatile fields left out"
    )


def json_schema() -> dict[str, Any]:
    """The published JSON Schema of the verdict (draft 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Verdict.model_json_schema(mode="serialization"),
    }
