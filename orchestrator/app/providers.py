"""Which model answers: providers by name, opened when chosen and closed at the end."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.settings import OFFLINE, Settings
from orchestrator.engine.context import Choice, as_named
from orchestrator.engine.models import PRICES_FILE, ModelsConfig, price_of
from orchestrator.engine.types import AgentSpec
from orchestrator.errors import InputError
from orchestrator.providers.factory import make_model
from orchestrator.providers.offline import OfflineModel
from orchestrator.review.crew import crew
from orchestrator.review.opening import Serving


@asynccontextmanager
async def serve(settings: Settings, catalog: Catalog) -> AsyncIterator[Serving]:
    """The model that the settings name, for the time of a review.

    Raises:
        InputError: there is no such provider, or its key or address is missing.
        ConfigError: an agent's rung has no model; says where to name one.
    """
    choose, notes = offer(settings, catalog, os.environ)
    if settings.provider == OFFLINE:
        yield Serving(OfflineModel(), choose, notes)
        return
    made = make_model(settings.provider, catalog.models, catalog.prices, env=os.environ)
    keys = tuple(os.environ.get(entry.key_env, "") for entry in catalog.models.providers.values())
    async with made as model:
        yield Serving(model, choose, notes, keys)


def offer(
    settings: Settings, catalog: Catalog, env: Mapping[str, str]
) -> tuple[Callable[[AgentSpec], Choice], tuple[str, ...]]:
    """How agents' wishes for a model are met, and what a person should know of it.

    Raises:
        InputError: there is no such provider.
        ConfigError: an agent's rung has no model; says where to name one.
    """
    name, config = settings.provider, catalog.models
    if name == OFFLINE:
        return as_named, ()
    if name not in config.providers:
        known = ", ".join((OFFLINE, *config.providers))
        raise InputError(f"there is no provider {name!r}; there is {known}")
    choose = partial(_choice, provider=name, config=config, env=env)
    models = {choose(spec).model for spec in crew(catalog, settings)}
    unpriced = sorted(model for model in models if price_of(catalog.prices, model) is None)
    return choose, tuple(
        f"no price is known for {model}, so its budget counts tokens only; {PRICES_FILE} in "
        ".diffcourt/ can name one"
        for model in unpriced
    )


def _choice(
    spec: AgentSpec, *, provider: str, config: ModelsConfig, env: Mapping[str, str]
) -> Choice:
    model = config.resolve(provider, spec.model, env)
    window = config.window(model)
    chosen = Choice(model, window=window, progressive=config.provider(provider).can.asides)
    if config.is_rung(spec.model):
        rung = config.rung(spec.model)
        chosen = replace(chosen, max_tokens=rung.max_tokens, effort=rung.effort)
    # What is answered needs room beside the answer.
    return replace(chosen, max_tokens=min(chosen.max_tokens, window // 2))
