"""Which provider's model answers an agent, at which stage, and what replaces a provider."""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from orchestrator.catalog.model_config import ModelsConfig
from orchestrator.engine.journal import Journal
from orchestrator.engine.model_call_events import CALLS, CallEvent, CallListener
from orchestrator.engine.model_routing import HUMAN, ModelChoice
from orchestrator.engine.ports import MayRetry, Model, always_retry
from orchestrator.engine.types import AgentSpec, Request, Response, Usage
from orchestrator.errors import ModelUnavailable, ProviderRefused, VendorDown


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
        vendors: the providers of the run that replace others, at the same stage or their strongest.

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
    others = {other: served_stages(config, other, env) for other in vendors if other != vendor}
    elsewhere = (
        f"{other}:{stage if stage in served else served[-1]}" for other, served in others.items()
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


def served_stages(config: ModelsConfig, provider: str, env: Mapping[str, str]) -> list[str]:
    """The stages for which a provider has a model, cheapest first."""
    return [name for name in config.stage_names if config.find_model(provider, name, env)]


def _at(config: ModelsConfig, provider: str, env: Mapping[str, str], name: str) -> ModelChoice:
    """What a stage asks for, or a model by its own name; of no model where nothing serves it."""
    if name == HUMAN:
        return ModelChoice(name)
    can, model = config.provider(provider).can, config.find_model(provider, name, env)
    window = config.window(model)
    chosen = ModelChoice(model, window=window)
    if config.is_stage(name):
        stage = config.stage(name)
        effort = stage.effort if can.effort else None
        chosen = replace(
            chosen, max_tokens=stage.max_tokens, effort=effort, strategy=stage.strategy
        )
    # What is answered needs room beside the answer.
    return replace(chosen, max_tokens=min(chosen.max_tokens, window // 2))


class VendorRouter:
    """The models of a run with several vendors.

    A vendor that is down or has no credit is asked no more in this run: each agent moves to another
    one. The last vendor has none to be replaced by, and fails as if it were alone.

    Args:
        models: provider → its model; the first also answers requests that name no provider.
        able: providers that can replace others.
        journal: of the run; an earlier session may have given up a vendor.
        on_event: called when a vendor is given up.
    """

    def __init__(
        self,
        config: ModelsConfig,
        models: Mapping[str, Model],
        able: Collection[str],
        journal: Journal,
        on_event: CallListener,
    ) -> None:
        self.name = ", ".join(models)
        self._config, self._models, self._able = config, models, {*able}
        self._on_event = on_event
        events = journal.notes(CALLS).values()
        self._down = {e["provider"]: e["detail"] for e in events if e.get("kind") == "down"}

    async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
        """Answer a request at its vendor.

        Raises:
            VendorDown: the vendor cannot answer, and another one could.
            ModelError, ProviderRefused: as the vendor's model.
        """
        vendor, sent = self._addressed(request)
        if vendor in self._down:
            raise VendorDown(self._down[vendor], billed=False)
        try:
            return await self._models[vendor].respond(sent, may_retry)
        except (ModelUnavailable, ProviderRefused) as error:
            down = isinstance(error, ModelUnavailable) or error.account
            # Another agent may have given up a vendor in the meantime.
            if not down or not self._able - {vendor, *self._down}:
                raise
            why, billed = str(error), isinstance(error, ModelUnavailable) and error.billed
            if vendor not in self._down:
                self._down[vendor] = why
                self._on_event(CallEvent("down", vendor, sent.model, request.agent, why))
            raise VendorDown(why, billed=billed) from None

    def worst_case(self, request: Request) -> Usage:
        """The most that the request can use at its vendor."""
        vendor, sent = self._addressed(request)
        return self._models[vendor].worst_case(sent)

    def _addressed(self, request: Request) -> tuple[str, Request]:
        vendor, model = self._config.split(request.model, next(iter(self._models)))
        return vendor, replace(request, model=model)
