"""Which model answers an agent, and what is tried after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.model_config import HUMAN, ModelsConfig
from orchestrator.engine.types import AgentSpec


class Choice(Struct, frozen=True):
    """Which model answers an agent, how much it may say and be told, and what is tried after it.

    Attributes:
        window: tokens of a request and its answer together; None where nothing bounds.
        progressive: skills are listed, to be opened one at a time; else all stand in the prompt.
        strategy: what the agent is told in addition, empty for nothing.
        rung: its name on the ladder, empty for a model that is none.
        floor: of the rung, see ``AgentResult``.
        above: the rungs to climb when the attempt fails; a person may be the last.
    """

    model: str
    max_tokens: int = 4096
    effort: str | None = None
    window: int | None = None
    progressive: bool = False
    strategy: str = ""
    rung: str = ""
    floor: float = 0.0
    above: tuple[str, ...] = ()


def as_named(spec: AgentSpec) -> Choice:
    """The model that the agent's file names."""
    return Choice(spec.model)


def answerers(spec: AgentSpec, choose: Callable[[AgentSpec], Choice]) -> list[Choice]:
    """What may answer an agent, as it climbs: the models from its own rung upwards."""
    own = choose(spec)
    return [own, *(choose(replace(spec, model=rung)) for rung in own.above if rung != HUMAN)]


def choose(config: ModelsConfig, provider: str, env: Mapping[str, str], spec: AgentSpec) -> Choice:
    """What answers an agent, and which rungs of its escalation lie above that.

    Passed over is a rung that the provider has no model for, and one that would ask for the very
    same as a rung below it.

    Args:
        env: environment variables, one of which may name the model.

    Raises:
        ConfigError: the provider has no model for the agent's own rung.
    """
    config.resolve(provider, spec.model, env)
    own = () if spec.model in spec.escalation else (spec.model,)
    ladder: dict[str, Choice] = {}
    for name in (*own, *spec.escalation):
        at = _at(config, provider, env, name)
        if name == spec.model or (at.model and at not in ladder.values()):
            ladder[name] = at
    above = tuple(ladder)[tuple(ladder).index(spec.model) + 1 :]
    chosen = replace(ladder[spec.model], above=above)
    if not config.is_rung(spec.model):
        return chosen
    return replace(chosen, rung=spec.model, floor=config.rung(spec.model).floor)


def _at(config: ModelsConfig, provider: str, env: Mapping[str, str], name: str) -> Choice:
    """What a rung asks for, or a model by its own name; of no model where nothing serves it."""
    if name == HUMAN:
        return Choice(name)
    can, model = config.provider(provider).can, config.served(provider, name, env)
    window = config.window(model)
    chosen = Choice(model, window=window, progressive=can.asides)
    if config.is_rung(name):
        rung = config.rung(name)
        effort = rung.effort if can.effort else None
        chosen = replace(chosen, max_tokens=rung.max_tokens, effort=effort, strategy=rung.strategy)
    # What is answered needs room beside the answer.
    return replace(chosen, max_tokens=min(chosen.max_tokens, window // 2))
