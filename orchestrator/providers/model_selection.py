"""The model of an agent and of its escalation stages, by the configuration of a provider."""

from collections.abc import Mapping

from msgspec.structs import replace

from orchestrator.catalog.model_config import ModelsConfig
from orchestrator.engine.model_routing import HUMAN, ModelChoice
from orchestrator.engine.types import AgentSpec


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
    can, model = config.provider(provider).can, config.find_model(provider, name, env)
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
