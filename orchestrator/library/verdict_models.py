"""The verdict as pydantic models, for programs that read ``diffcourt review --json``.

Made by ``make models`` from the structs in ``orchestrator/code_review/verdict``. Parts that a newer
version adds are ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ChangeRef(_Part):
    """What was reviewed."""

    base: str
    head: str
    files: Annotated[int, Field(ge=0, description="number of changed files")]
    added_lines: Annotated[int, Field(ge=0)]
    removed_lines: Annotated[int, Field(ge=0)]
    notes: tuple[str, ...] = ()


class Stop(_Part):
    """Why the run ended."""

    reason: Literal["done", "budget", "stagnation", "human"]
    detail: str
    uncertain: tuple[str, ...] = ()
    next_human_action: str


class CriterionScore(_Part):
    """One line of the rubric."""

    id: str
    kind: Literal["measured", "judged"]
    weight: float
    score: Annotated[
        Annotated[float, Field(ge=0, le=1)] | None, Field(description="null: not scored")
    ]
    why: str
    missing: Annotated[
        tuple[str, ...], Field(description="evidence a further iteration must get")
    ] = ()
    evidence: Annotated[
        tuple[str, ...], Field(description="what a judge's score rests on, each looked up")
    ] = ()


class Score(_Part):
    """The judge's score of the review (not of the change)."""

    total: Annotated[float, Field(ge=0, le=1)] | None
    threshold: Annotated[float, Field(ge=0, le=1)]
    criteria: tuple[CriterionScore, ...]


class Counts(_Part):
    """The number of open findings by severity."""

    critical: int = 0
    high: int = 0
    medium: int = 0
    low: int = 0
    info: int = 0


class Evidence(_Part):
    """Why a finding is believed."""

    quote: Annotated[str, Field(description="the text at the cited lines, secrets redacted")]
    tool_calls: Annotated[
        tuple[str, ...], Field(description="ids in calls, of those that showed it")
    ]
    side: Annotated[
        Literal["head", "base"],
        Field(description="whose path, lines and quote these are; base: the change removes them"),
    ] = "head"


class Cause(_Part):
    """The line of the change that makes something a defect elsewhere."""

    path: str
    line: Annotated[int, Field(ge=1)]
    removed: Annotated[bool, Field(description="the line is one of base that is taken away")] = (
        False
    )


class Reported(_Part):
    """One reporter's word on a defect that several reported."""

    by: str
    proved: Annotated[bool, Field(description="it is an analyzer's")]
    severity: Literal["critical", "high", "medium", "low", "info"]
    confidence: Annotated[float, Field(ge=0, le=1)]
    title: str
    detail: str = ""


class Objection(_Part):
    """An argument of an agent or the judge that a finding is no defect."""

    by: str
    reason: str
    evidence: Annotated[tuple[str, ...], Field(description="what it quotes, and from where")]
    why_not: Annotated[
        str, Field(description="why it does not set the finding aside; empty: it does")
    ]
    refutes: Annotated[
        bool,
        Field(
            description="true: its evidence stands, so no finding of agents alone blocks against "
            "it; false: a doubt, or its evidence does not stand"
        ),
    ] = False


class Finding(_Part):
    """One defect that the change brings in."""

    id: Annotated[str, Field(description="F1, F2, ... in the order of the report")]
    fingerprint: Annotated[str, Field(description="stable across runs and line moves")]
    severity: Literal["critical", "high", "medium", "low", "info"]
    confidence: Annotated[float, Field(ge=0, le=1)]
    title: str
    detail: str
    category: Annotated[str, Field(description="security, qa, docs or architecture")]
    rule: str
    cwe: tuple[int, ...] = ()
    path: str
    start_line: Annotated[int, Field(ge=1)]
    end_line: Annotated[int, Field(ge=1)]
    start_column: Annotated[
        Annotated[int, Field(ge=1)] | None,
        Field(description="1-based, in characters; null where the reporter names no column"),
    ] = None
    evidence: Evidence
    fix_suggestion: str = ""
    reported_by: Annotated[tuple[str, ...], Field(description="tools and agents that reported it")]
    state: Literal["open", "waived", "rejected"] = "open"
    waiver: Annotated[
        str, Field(description="why a person accepted it, or that this has ended")
    ] = ""
    because_of: Annotated[
        Cause | None, Field(description="for a finding outside the lines that the change adds")
    ] = None
    reports: Annotated[
        tuple[Reported, ...], Field(description="what each reporter said, where there are several")
    ] = ()
    objections: tuple[Objection, ...] = ()
    standing: Annotated[
        Literal["proved", "confirmed", "unconfirmed", "refuted"],
        Field(
            description="proved: an analyzer reports it at this severity; confirmed: only agents "
            "do, and somebody who did not make the claim confirms it with evidence; "
            "unconfirmed: nobody does; refuted: only agents report it, and an agent "
            "or the judge refutes it with evidence. An unconfirmed or refuted finding"
            " cannot block"
        ),
    ] = "proved"
    confirmed_by: Annotated[
        tuple[str, ...],
        Field(description="who besides its first reporter confirms it at this severity"),
    ] = ()


class Rejected(_Part):
    """A finding that does not count, and why: marked, not dropped."""

    finding: Finding
    reason: str
    cause: Annotated[
        Literal["", "unverified", "outside", "constant", "argued", "withdrawn"],
        Field(
            description="unverified: its quote or place does not hold; outside: the change has no"
            " part in it; constant: nothing but constants gets there; argued: agents "
            "showed that it is none; withdrawn: its agent took it back"
        ),
    ] = ""
    argued_by: tuple[str, ...] = ()


class CallRef(_Part):
    """A tool call that other parts of the verdict refer to."""

    id: Annotated[str, Field(description="C1, C2, ...")]
    key: Annotated[str, Field(description="its key in the journal, as audit show prints it")]


class Checked(_Part):
    """A changed file and what looked at it."""

    path: str
    by: tuple[str, ...]
    tool_calls: Annotated[tuple[str, ...], Field(description="ids in calls")]


class Skipped(_Part):
    """A changed file, or a part of its review, that did not happen."""

    path: str
    why: str
    tool: Annotated[str, Field(description="the tool that could not look; empty: none did")] = ""
    gap: Annotated[
        bool, Field(description="true: this makes the review incomplete; false: left out by policy")
    ]


class RequiredCheck(_Part):
    """A check that must have run for the verdict to be complete."""

    name: str
    status: Annotated[
        Literal["passed", "passed_by_own_tests", "failed", "not_run", "not_applicable"],
        Field(
            description="passed_by_own_tests: the change alters what decides how its tests pass, "
            "and base's tests did not pass over its code"
        ),
    ]
    detail: str = ""


class AgentReport(_Part):
    """One agent's own report in the same terms."""

    agent: str
    iteration: Annotated[int, Field(ge=1)]
    status: Literal["ok", "failed", "timeout", "budget", "skipped", "waiting"]
    summary: str = ""
    findings: Annotated[tuple[str, ...], Field(description="ids of the findings it reported")] = ()
    checked: Annotated[int, Field(ge=0, description="files it looked at")] = 0
    gaps: tuple[str, ...] = ()
    notes: Annotated[
        tuple[str, ...], Field(description="what in its report does not count, and why")
    ] = ()
    turns: Annotated[int, Field(ge=0)] = 0
    tool_calls: Annotated[int, Field(ge=0)] = 0


class Escalation(_Part):
    """A move of an agent to its next escalation stage, and why."""

    agent: str
    iteration: Annotated[int, Field(ge=1)]
    from_stage: Annotated[str, Field(description="the stage that was not enough")]
    to_stage: Annotated[str, Field(description="the stage that was tried next; human is a person")]
    why: str


class HumanQuestion(_Part):
    """What a person was asked; the run waits while there is no answer."""

    name: Annotated[str, Field(description="what diffcourt resume --to takes")]
    agent: str
    question: str
    answer: str = ""
    answered_by: str = ""
    answered_at: Annotated[str, Field(description="ISO 8601, UTC")] = ""


class PendingApproval(_Part):
    """A call that a person must approve or deny before the run goes on."""

    approval: Annotated[str, Field(description="what diffcourt approve and deny take")]
    call: str
    agent: str
    tool: str
    arguments: Annotated[str, Field(description="JSON, without secrets")]
    level: str


class Iteration(_Part):
    """One round of Plan to Evaluate."""

    number: Annotated[int, Field(ge=1)]
    score: Annotated[float, Field(ge=0, le=1)] | None
    new_findings: int
    new_evidence: int
    gaps: int
    decision: str


class GuardRuling(_Part):
    """What a guard did about something that it found."""

    layer: Annotated[str, Field(description="input, tool or output")]
    guard: str
    action: Literal["block", "warn", "modify", "off"]
    agent: str
    reason: str
    count: Annotated[int, Field(ge=1, description="how often")] = 1


class Usage(_Part):
    """What the run used."""

    iterations: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: Annotated[float, Field(description="the most that the run has cost")] = 0.0
    uncertain_usd: Annotated[
        float,
        Field(description="the part of usd that no reply confirmed, counted at its worst case"),
    ] = 0.0
    uncertain_tokens: Annotated[
        int, Field(description="tokens of calls without a reply, on top of input and output")
    ] = 0
    saved_usd: Annotated[
        float, Field(description="what the cached tokens saved, less what writing them cost")
    ] = 0.0
    seconds: float = 0.0
    limits: dict[str, float] = Field(default_factory=dict)
    notes: Annotated[
        tuple[str, ...],
        Field(description="what could not be counted or had: a model without a price, for one"),
    ] = ()


class Artifact(_Part):
    """A file the run left behind: what the programs behind a tool call printed."""

    name: Annotated[str, Field(description="the tool")]
    path: Annotated[str, Field(description="below the run's directory, .diffcourt/state/runs/RUN")]
    sha256: str
    bytes: Annotated[int, Field(ge=0)]
    tool_call: Annotated[str, Field(description="key of the call in the journal")]
    exit_statuses: Annotated[
        tuple[tuple[str, int | None], ...],
        Field(description="program and exit status, negative for a signal, null when it was ended"),
    ] = ()


class Provenance(_Part):
    """What decided: with these equal, the verdict is equal."""

    version: str
    provider: str
    models: tuple[str, ...] = ()
    policy_commit: str | None = None
    digests: Annotated[dict[str, str], Field(description="agents, skills, rubric, config, by name")]
    analyzers: Annotated[dict[str, str], Field(description="tool → version")]
    journal_head: str = ""
    journal_length: int = 0


class Verdict(_Part):
    """The verdict document, schema version 1."""

    schema_version: Literal["1.0"] = "1.0"
    run_id: str
    change: ChangeRef
    verdict: Literal["merge", "needs_changes", "block"]
    status: Literal["complete", "incomplete"]
    fail_on: Annotated[
        Literal["needs_changes", "block"],
        Field(description="the outcome at which the base wants a gate to fail"),
    ] = "needs_changes"
    exit_code: Annotated[
        Literal[0, 1, 3],
        Field(description="what the command exits with: 0 passed, 1 gated, 3 incomplete"),
    ] = 0
    confidence: Annotated[float, Field(ge=0, le=1)]
    reasons: Annotated[
        tuple[str, ...], Field(description="the rules of the verdict policy that decided")
    ]
    stop: Stop
    score: Score
    counts: Counts = Field(default_factory=Counts)
    findings: tuple[Finding, ...]
    rejected: tuple[Rejected, ...]
    calls: Annotated[
        tuple[CallRef, ...], Field(description="the tool calls that findings and checked refer to")
    ] = ()
    checked: tuple[Checked, ...]
    skipped: tuple[Skipped, ...]
    required_checks: tuple[RequiredCheck, ...]
    next_actions: tuple[str, ...]
    agents: tuple[AgentReport, ...]
    escalations: tuple[Escalation, ...] = ()
    questions: tuple[HumanQuestion, ...] = ()
    approvals: Annotated[
        tuple[PendingApproval, ...], Field(description="calls that wait for a person")
    ] = ()
    iterations: tuple[Iteration, ...]
    guards: Annotated[
        tuple[GuardRuling, ...],
        Field(description="what the guards ruled; none of it decides the outcome"),
    ] = ()
    usage: Usage
    artifacts: tuple[Artifact, ...] = ()
    provenance: Provenance
    summary: Annotated[str, Field(description="counted: files, findings, gaps")] = ""
    lead_summary: Annotated[
        str, Field(description="what the lead says the review came to; it decides nothing")
    ] = ""
    digest: Annotated[
        str, Field(description="SHA-256 of the canonical document, volatile fields left out")
    ] = ""
