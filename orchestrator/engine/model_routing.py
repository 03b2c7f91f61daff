"""Which model answers an agent, and what is tried after it."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.types import AgentSpec

HUMAN = "human"
"""The escalation stage that is a person."""


class ModelChoice(Struct, frozen=True):
    """The model that answers an agent, its limits, and the escalation stages after it.

    Attributes:
        window: tokens of a request and its answer together; None without a limit.
        strategy: additional instructions for the agent; may be empty.
        stage: the escalation stage; empty for a model outside of escalation.
        min_score: of the stage, see ``AgentResult``.
        next_stages: the stages to try when the attempt fails; a person may be the last.
        vendor: whose model it is; empty where there is one vendor alone, such as a script.
        elsewhere: the same stage at the run's other vendors, which replaces one that is down.
    """

    model: str
    max_tokens: int = 4096
    effort: str | None = None
    window: int | None = None
    strategy: str = ""
    stage: str = ""
    min_score: float = 0.0
    next_stages: tuple[str, ...] = ()
    vendor: str = ""
    elsewhere: tuple[str, ...] = ()


def choose_named_model(spec: AgentSpec) -> ModelChoice:
    """The model that the agent's file names."""
    return ModelChoice(spec.model)


def candidate_models(
    spec: AgentSpec, choose_model: Callable[[AgentSpec], ModelChoice]
) -> list[ModelChoice]:
    """The models that may answer an agent: of its stage and those after it, then elsewhere."""
    own = choose_model(spec)
    ladders = [own, *(choose_model(replace(spec, model=name)) for name in own.elsewhere)]
    found = []
    for first in ladders:
        later = (stage for stage in first.next_stages if stage != HUMAN)
        found += [first, *(choose_model(replace(spec, model=stage)) for stage in later)]
    return found
