"""The verdict: the document a CI job gates on and a person argues with.

These models are the published JSON Schema (``diffcourt schema verdict``).
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from orchestrator.catalog.shared_literals import OFFLINE, SEVERITIES, Outcome, Severity
from orchestrator.checks.check_io import FlowStep
from orchestrator.code_review.json_schema_generation import schema_of
from orchestrator.code_review.verdict.depth import Checked, DepthCounts
from orchestrator.code_review.verdict.escalation import Escalation, HumanQuestion, PendingApproval
from orchestrator.code_review.verdict.fix import Fix
from orchestrator.code_review.verdict.guidance import GuidanceFile, Guideline
from orchestrator.code_review.verdict.memory_use import FindingContext, MemoryUse
from orchestrator.code_review.verdict.opinions import Objection, Reported
from orchestrator.code_review.verdict.previous import PreviousReview, SincePrevious
from orchestrator.code_review.verdict.waiver_use import Override, WaiverUse
from orchestrator.engine.field_types import Strict, UnitFloat
from orchestrator.engine.text_guards import Action
from orchestrator.errors import EXIT_OK


class GuardRuling(Strict, frozen=True):
    """What a guard did about something that it found."""

    layer: Annotated[str, Meta(description="input, tool or output")]
    guard: str
    action: Action
    agent: str
    reason: str
    count: Annotated[int, Meta(ge=1, description="how often")] = 1


class Usage(Strict, frozen=True):
    """What the run used."""

    iterations: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: Annotated[float, Meta(description="the most that the run has cost")] = 0.0
    uncertain_usd: Annotated[
        float,
        Meta(description="the part of usd that no reply confirmed, counted at its worst case"),
    ] = 0.0
    uncertain_tokens: Annotated[
        int, Meta(description="tokens of calls without a reply, on top of input and output")
    ] = 0
    saved_usd: Annotated[
        float, Meta(description="what the cached tokens saved, less what writing them cost")
    ] = 0.0
    seconds: float = 0.0
    limits: dict[str, float] = field(default_factory=dict)
    notes: Annotated[
        tuple[str, ...],
        Meta(description="what could not be counted or had: a model without a price, for one"),
    ] = ()


SCHEMA_VERSION: Literal["1.0"] = "1.0"

OPEN_QUESTION = "open question: "
"""How an entry of ``stop.uncertain`` begins that is a question to the change's author."""

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
    """Why a finding is believed."""

    quote: Annotated[str, Meta(description="the text at the cited lines, secrets redacted")]
    tool_calls: Annotated[
        tuple[str, ...], Meta(description="ids in calls, of those that showed it")
    ]
    side: Annotated[
        Literal["head", "base"],
        Meta(description="whose path, lines and quote these are; base: the change removes them"),
    ] = "head"


class Cause(Strict, frozen=True):
    """The line of the change that makes something a defect elsewhere."""

    path: str
    line: Annotated[int, Meta(ge=1)]
    removed: Annotated[bool, Meta(description="the line is one of base that is taken away")] = False


class Finding(Strict, frozen=True, kw_only=True):
    """One defect that the change brings in."""

    id: Annotated[str, Meta(description="F1, F2, ... in the order of the report")]
    fingerprint: Annotated[str, Meta(description="stable across runs and line moves")]
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
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="1-based, in characters; null where the reporter names no column"),
    ] = None
    evidence: Evidence
    fix_suggestion: str = ""
    fix: Annotated[Fix | None, Meta(description="a patch for it; null: there is none")] = None
    reported_by: Annotated[tuple[str, ...], Meta(description="tools and agents that reported it")]
    state: Literal["open", "waived", "rejected"] = "open"
    waiver: Annotated[str, Meta(description="why a person accepts or lowers it, or no more")] = ""
    lowered_from: Annotated[
        Severity | None,
        Meta(description="its author's severity; info, as the author has ten that weigh more"),
    ] = None
    context: Annotated[
        FindingContext | None, Meta(description="the lines around it; null where none are readable")
    ] = None
    because_of: Annotated[
        Cause | None, Meta(description="for a finding outside the lines that the change adds")
    ] = None
    cause_quote: Annotated[str, Meta(description="the text of that line, secrets redacted")] = ""
    guideline: Annotated[
        Guideline | None, Meta(description="the line of the repository's guidance that it rests on")
    ] = None
    steps: Annotated[
        tuple[FlowStep, ...],
        Meta(description="the way of a value from its source to here; detail has it as text"),
    ] = ()
    reports: Annotated[
        tuple[Reported, ...], Meta(description="what each reporter said, where there are several")
    ] = ()
    objections: tuple[Objection, ...] = ()
    standing: Annotated[
        Literal["proved", "confirmed", "unconfirmed", "refuted"],
        Meta(
            description="proved: an analyzer reports it at this severity; confirmed: only agents "
            "do, and somebody who did not make the claim confirms it with evidence; unconfirmed: "
            "nobody does; refuted: only agents report it, and an agent or the judge refutes it "
            "with evidence. An unconfirmed or refuted finding cannot block"
        ),
    ] = "proved"
    outcome: Annotated[Outcome, Meta(description="what the policy makes of this finding alone")] = (
        "merge"
    )
    confirmed_by: Annotated[
        tuple[str, ...],
        Meta(description="who besides its first reporter confirms it at this severity"),
    ] = ()
    carried_over: Annotated[
        bool,
        Meta(
            description="agents of the previous review reported it, and it stays open: what it "
            "quotes is still there, and nobody has refuted it"
        ),
    ] = False
    since_previous: Annotated[
        SincePrevious, Meta(description="compared with the previous review; empty without one")
    ] = ""
    first_fingerprint: Annotated[
        str,
        Meta(
            description="the fingerprint that it had in an earlier review of this change, where a "
            "rename of its file has changed it since; empty: fingerprint"
        ),
    ] = ""

    @property
    def identity(self) -> str:
        """Equal for the same finding in all reviews of one change."""
        return self.first_fingerprint or self.fingerprint

    @property
    def contested(self) -> bool:
        """Whether an agent argues that it is no defect.

        Two severities are no dispute: both reporters say that there is a defect.
        """
        return bool(self.objections)


class Counts(Strict, frozen=True):
    """The number of open findings by severity."""

    critical: int = 0
    high: int = 0
    medium: int = 0
    low: int = 0
    info: int = 0


class Rejected(Strict, frozen=True):
    """A finding that does not count, and why: marked, not dropped."""

    finding: Finding
    reason: str
    cause: Annotated[
        Literal["", "unverified", "outside", "constant", "argued", "withdrawn", "settled"],
        Meta(
            description="unverified: its quote or place does not hold; outside: the change has no "
            "part in it; constant: nothing but constants gets there; argued: agents showed that it "
            "is none; withdrawn: its agent took it back; settled: an earlier complete review has "
            "passed these lines"
        ),
    ] = ""
    argued_by: tuple[str, ...] = ()


class CallRef(Strict, frozen=True):
    """A tool call that other parts of the verdict refer to."""

    id: Annotated[str, Meta(description="C1, C2, ...")]
    key: Annotated[str, Meta(description="its key in the journal, as audit show prints it")]


class Skipped(Strict, frozen=True, kw_only=True):
    """A changed file, or a part of its review, that did not happen."""

    path: str
    why: str
    tool: Annotated[str, Meta(description="the tool that could not look; empty: none did")] = ""
    gap: Annotated[
        bool, Meta(description="true: this makes the review incomplete; false: left out by policy")
    ]


class RequiredCheck(Strict, frozen=True):
    """A check that must have run for the verdict to be complete."""

    name: str
    status: Annotated[
        Literal["passed", "passed_by_own_tests", "failed", "not_run", "not_applicable"],
        Meta(
            description="passed_by_own_tests: the change alters what decides how its tests pass, "
            "or gains a call that can end or change their runner"
        ),
    ]
    detail: str = ""

    @property
    def has_passed(self) -> bool:
        """Whether it ran to its end over all that it applies to."""
        return self.status in {"passed", "passed_by_own_tests"}

    @property
    def is_satisfied(self) -> bool:
        """Whether it leaves the review complete."""
        return self.has_passed or self.status == "not_applicable"


class CriterionScore(Strict, frozen=True):
    """One line of the rubric."""

    id: str
    kind: Literal["measured", "judged"]
    weight: float
    score: Annotated[UnitFloat | None, Meta(description="null: not scored")]
    why: str
    missing: Annotated[
        tuple[str, ...], Meta(description="evidence a further iteration must get")
    ] = ()
    evidence: Annotated[
        tuple[str, ...], Meta(description="what a judge's score rests on, each looked up")
    ] = ()


class Score(Strict, frozen=True):
    """The judge's score of the review (not of the change)."""

    total: UnitFloat | None
    threshold: UnitFloat
    criteria: tuple[CriterionScore, ...]


class Stop(Strict, frozen=True, kw_only=True):
    """Why the run ended."""

    reason: StopReason
    detail: str
    uncertain: tuple[str, ...] = ()
    next_human_action: str


class Share(Strict, frozen=True):
    """The files that one agent was given."""

    agent: str
    role: Annotated[str, Meta(description="the agent whose prompt and tools it has")]
    tokens: Annotated[int, Meta(ge=0, description="of its files' numbered diff")]
    paths: tuple[str, ...]


class Assignment(Strict, frozen=True):
    """How many agents reviewed the change, and why."""

    pattern: Literal["team", "single"]
    auto: Annotated[bool, Meta(description="code chose the pattern, by the tokens")]
    tokens: Annotated[int, Meta(ge=0, description="of numbered diff and analyzers' findings")]
    bound: Annotated[int, Meta(ge=1, description="tokens that one agent reads at once")]
    reason: str
    shares: Annotated[
        tuple[Share, ...], Meta(description="by code; empty where the lead alone shares out")
    ] = ()


class AgentReport(Strict, frozen=True):
    """One agent's own report in the same terms."""

    agent: str
    iteration: Annotated[int, Meta(ge=1)]
    status: Literal["ok", "failed", "timeout", "budget", "skipped", "waiting", "cancelled"]
    summary: str = ""
    findings: Annotated[tuple[str, ...], Meta(description="ids of the findings it reported")] = ()
    checked: Annotated[int, Meta(ge=0, description="files it looked at")] = 0
    gaps: tuple[str, ...] = ()
    notes: Annotated[
        tuple[str, ...], Meta(description="what in its report does not count, and why")
    ] = ()
    turns: Annotated[int, Meta(ge=0)] = 0
    tool_calls: Annotated[int, Meta(ge=0)] = 0


class Iteration(Strict, frozen=True):
    """One round of Plan to Evaluate."""

    number: Annotated[int, Meta(ge=1)]
    score: UnitFloat | None
    new_findings: int
    new_evidence: int
    gaps: int
    decision: str


class Artifact(Strict, frozen=True):
    """A file the run left behind: what programs behind a tool call printed, or a verified patch."""

    name: Annotated[
        str, Meta(description="the tool; of a patch its finding's id, or all for all together")
    ]
    path: Annotated[str, Meta(description="below the run's directory, .diffcourt/state/runs/RUN")]
    sha256: str
    bytes: Annotated[int, Meta(ge=0)]
    tool_call: Annotated[
        str, Meta(description="key of the call in the journal, of a patch its proof; empty for all")
    ]
    exit_statuses: Annotated[
        tuple[tuple[str, int | None], ...],
        Meta(description="program and exit status, negative for a signal, null when it was ended"),
    ] = ()


class Provenance(Strict, frozen=True, kw_only=True):
    """What decided: with these equal, the verdict is equal."""

    version: str
    provider: str
    models: tuple[str, ...] = ()
    policy_commit: str | None = None
    digests: Annotated[dict[str, str], Meta(description="agents, skills, rubric, config, by name")]
    analyzers: Annotated[dict[str, str], Meta(description="tool → version")]
    carried_over: Annotated[
        str,
        Meta(description="SHA-256 of what the previous review handed on; empty: it was nothing"),
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
        Meta(description="the outcome at which the base wants a gate to fail"),
    ] = "needs_changes"
    exit_code: Annotated[
        Literal[0, 1, 3],
        Meta(description="what the command exits with: 0 passed, 1 gated, 3 incomplete"),
    ] = EXIT_OK
    confidence: Annotated[
        UnitFloat | None,
        Meta(
            description="the review's score times the share of planned checks that ran; null: "
            "nobody judged the review"
        ),
    ]
    reasons: Annotated[
        tuple[str, ...], Meta(description="the rules of the verdict policy that decided")
    ]
    stop: Stop
    score: Score
    counts: Counts = field(default_factory=Counts)
    findings: tuple[Finding, ...]
    rejected: tuple[Rejected, ...]
    calls: Annotated[
        tuple[CallRef, ...], Meta(description="the tool calls that findings and checked refer to")
    ] = ()
    checked: tuple[Checked, ...]
    depth: Annotated[DepthCounts, Meta(description="the files of the change by depth")] = field(
        default_factory=DepthCounts
    )
    skipped: tuple[Skipped, ...]
    required_checks: tuple[RequiredCheck, ...]
    next_actions: tuple[str, ...]
    agents: tuple[AgentReport, ...]
    assignment: Annotated[Assignment | None, Meta(description="null where no model takes part")] = (
        None
    )
    escalations: tuple[Escalation, ...] = ()
    questions: tuple[HumanQuestion, ...] = ()
    approvals: Annotated[
        tuple[PendingApproval, ...], Meta(description="calls that wait for a person")
    ] = ()
    iterations: tuple[Iteration, ...]
    guards: Annotated[
        tuple[GuardRuling, ...],
        Meta(description="what the guards ruled; none of it decides the outcome"),
    ] = ()
    usage: Usage
    previous: Annotated[
        PreviousReview | None,
        Meta(description="the previous review of this change, and what of it is fixed"),
    ] = None
    waivers: Annotated[
        tuple[WaiverUse, ...],
        Meta(description="waivers that were used, have expired, or can apply to nothing"),
    ] = ()
    memory: Annotated[
        tuple[MemoryUse, ...],
        Meta(description="entries of the repository's memory that did something in this review"),
    ] = ()
    override: Annotated[
        Override | None, Meta(description="a person decided otherwise; verdict stays as computed")
    ] = None
    artifacts: tuple[Artifact, ...] = ()
    guidance: Annotated[
        tuple[GuidanceFile, ...],
        Meta(description="the repository's guidance that agents were shown; none without a model"),
    ] = ()
    provenance: Provenance
    summary: Annotated[str, Meta(description="counted: files, findings, gaps")] = ""
    lead_summary: Annotated[
        str, Meta(description="what the lead says the review came to; it decides nothing")
    ] = ""
    digest: Annotated[
        str, Meta(description="SHA-256 of the canonical document, volatile fields left out")
    ] = ""

    @property
    def used_model(self) -> bool:
        """Whether a model took part; offline, only analyzers looked."""
        return self.provenance.provider != OFFLINE


def severity_counts(findings: Iterable[Finding]) -> dict[Severity, int]:
    """Open findings by severity, gravest first."""
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
