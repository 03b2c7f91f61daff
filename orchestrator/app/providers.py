"""Which model answers: providers by name, opened when chosen and closed at the end."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.settings import OFFLINE, Settings
from orchestrator.engine.agent import Choice
from orchestrator.engine.models import ModelsConfig
from orchestrator.engine.types import AgentSpec
from orchestrator.errors import InputError
from orchestrator.providers.factory import make_model
from orchestrator.providers.offline import OfflineModel
from orchestrator.review.opening import Serving


@asynccontextmanager
async def serve(settings: Settings, catalog: Catalog) -> AsyncIterator[Serving]:
    """The model that the settings name, for the time of a review.

    Raises:
        InputError: there is no such provider, or its key or address is missing.
        ConfigError: an agent's rung has no model; says where to name one.
    """
    name = settings.provider
    if name == OFFLINE:
        yield Serving(OfflineModel())
        return
    config = catalog.models
    if name not in config.providers:
        known = ", ".join((OFFLINE, *config.providers))
        raise InputError(f"there is no provider {name!r}; there is {known}")
    async with make_model(name, config, catalog.prices, env=os.environ) as model:
        yield Serving(model, lambda spec: _choice(spec, name, config))


def _choice(spec: AgentSpec, provider: str, config: ModelsConfig) -> Choice:
    model = config.resolve(provider, spec.model, os.environ)
    if not config.is_rung(spec.model):
        return Choice(model)
    rung = config.rung(spec.model)
    return Choice(model, rung.max_tokens, rung.effort)
