"""The verdict: the document that a CI job gates on and that people read.

These models are the published JSON Schema (``diffcourt schema verdict``). What their fields mean is
in ``descriptions.yaml``.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from diffchecks.check_io import FlowStep
from diffchecks.path_kinds import is_test
from orchestrator.catalog.shared_literals import (
    OFFLINE,
    SEVERITIES,
    SUPPORTS,
    Outcome,
    Severity,
    Support,
)
from orchestrator.code_review.json_schema_generation import published_schema
from orchestrator.code_review.verdict.document_parts import (
    AgentReport,
    Assignment,
    Checked,
    DepthCounts,
    Escalation,
    FindingContext,
    Fix,
    GuardRuling,
    GuidanceFile,
    Guideline,
    HumanQuestion,
    MemoryUse,
    Objection,
    Override,
    PendingApproval,
    PreviousReview,
    Proof,
    Remark,
    Reported,
    SincePrevious,
    SnippetRun,
    VerdictIteration,
    WaiverUse,
)
from orchestrator.engine.field_types import Strict, UnitFloat
from orchestrator.errors import EXIT_OK


class RunUsage(Strict, frozen=True):
    """What the run used."""

    iterations: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0
    uncertain_usd: float = 0.0
    uncertain_tokens: int = 0
    saved_usd: float = 0.0
    seconds: float = 0.0
    limits: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


SCHEMA_VERSION: Literal["1.0"] = "1.0"

OPEN_QUESTION = "open question: "
"""The prefix of entries of ``stop.uncertain`` that are questions to the change's author."""

_UNTESTED = re.compile(r"(?i)\bno (?:\w+ )?tests?\b|\b(?:un|not )(?:tested|covered)\b")

StopReason = Literal["done", "budget", "stagnation", "human", "cancelled"]


class ChangeRef(Strict, frozen=True):
    """What was reviewed."""

    base: str
    head: str
    files: Annotated[int, Meta(ge=0)]
    added_lines: Annotated[int, Meta(ge=0)]
    removed_lines: Annotated[int, Meta(ge=0)]
    notes: tuple[str, ...] = ()


class Evidence(Strict, frozen=True):
    """The evidence for a finding."""

    quote: str
    tool_calls: tuple[str, ...]
    side: Literal["head", "base"] = "head"


class Cause(Strict, frozen=True):
    """The line of the change that makes something a defect elsewhere."""

    path: str
    line: Annotated[int, Meta(ge=1)]
    removed: bool = False


class Finding(Strict, frozen=True, kw_only=True):
    """A defect that the change introduces."""

    id: str
    fingerprint: str
    severity: Severity
    confidence: UnitFloat
    title: str
    detail: str
    category: str
    rule: str
    cwe: tuple[int, ...] = ()
    path: str
    start_line: Annotated[int, Meta(ge=1)]
    end_line: Annotated[int, Meta(ge=1)]
    start_column: Annotated[int, Meta(ge=1)] | None = None
    evidence: Evidence
    fix_suggestion: str = ""
    fix: Fix | None = None
    reported_by: tuple[str, ...]
    state: Literal["open", "waived", "rejected"] = "open"
    waiver: str = ""
    lowered_from: Severity | None = None
    context: FindingContext | None = None
    because_of: Cause | None = None
    cause_quote: str = ""
    guideline: Guideline | None = None
    steps: tuple[FlowStep, ...] = ()
    reports: tuple[Reported, ...] = ()
    proofs: tuple[Proof, ...] = ()
    runs: tuple[SnippetRun, ...] = ()
    objections: tuple[Objection, ...] = ()
    remarks: tuple[Remark, ...] = ()
    support: Support = "proven"
    outcome: Outcome = "merge"
    confirmed_by: tuple[str, ...] = ()
    carried_over: bool = False
    since_previous: SincePrevious = ""
    first_fingerprint: str = ""

    @property
    def counted_as(self) -> str:
        """What it is counted under: its rule, or its title where an agent named none."""
        return self.title if self.rule.endswith(".reported") else self.rule

    @property
    def support_told(self) -> str:
        """Its support as every output tells it: a test may show a part of the claim only."""
        if self.support == "claimed" and any(one.action == "limits" for one in self.remarks):
            return "limited by the verifier"
        in_part = self.support == "proven" and any(proof.shows_a_part for proof in self.proofs)
        return "proven in part" if in_part else self.support

    @property
    def is_tested(self) -> bool:
        """Whether a test that a model wrote shows it."""
        return any(proof.is_reproduced for proof in self.proofs)

    @property
    def identity(self) -> str:
        """Equal for the same finding in all reviews of one change."""
        return self.first_fingerprint or self.fingerprint

    @property
    def rank(self) -> tuple[bool, int, int, bool, float]:
        """Sorts the most severe first, then the best supported, refuted ones last.

        Among these what is said of tests comes after what code does, and the surest come first.
        """
        order = SEVERITIES.index(self.severity), SUPPORTS.index(self.support)
        of_tests = is_test(self.path) or _UNTESTED.search(self.title) is not None
        sure = self.support == "proven" or self.confidence
        return self.support == "refuted", *order, of_tests, -sure


class SeverityCounts(Strict, frozen=True):
    """The number of open findings by severity, without refuted ones."""

    critical: int = 0
    high: int = 0
    medium: int = 0
    low: int = 0
    info: int = 0


class Rejected(Strict, frozen=True):
    """A finding that does not count, and why."""

    finding: Finding
    reason: str
    cause: Literal[
        "", "unverified", "outside", "older", "constant", "argued", "withdrawn", "settled", "fixed"
    ] = ""
    argued_by: tuple[str, ...] = ()


class CallRef(Strict, frozen=True):
    """A tool call that other parts of the verdict refer to."""

    id: str
    key: str


class Skipped(Strict, frozen=True, kw_only=True):
    """A changed file, or a part of its review, that was skipped."""

    path: str
    why: str
    tool: str = ""
    gap: bool


class RequiredCheck(Strict, frozen=True):
    """A check that must run for the verdict to be complete."""

    name: str
    status: Literal["ran", "passed_by_own_tests", "failed", "not_run", "not_applicable"]
    detail: str = ""

    @property
    def has_passed(self) -> bool:
        """Whether it ran to completion on everything that it applies to."""
        return self.status in {"ran", "passed_by_own_tests"}

    @property
    def is_satisfied(self) -> bool:
        """Whether it leaves the review complete."""
        return self.has_passed or self.status == "not_applicable"


class CriterionScore(Strict, frozen=True):
    """The score for one criterion of the rubric."""

    id: str
    kind: Literal["measured", "judged"]
    weight: float
    score: UnitFloat | None
    why: str
    missing: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


class ReviewScore(Strict, frozen=True):
    """The judge's score of the review (not of the change)."""

    total: UnitFloat | None
    threshold: UnitFloat
    criteria: tuple[CriterionScore, ...]


class VerdictStop(Strict, frozen=True, kw_only=True):
    """Why the run ended."""

    reason: StopReason
    detail: str
    uncertain: tuple[str, ...] = ()
    next_human_action: str


class Artifact(Strict, frozen=True):
    """A file that the run wrote: output of programs that a tool call ran, or a verified patch."""

    name: str
    path: str
    sha256: str
    bytes: Annotated[int, Meta(ge=0)]
    tool_call: str
    exit_statuses: tuple[tuple[str, int | None], ...] = ()


class Provenance(Strict, frozen=True, kw_only=True):
    """What the verdict depends on: with the same provenance, it is the same."""

    version: str
    provider: str
    models: tuple[str, ...] = ()
    policy_commit: str | None = None
    digests: dict[str, str]
    analyzers: dict[str, str]
    carried_over: str = ""
    journal_head: str = ""
    journal_length: int = 0


class Verdict(Strict, frozen=True, kw_only=True):
    """The verdict document, schema version 1."""

    schema_version: Literal["1.0"] = SCHEMA_VERSION
    run_id: str
    change: ChangeRef
    verdict: Outcome
    status: Literal["complete", "incomplete"]
    fail_on: Literal["needs_changes", "block"] = "needs_changes"
    exit_code: Literal[0, 1, 3] = EXIT_OK
    confidence: UnitFloat | None
    reasons: tuple[str, ...]
    stop: VerdictStop
    score: ReviewScore
    counts: SeverityCounts = field(default_factory=SeverityCounts)
    findings: tuple[Finding, ...]
    rejected: tuple[Rejected, ...]
    calls: tuple[CallRef, ...] = ()
    checked: tuple[Checked, ...]
    depth: DepthCounts = field(default_factory=DepthCounts)
    skipped: tuple[Skipped, ...]
    required_checks: tuple[RequiredCheck, ...]
    next_actions: tuple[str, ...]
    agents: tuple[AgentReport, ...]
    assignment: Assignment | None = None
    escalations: tuple[Escalation, ...] = ()
    questions: tuple[HumanQuestion, ...] = ()
    approvals: tuple[PendingApproval, ...] = ()
    iterations: tuple[VerdictIteration, ...]
    guards: tuple[GuardRuling, ...] = ()
    usage: RunUsage
    previous: PreviousReview | None = None
    waivers: tuple[WaiverUse, ...] = ()
    memory: tuple[MemoryUse, ...] = ()
    override: Override | None = None
    artifacts: tuple[Artifact, ...] = ()
    guidance: tuple[GuidanceFile, ...] = ()
    provenance: Provenance
    summary: str = ""
    lead_summary: str = ""
    digest: str = ""

    @property
    def used_model(self) -> bool:
        """Whether a model took part in the review."""
        return self.provenance.provider != OFFLINE

    @property
    def is_read(self) -> bool:
        """Whether an agent with a model finished its part."""
        return self.used_model and any(one.status == "ok" for one in self.agents)


def severity_counts(findings: Iterable[Finding]) -> dict[Severity, int]:
    """The number of open findings by severity, the most severe first, without refuted ones."""
    counts = dict.fromkeys(SEVERITIES, 0)
    for finding in findings:
        counts[finding.severity] += finding.state == "open" and finding.support != "refuted"
    return counts


def name_counts(findings: Iterable[Finding]) -> str:
    """``1 critical, 3 low, 1 refuted``, of open findings; empty for none."""
    found = list(findings)
    refuted = sum(one.support == "refuted" and one.state == "open" for one in found)
    counts = (*severity_counts(found).items(), ("refuted", refuted))
    return ", ".join(f"{n:,} {name}" for name, n in counts if n)


def json_schema() -> dict[str, Any]:
    """The published JSON Schema of the verdict (draft 2020-12)."""
    descriptions = Path(__file__).with_name("descriptions.yaml")
    return published_schema(Verdict, "urn:diffcourt:verdict:1", descriptions)
