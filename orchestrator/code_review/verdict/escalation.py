"""The parts of a verdict about escalations, and about questions and approvals for people."""

from typing import Annotated

from msgspec import Meta

from orchestrator.engine.field_types import Strict


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
