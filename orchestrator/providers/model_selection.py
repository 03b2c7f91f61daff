"""The model of an agent and of its escalation stages, by the configuration of its provider."""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from orchestrator.catalog.model_config import ModelsConfig
from orchestrator.engine.model_routing import HUMAN, ModelChoice
from orchestrator.engine.types import AgentSpec


def choose_model(
    config: ModelsConfig,
    provider: str,
    env: Mapping[str, str],
    spec: AgentSpec,
    vendors: Collection[str] = (),
) -> ModelChoice:
    """What answers an agent, and which stages of its escalation come next.

    Skipped is a stage that the provider has no model for, and one that would ask for the very
    same as an earlier one. An agent whose model names a provider stays with it at every stage, and
    its models are named with it, as ``VendorRouter`` needs it.

    Args:
        provider: of agents whose model names none.
        env: environment variables, one of which may name the model.
        vendors: the providers of the run, which replace each other.

    Raises:
        ConfigError: the provider has no model for the agent's own stage.
    """
    vendor, model = config.split(spec.model, provider)
    prefix = spec.model.removesuffix(model)
    config.resolve(vendor, model, env)
    own = () if model in spec.escalation else (model,)
    stages: dict[str, ModelChoice] = {}
    for name in (*own, *spec.escalation):
        at = _at(config, vendor, env, name)
        if name == model or (at.model and at not in stages.values()):
            stages[name] = at
    later = tuple(stages)[tuple(stages).index(model) + 1 :]
    stage, chosen = config.stage_of(vendor, model), stages[model]
    elsewhere = (
        f"{other}:{stage}"
        for other in vendors
        if other != vendor and stage and config.find_model(other, stage, env)
    )
    chosen = replace(
        chosen,
        model=chosen.model if vendor == provider else f"{vendor}:{chosen.model}",
        next_stages=tuple(name if name == HUMAN else prefix + name for name in later),
        vendor=vendor,
        elsewhere=tuple(elsewhere),
    )
    if not config.is_stage(model):
        return chosen
    return replace(chosen, stage=spec.model, min_score=config.stage(model).min_score)


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
