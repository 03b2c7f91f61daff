"""The verdict: the document that a CI job gates on and that people read.

These models are the published JSON Schema (``diffcourt schema verdict``).
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from diffchecks.check_io import FlowStep
from orchestrator.catalog.shared_literals import (
    OFFLINE,
    SEVERITIES,
    SUPPORTS,
    Outcome,
    Severity,
    Support,
)
from orchestrator.code_review.json_schema_generation import schema_of
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
    usd: Annotated[float, Meta(description="upper bound of what the run has cost")] = 0.0
    uncertain_usd: Annotated[
        float,
        Meta(description="the part of usd from calls without a reply, counted at their maximum"),
    ] = 0.0
    uncertain_tokens: Annotated[
        int, Meta(description="tokens of calls without a reply, on top of input and output")
    ] = 0
    saved_usd: Annotated[
        float, Meta(description="what cached tokens saved, minus the cost of writing them")
    ] = 0.0
    seconds: float = 0.0
    limits: dict[str, float] = field(default_factory=dict)
    notes: Annotated[
        tuple[str, ...],
        Meta(description="what could not be counted, such as the cost of a model without a price"),
    ] = ()


SCHEMA_VERSION: Literal["1.0"] = "1.0"

OPEN_QUESTION = "open question: "
"""The prefix of entries of ``stop.uncertain`` that are questions to the change's author."""
LIMIT_RAISED = "; a person has raised a limit"
"""How the decision of an iteration ends that a limit cut short, and that was continued."""

StopReason = Literal["done", "budget", "stagnation", "human", "cancelled"]


class ChangeRef(Strict, frozen=True):
    """What was reviewed."""

    base: str
    head: str
    files: Annotated[int, Meta(ge=0, description="number of changed files")]
    added_lines: Annotated[int, Meta(ge=0)]
    removed_lines: Annotated[int, Meta(ge=0)]
    notes: tuple[str, ...] = ()


class Evidence(Strict, frozen=True):
    """The evidence for a finding."""

    quote: Annotated[str, Meta(description="the text at the cited lines, secrets redacted")]
    tool_calls: Annotated[
        tuple[str, ...], Meta(description="ids in calls of the tool calls that show it")
    ]
    side: Annotated[
        Literal["head", "base"],
        Meta(description="the side of path, lines and quote; base: the change removes the lines"),
    ] = "head"


class Cause(Strict, frozen=True):
    """The line of the change that makes something a defect elsewhere."""

    path: str
    line: Annotated[int, Meta(ge=1)]
    removed: Annotated[bool, Meta(description="true: a line of base that the change removes")] = (
        False
    )


class Finding(Strict, frozen=True, kw_only=True):
    """A defect that the change introduces."""

    id: Annotated[str, Meta(description="F1, F2, ... in the order of the report")]
    fingerprint: Annotated[str, Meta(description="stable across runs and when lines move")]
    severity: Severity
    confidence: UnitFloat
    title: str
    detail: str
    category: Annotated[str, Meta(description="security, qa, docs or architecture")]
    rule: str
    cwe: tuple[int, ...] = ()
    path: str
    start_line: Annotated[int, Meta(ge=1)]
    end_line: Annotated[int, Meta(ge=1)]
    start_column: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="1-based, in characters; null: unknown")
    ] = None
    evidence: Evidence
    fix_suggestion: str = ""
    fix: Annotated[Fix | None, Meta(description="a patch for it; null: none")] = None
    reported_by: Annotated[tuple[str, ...], Meta(description="tools and agents that reported it")]
    state: Literal["open", "waived", "rejected"] = "open"
    waiver: Annotated[
        str,
        Meta(
            description="why a person accepted it or lowered its weight, or why that no "
            "longer applies"
        ),
    ] = ""
    lowered_from: Annotated[
        Severity | None,
        Meta(
            description="the severity that its author gave; lowered to info because ten of the "
            "author's findings weigh more"
        ),
    ] = None
    context: Annotated[
        FindingContext | None, Meta(description="the code around it; null: not readable")
    ] = None
    because_of: Annotated[
        Cause | None,
        Meta(description="the changed line that causes a finding outside the added lines"),
    ] = None
    cause_quote: Annotated[str, Meta(description="the text of because_of, secrets redacted")] = ""
    guideline: Annotated[
        Guideline | None, Meta(description="the line of the repository's guidance that it violates")
    ] = None
    steps: Annotated[
        tuple[FlowStep, ...],
        Meta(description="the data flow from its source to this line; detail has it as text"),
    ] = ()
    reports: Annotated[
        tuple[Reported, ...],
        Meta(description="the report of each reporter, if several reported it"),
    ] = ()
    proofs: Annotated[
        tuple[Proof, ...], Meta(description="tests of its claims, each run on base and on head")
    ] = ()
    objections: tuple[Objection, ...] = ()
    remarks: tuple[Remark, ...] = ()
    support: Annotated[
        Support,
        Meta(
            description="proven: an analyzer reports it at this severity, or a test shows it; of "
            "what only agents report: verified: the verifier confirms it; agreed: agents of "
            "different model families report it; claimed: agents of one family do, or one disputes "
            "it with evidence; refuted: the verifier refutes it, so it does not decide"
        ),
    ] = "proven"
    outcome: Annotated[
        Outcome, Meta(description="the outcome by the policy if this were the only finding")
    ] = "merge"
    confirmed_by: Annotated[
        tuple[str, ...],
        Meta(description="who else confirms it at this severity, besides its first reporter"),
    ] = ()
    carried_over: Annotated[
        bool,
        Meta(
            description="agents of the previous review reported it, and it is still open: "
            "the quoted text is still there, and nobody has refuted it"
        ),
    ] = False
    since_previous: Annotated[
        SincePrevious,
        Meta(description="compared with the previous review; empty: no previous review"),
    ] = ""
    first_fingerprint: Annotated[
        str,
        Meta(
            description="its fingerprint in an earlier review of this change, if a rename "
            "of its file changed it since; empty: same as fingerprint"
        ),
    ] = ""

    @property
    def identity(self) -> str:
        """Equal for the same finding in all reviews of one change."""
        return self.first_fingerprint or self.fingerprint

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Sorts the most severe first, of equal severity the best supported, refuted ones last."""
        order = SEVERITIES.index(self.severity), SUPPORTS.index(self.support)
        return self.support == "refuted", *order


class SeverityCounts(Strict, frozen=True):
    """The number of open findings by severity."""

    critical: int = 0
    high: int = 0
    medium: int = 0
    low: int = 0
    info: int = 0


class Rejected(Strict, frozen=True):
    """A finding that does not count, and why."""

    finding: Finding
    reason: str
    cause: Annotated[
        Literal["", "unverified", "outside", "constant", "argued", "withdrawn", "settled", "fixed"],
        Meta(
            description="unverified: its quote or place was not found; outside: the change "
            "does not cause it; constant: only constants reach this place; argued: agents "
            "showed that it is not a defect; withdrawn: its agent withdrew it; settled: an "
            "earlier complete review accepted these lines; fixed: the test that showed it in an "
            "earlier review passes now"
        ),
    ] = ""
    argued_by: tuple[str, ...] = ()


class CallRef(Strict, frozen=True):
    """A tool call that other parts of the verdict refer to."""

    id: Annotated[str, Meta(description="C1, C2, ...")]
    key: Annotated[str, Meta(description="its key in the journal, as printed by audit show")]


class Skipped(Strict, frozen=True, kw_only=True):
    """A changed file, or a part of its review, that was skipped."""

    path: str
    why: str
    tool: Annotated[
        str, Meta(description="the tool that did not examine it; empty: nothing did")
    ] = ""
    gap: Annotated[
        bool, Meta(description="true: makes the review incomplete; false: skipped by policy")
    ]


class RequiredCheck(Strict, frozen=True):
    """A check that must run for the verdict to be complete."""

    name: str
    status: Annotated[
        Literal["ran", "passed_by_own_tests", "failed", "not_run", "not_applicable"],
        Meta(
            description="ran: on all that it applies to; detail says what it found; "
            "passed_by_own_tests: the tests passed, but the change edits what "
            "decides whether they pass, or adds a call that can end or alter the test "
            "runner"
        ),
    ]
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
    score: Annotated[UnitFloat | None, Meta(description="null: not scored")]
    why: str
    missing: Annotated[
        tuple[str, ...], Meta(description="evidence that a further iteration must provide")
    ] = ()
    evidence: Annotated[
        tuple[str, ...],
        Meta(description="the judge's evidence for the score, each quotation verified"),
    ] = ()


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

    name: Annotated[
        str,
        Meta(description="the tool; for a patch, the finding's id, or all for the combined patch"),
    ]
    path: Annotated[
        str, Meta(description="relative to the run's directory, .diffcourt/state/runs/RUN")
    ]
    sha256: str
    bytes: Annotated[int, Meta(ge=0)]
    tool_call: Annotated[
        str,
        Meta(
            description="journal key of the call; for a patch, of its proof; empty "
            "for the combined patch"
        ),
    ]
    exit_statuses: Annotated[
        tuple[tuple[str, int | None], ...],
        Meta(description="program and exit status; negative: a signal; null: diffcourt ended it"),
    ] = ()


class Provenance(Strict, frozen=True, kw_only=True):
    """What the verdict depends on: with the same provenance, it is the same."""

    version: str
    provider: str
    models: tuple[str, ...] = ()
    policy_commit: str | None = None
    digests: Annotated[
        dict[str, str],
        Meta(description="SHA-256 of agents, skills, rubric and config files, by name"),
    ]
    analyzers: Annotated[dict[str, str], Meta(description="tool → version")]
    carried_over: Annotated[
        str,
        Meta(
            description="SHA-256 of what was carried over from the previous review; empty: nothing"
        ),
    ] = ""
    journal_head: str = ""
    journal_length: int = 0


class Verdict(Strict, frozen=True, kw_only=True):
    """The verdict document, schema version 1."""

    schema_version: Literal["1.0"] = SCHEMA_VERSION
    run_id: str
    change: ChangeRef
    verdict: Outcome
    status: Literal["complete", "incomplete"]
    fail_on: Annotated[
        Literal["needs_changes", "block"],
        Meta(description="the outcome at or above which a gate fails, as configured in base"),
    ] = "needs_changes"
    exit_code: Annotated[
        Literal[0, 1, 3],
        Meta(description="exit code of the command: 0 passed, 1 failed the gate, 3 incomplete"),
    ] = EXIT_OK
    confidence: Annotated[
        UnitFloat | None,
        Meta(
            description="the review's score times the share of planned checks that ran; "
            "null: no judge scored the review"
        ),
    ]
    reasons: Annotated[
        tuple[str, ...],
        Meta(description="the rules of the verdict policy that decided the outcome"),
    ]
    stop: VerdictStop
    score: ReviewScore
    counts: SeverityCounts = field(default_factory=SeverityCounts)
    findings: tuple[Finding, ...]
    rejected: tuple[Rejected, ...]
    calls: Annotated[
        tuple[CallRef, ...], Meta(description="the tool calls to which findings and checked refer")
    ] = ()
    checked: tuple[Checked, ...]
    depth: Annotated[
        DepthCounts, Meta(description="how many changed files were read at each depth")
    ] = field(default_factory=DepthCounts)
    skipped: tuple[Skipped, ...]
    required_checks: tuple[RequiredCheck, ...]
    next_actions: tuple[str, ...]
    agents: tuple[AgentReport, ...]
    assignment: Annotated[Assignment | None, Meta(description="null: no model took part")] = None
    escalations: tuple[Escalation, ...] = ()
    questions: tuple[HumanQuestion, ...] = ()
    approvals: Annotated[
        tuple[PendingApproval, ...], Meta(description="calls that wait for a person")
    ] = ()
    iterations: tuple[VerdictIteration, ...]
    guards: Annotated[
        tuple[GuardRuling, ...],
        Meta(description="actions of the guards; they do not affect the outcome"),
    ] = ()
    usage: RunUsage
    previous: Annotated[
        PreviousReview | None,
        Meta(description="the previous review of this change, and which of its findings are fixed"),
    ] = None
    waivers: Annotated[
        tuple[WaiverUse, ...],
        Meta(description="waivers that were used, have expired, or match no file"),
    ] = ()
    memory: Annotated[
        tuple[MemoryUse, ...],
        Meta(description="entries of the repository's memory that had an effect on this review"),
    ] = ()
    override: Annotated[
        Override | None,
        Meta(description="a person's decision against the outcome; verdict stays as computed"),
    ] = None
    artifacts: tuple[Artifact, ...] = ()
    guidance: Annotated[
        tuple[GuidanceFile, ...],
        Meta(description="the repository's guidance that agents were shown; empty without a model"),
    ] = ()
    provenance: Provenance
    summary: Annotated[
        str, Meta(description="computed: the numbers of files, findings and gaps")
    ] = ""
    lead_summary: Annotated[
        str, Meta(description="the lead's summary of the review; it does not affect the outcome")
    ] = ""
    digest: Annotated[
        str, Meta(description="SHA-256 of the canonical document without volatile fields")
    ] = ""

    @property
    def used_model(self) -> bool:
        """Whether a model took part in the review."""
        return self.provenance.provider != OFFLINE


def severity_counts(findings: Iterable[Finding]) -> dict[Severity, int]:
    """The number of open findings by severity, the most severe first."""
    counts = dict.fromkeys(SEVERITIES, 0)
    for finding in findings:
        counts[finding.severity] += finding.state == "open"
    return counts


def json_schema() -> dict[str, Any]:
    """The published JSON Schema of the verdict (draft 2020-12).

    It allows unknown fields: a reader of today's schema accepts what a later version adds.
    """
    schema = schema_of(Verdict)
    for part in (schema, *schema["$defs"].values()):
        part.pop("additionalProperties", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:diffcourt:verdict:1",
        **schema,
    }
