"""How a verdict came about: what guards ruled and what the run used, in the verdict's own terms."""

from typing import Annotated

from msgspec import Meta, field

from orchestrator.engine.field_types import Strict
from orchestrator.engine.text_guards import Action


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
