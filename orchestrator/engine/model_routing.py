"""Which model answers an agent, and what is tried after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.model_config import HUMAN, ModelsConfig
from orchestrator.engine.types import AgentSpec


class ModelChoice(Struct, frozen=True):
    """Which model answers an agent, how much it may say and be told, and what is tried after it.

    Attributes:
        window: tokens of a request and its answer together; None where nothing bounds.
        progressive: skills are listed, to be opened one at a time; else all stand in the prompt.
        strategy: what the agent is told in addition, empty for nothing.
        stage: the escalation stage, empty for a model that is none.
        min_score: of the stage, see ``AgentResult``.
        next_stages: the stages to try when the attempt fails; a person may be the last.
    """

    model: str
    max_tokens: int = 4096
    effort: str | None = None
    window: int | None = None
    progressive: bool = False
    strategy: str = ""
    stage: str = ""
    min_score: float = 0.0
    next_stages: tuple[str, ...] = ()


def choose_named_model(spec: AgentSpec) -> ModelChoice:
    """The model that the agent's file names."""
    return ModelChoice(spec.model)


def candidate_models(
    spec: AgentSpec, choose_model: Callable[[AgentSpec], ModelChoice]
) -> list[ModelChoice]:
    """The models that may answer an agent: of its own stage, then of those after it."""
    own = choose_model(spec)
    return [
        own,
        *(choose_model(replace(spec, model=stage)) for stage in own.next_stages if stage != HUMAN),
    ]


def choose_model(
    config: ModelsConfig, provider: str, env: Mapping[str, str], spec: AgentSpec
) -> ModelChoice:
    """What answers an agent, and which stages of its escalation come next.

    Skipped is a stage that the provider has no model for, and one that would ask for the very
    same as an earlier one.

    Args:
        env: environment variables, one of which may name the model.

    Raises:
        ConfigError: the provider has no model for the agent's own stage.
    """
    config.resolve(provider, spec.model, env)
    own = () if spec.model in spec.escalation else (spec.model,)
    stages: dict[str, ModelChoice] = {}
    for name in (*own, *spec.escalation):
        at = _at(config, provider, env, name)
        if name == spec.model or (at.model and at not in stages.values()):
            stages[name] = at
    next_stages = tuple(stages)[tuple(stages).index(spec.model) + 1 :]
    chosen = replace(stages[spec.model], next_stages=next_stages)
    if not config.is_stage(spec.model):
        return chosen
    return replace(chosen, stage=spec.model, min_score=config.stage(spec.model).min_score)


def _at(config: ModelsConfig, provider: str, env: Mapping[str, str], name: str) -> ModelChoice:
    """What a stage asks for, or a model by its own name; of no model where nothing serves it."""
    if name == HUMAN:
        return ModelChoice(name)
    can, model = config.provider(provider).can, config.served(provider, name, env)
    window = config.window(model)
    chosen = ModelChoice(model, window=window, progressive=can.asides)
    if config.is_stage(name):
        stage = config.stage(name)
        effort = stage.effort if can.effort else None
        chosen = replace(
            chosen, max_tokens=stage.max_tokens, effort=effort, strategy=stage.strategy
        )
    # What is answered needs room beside the answer.
    return replace(chosen, max_tokens=min(chosen.max_tokens, window // 2))
