"""Opens the model that answers the agents, by provider, and routes agents to models."""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from orchestrator.app.configuration_consent import HOW_TO_ALLOW_SPENDING
from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.prices import PRICES_FILE, Prices, price_of
from orchestrator.catalog.settings import ReviewSettings
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.code_review.agents.judging import participants
from orchestrator.code_review.review_setup import OpenModel
from orchestrator.engine.journal import Journal
from orchestrator.engine.model_call_events import EventForwarder
from orchestrator.engine.model_routing import ModelChoice, candidate_models, choose_named_model
from orchestrator.engine.observer_events import Observer, ignore_event
from orchestrator.engine.types import AgentSpec
from orchestrator.errors import InputError
from orchestrator.providers.factory import make_model
from orchestrator.providers.model_selection import choose_model
from orchestrator.providers.offline import OfflineModel


@asynccontextmanager
async def open_model(
    settings: ReviewSettings,
    catalog: Catalog,
    journal: Journal,
    observer: Observer = ignore_event,
    *,
    required_prices: Prices | None = None,
) -> AsyncIterator[OpenModel]:
    """Open the model that the settings name; retries and lost calls are recorded in the journal.

    API keys are never recorded.

    Args:
        required_prices: as for ``route_agents``.

    Raises:
        InputError: there is no such provider, or its key or address is missing.
        ConfigError: an agent's stage has no model; says where to name one.
    """
    chosen, notes = route_agents(settings, catalog, os.environ, required_prices)
    if settings.provider == OFFLINE:
        yield OpenModel(OfflineModel(), chosen, notes)
        return
    calls, name = EventForwarder(), settings.provider
    made = make_model(name, catalog.models, catalog.prices, env=os.environ, on_event=calls)
    entries = catalog.models.providers.values()
    journal.redact.add(os.environ.get(entry.key_env, "") for entry in entries)
    calls.listen(journal, observer)
    async with made as model:
        yield OpenModel(model, chosen, notes)


def route_agents(
    settings: ReviewSettings,
    catalog: Catalog,
    env: Mapping[str, str],
    required_prices: Prices | None = None,
) -> tuple[Callable[[AgentSpec], ModelChoice], tuple[str, ...]]:
    """The function that chooses an agent's model, and notes about the models for a person.

    Args:
        required_prices: each model must have one of these prices; None: one without gets a note.

    Raises:
        InputError: there is no such provider, or a model has no price and must have one.
        ConfigError: an agent's stage has no model; says where to name one.
    """
    name, config = settings.provider, catalog.models
    if name == OFFLINE:
        return choose_named_model, ()
    if name not in config.providers:
        known = ", ".join((OFFLINE, *config.providers))
        raise InputError(f"there is no provider {name!r}; known: {known}")
    chosen = partial(choose_model, config, name, env)
    agents = participants(catalog, settings)
    models = {choice.model for spec in agents for choice in candidate_models(spec, chosen)}
    if required_prices is not None:
        _require_prices(required_prices, models)
    unpriced = sorted(model for model in models if price_of(catalog.prices, model) is None)
    return chosen, tuple(
        f"no price is known for {model}, so its budget counts tokens only; {PRICES_FILE} in "
        ".diffcourt/ can name one"
        for model in unpriced
    )


def _require_prices(prices: Prices, models: Iterable[str]) -> None:
    """Check that each model has a price."""
    unpriced = sorted(model for model in models if price_of(prices, model) is None)
    if unpriced:
        raise InputError(
            f"--max-usd needs a price of {', '.join(unpriced)}; {PRICES_FILE} in .diffcourt/ of "
            f"base can name one, which counts if you {HOW_TO_ALLOW_SPENDING}"
        )
