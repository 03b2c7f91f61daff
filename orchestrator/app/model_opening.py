"""Opens the model that answers the agents, by provider, and routes agents to models."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from msgspec.structs import replace

from orchestrator.app.configuration_consent import HOW_TO_ALLOW_SPENDING
from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.prices import PRICES_FILE, Prices, batch_prices, price_of
from orchestrator.catalog.settings import ReviewSettings
from orchestrator.catalog.shared_literals import HOST, OFFLINE
from orchestrator.code_review.agents.participants import named_vendors, participants
from orchestrator.code_review.review_setup import OpenModel
from orchestrator.engine.journal import Journal
from orchestrator.engine.model_call_events import call_listener
from orchestrator.engine.model_routing import ModelChoice, candidate_models, choose_named_model
from orchestrator.engine.observer_events import Observer, ignore_event
from orchestrator.engine.ports import Model
from orchestrator.engine.types import AgentSpec
from orchestrator.errors import InputError
from orchestrator.providers.calling_agent import HOST_PROVIDER, HostModel
from orchestrator.providers.factory import make_model
from orchestrator.providers.model_selection import VendorRouter, choose_model, served_stages
from orchestrator.providers.offline import OfflineModel

NO_HOST = (
    f"the provider {HOST} is the coding agent that asks diffcourt mcp serve for a review, and none "
    "does; choose another provider"
)


@asynccontextmanager
async def open_model(
    settings: ReviewSettings,
    catalog: Catalog,
    journal: Journal,
    observer: Observer = ignore_event,
    *,
    required_prices: Prices | None = None,
    agents: Sequence[AgentSpec] | None = None,
    host: HostModel | None = None,
    batched: Callable[[str], None] | None = None,
) -> AsyncIterator[OpenModel]:
    """Open the models of the providers that the settings and agents name.

    Retries and lost calls are recorded in the journal, API keys never.

    Args:
        required_prices, agents: as for ``route_agents``.
        host: the coding agent that answers if the provider is ``host``.
        batched: sends requests in batches, at their prices; called with what is waited for.

    Raises:
        InputError: there is no such provider, or its key, address or coding agent is missing.
        ConfigError: an agent's stage has no model; says where to name one.
    """
    choose, vendors, notes = route_agents(settings, catalog, os.environ, required_prices, agents)
    if not settings.has_model:
        yield OpenModel(OfflineModel(), choose, notes)
        return
    if settings.provider == HOST:
        if host is None:
            raise InputError(NO_HOST)
        yield OpenModel(host, choose, notes)
        return
    calls, config = call_listener(journal, observer), catalog.models
    make = partial(make_model, config=config, env=os.environ, on_event=calls)
    prices = catalog.prices
    if batched is not None:
        from orchestrator.providers.batches import open_batches  # noqa: PLC0415 - as the SDKs

        sending = partial(open_batches, journal=journal, observe=batched)
        make, prices = partial(make, batched=sending), batch_prices(prices)
    opening = {name: make(name, prices=prices) for name in vendors}
    entries = config.providers.values()
    journal.redact.add(os.environ.get(entry.key_env, "") for entry in entries)
    async with AsyncExitStack() as opened:
        models: dict[str, Model] = {
            name: await opened.enter_async_context(made) for name, made in opening.items()
        }
        alone = models.get(settings.provider) if len(models) == 1 else None
        able = [name for name in models if served_stages(config, name, os.environ)]
        router = VendorRouter(config, models, able, journal, calls)
        yield OpenModel(alone or router, choose, notes)


def route_agents(
    settings: ReviewSettings,
    catalog: Catalog,
    env: Mapping[str, str],
    required_prices: Prices | None = None,
    agents: Sequence[AgentSpec] | None = None,
) -> tuple[Callable[[AgentSpec], ModelChoice], tuple[str, ...], tuple[str, ...]]:
    """The function that chooses an agent's model, the run's providers, and notes for a person.

    Args:
        required_prices: each model must have one of these prices; None: one without gets a note.
        agents: judges that take part, and do not escalate; None: the agents of a review.

    Raises:
        InputError: there is no such provider, or a model has no price and must have one.
        ConfigError: an agent's stage has no model; says where to name one.
    """
    name, config = settings.provider, catalog.models
    if name == OFFLINE:
        return choose_named_model, (), ()
    if name == HOST:
        alone = replace(config, providers={HOST: HOST_PROVIDER})
        return partial(choose_model, alone, HOST, env), (), ()
    if name not in config.providers:
        known = ", ".join((OFFLINE, *config.providers))
        raise InputError(f"there is no provider {name!r}; known: {known}")
    specs, models = agents or participants(catalog, settings), set[str]()
    vendors = named_vendors(catalog, settings, agents)
    able = [] if agents else [one for one in vendors if served_stages(config, one, env)]
    chosen = partial(choose_model, config, name, env, vendors=able)
    for spec in specs:
        if problem := config.name_error(spec.model):
            raise InputError(f"the model of {spec.name}: {problem}")
        models |= {config.split(choice.model)[1] for choice in candidate_models(spec, chosen)}

    def unpriced(prices: Prices) -> list[str]:
        return sorted(model for model in models if price_of(prices, model) is None)

    if required_prices is not None and (unknown := unpriced(required_prices)):
        raise InputError(
            f"--max-usd needs a price of {', '.join(unknown)}; {PRICES_FILE} in .diffcourt/ of "
            f"base can name one, which counts if you {HOW_TO_ALLOW_SPENDING}"
        )
    notes = [
        f"no price is known for {model}, so its budget counts tokens only; {PRICES_FILE} in "
        ".diffcourt/ can name one"
        for model in unpriced(catalog.prices)
    ]
    if len(vendors) > 1:
        whom = "; ".join(f"{vendor} for {', '.join(who)}" for vendor, who in vendors.items() if who)
        down = f"one that is down is replaced by another of {', '.join(able)}"
        notes.append(f"the change is sent to {whom}; {down}")

    def first(spec: AgentSpec) -> ModelChoice:  # so that scores of different judges are not mixed
        return replace(chosen(spec), next_stages=())

    return first if agents else chosen, tuple(vendors), tuple(notes)
