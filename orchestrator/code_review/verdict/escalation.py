"""What a verdict says of escalations, and of what a person was asked or must decide."""

from typing import Annotated

from msgspec import Meta

from orchestrator.engine.field_types import Strict


class Escalation(Strict, frozen=True):
    """A move of an agent to its next escalation stage, and why."""

    agent: str
    iteration: Annotated[int, Meta(ge=1)]
    from_stage: Annotated[str, Meta(description="the stage that was not enough")]
    to_stage: Annotated[str, Meta(description="the stage that was tried next; human is a person")]
    why: str


class HumanQuestion(Strict, frozen=True):
    """What a person was asked; the run waits while there is no answer."""

    name: Annotated[str, Meta(description="what diffcourt resume --to takes")]
    agent: str
    question: str
    answer: str = ""
    answered_by: str = ""
    answered_at: Annotated[str, Meta(description="ISO 8601, UTC")] = ""


class PendingApproval(Strict, frozen=True):
    """A call that a person must approve or deny before the run goes on."""

    approval: Annotated[str, Meta(description="what diffcourt approve and deny take")]
    call: str
    agent: str
    tool: str
    arguments: Annotated[str, Meta(description="JSON, without secrets")]
    level: str
