"""How a verdict came about: what guards ruled and what the run used, in the verdict's own terms."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.engine.text_guards import Action


class Doc(BaseModel):
    """Base of every part: unknown keys are errors, instances are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class GuardRuling(Doc):
    """What a guard did about something that it found."""

    layer: str = Field(description="input, tool or output")
    guard: str
    action: Action
    agent: str
    reason: str
    count: int = Field(default=1, ge=1, description="how often")


class Usage(Doc):
    """What the run used."""

    iterations: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = Field(default=0.0, description="the most that the run has cost")
    uncertain_usd: float = Field(
        default=0.0,
        description="the part of usd that no reply confirmed, counted at its worst case",
    )
    uncertain_tokens: int = Field(
        default=0, description="tokens of calls without a reply, on top of input and output"
    )
    saved_usd: float = Field(
        default=0.0, description="what the cached tokens saved, less what writing them cost"
    )
    seconds: float = 0.0
    limits: dict[str, float] = Field(default_factory=dict)
    notes: tuple[str, ...] = Field(
        default=(),
        description="what could not be counted or had: a model without a price, for one",
    )


class Escalation(Doc):
    """One step of an agent up the ladder of models, and why."""

    agent: str
    iteration: int = Field(ge=1)
    below: str = Field(description="the rung that did not do")
    rung: str = Field(description="the rung that was tried next; human is a person")
    why: str


class HumanQuestion(Doc):
    """What a person was asked; the run waits while there is no answer."""

    name: str = Field(description="what diffcourt resume --to takes")
    agent: str
    question: str
    answer: str = ""
    answered_by: str = ""
    answered_at: str = Field(default="", description="ISO 8601, UTC")
