"""The parts of a verdict about agents: their work, escalations, and questions to people."""

from typing import Annotated, Literal

from msgspec import Meta

from orchestrator.engine.field_types import Strict, UnitFloat


class AgentShare(Strict, frozen=True):
    """The files assigned to one agent."""

    agent: str
    role: Annotated[str, Meta(description="the agent definition whose prompt and tools it uses")]
    tokens: Annotated[int, Meta(ge=0, description="of the numbered diff of its files")]
    paths: tuple[str, ...]


class Assignment(Strict, frozen=True):
    """How many agents reviewed the change, and why."""

    pattern: Literal["team", "single"]
    auto: Annotated[bool, Meta(description="true: code chose the pattern, by the number of tokens")]
    tokens: Annotated[
        int, Meta(ge=0, description="of the numbered diff and the analyzers' findings")
    ]
    bound: Annotated[int, Meta(ge=1, description="tokens that one agent reads at once")]
    reason: str
    shares: Annotated[
        tuple[AgentShare, ...],
        Meta(description="assigned by code; empty: the lead assigned the files"),
    ] = ()


class AgentReport(Strict, frozen=True):
    """The report of one agent."""

    agent: str
    iteration: Annotated[int, Meta(ge=1)]
    status: Literal["ok", "failed", "timeout", "budget", "skipped", "waiting", "cancelled"]
    summary: str = ""
    findings: Annotated[tuple[str, ...], Meta(description="ids of the findings it reported")] = ()
    checked: Annotated[int, Meta(ge=0, description="number of files that it examined")] = 0
    gaps: tuple[str, ...] = ()
    notes: Annotated[
        tuple[str, ...], Meta(description="parts of its report that do not count, and why")
    ] = ()
    turns: Annotated[int, Meta(ge=0)] = 0
    tool_calls: Annotated[int, Meta(ge=0)] = 0


class VerdictIteration(Strict, frozen=True):
    """One iteration from Plan to Evaluate."""

    number: Annotated[int, Meta(ge=1)]
    score: UnitFloat | None
    new_findings: int
    new_evidence: int
    gaps: int
    decision: str


class Escalation(Strict, frozen=True):
    """A move of an agent to its next escalation stage, and why."""

    agent: str
    iteration: Annotated[int, Meta(ge=1)]
    from_stage: Annotated[str, Meta(description="the previous stage")]
    to_stage: Annotated[str, Meta(description="the next stage; human: a person")]
    why: str


class HumanQuestion(Strict, frozen=True):
    """A question to a person; the run waits until it is answered."""

    name: Annotated[str, Meta(description="the name for diffcourt resume --to")]
    agent: str
    question: str
    answer: str = ""
    answered_by: str = ""
    answered_at: Annotated[str, Meta(description="ISO 8601, UTC")] = ""


class PendingApproval(Strict, frozen=True):
    """A tool call that a person must approve or deny before the run continues."""

    approval: Annotated[str, Meta(description="the id for diffcourt approve and deny")]
    call: str
    agent: str
    tool: str
    arguments: Annotated[str, Meta(description="JSON, without secrets")]
    level: str
