"""Models by name for programs: opened when an agent first needs one, closed with the harness."""

import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.catalog.model_config import load_models
from orchestrator.catalog.prices import load_prices
from orchestrator.engine.journal import Journal
from orchestrator.engine.model_call_events import call_listener
from orchestrator.engine.model_routing import ModelChoice, choose_named_model
from orchestrator.engine.observer_events import Observer
from orchestrator.engine.ports import Model
from orchestrator.engine.types import AgentSpec
from orchestrator.errors import InputError
from orchestrator.providers.factory import make_model
from orchestrator.providers.model_selection import choose_model

Opened = tuple[Model, str, Callable[[AgentSpec], ModelChoice]]
"""A model, its name in an agent's spec, and the function that chooses its settings."""


class Models:
    """The models of one run, one client for each provider.

    Args:
        closing: closes the clients.
        default: for agents that name none.
    """

    def __init__(
        self,
        journal: Journal,
        observer: Observer,
        closing: AsyncExitStack,
        *,
        default: str | Model | None,
    ) -> None:
        self._journal, self._observer, self._closing = journal, observer, closing
        self._default = default
        self._open: dict[str, Model] = {}

    async def open(self, model: str | Model | None, agent: str) -> Opened:
        """The model that an agent names.

        Raises:
            InputError: it names none, or the provider's key is missing.
            ConfigError: there is no such provider, or it has no such model.
        """
        model = self._default if model is None else model
        if model is None:
            raise InputError(f"agent {agent} has no model; name one, such as 'anthropic:strong'")
        if not isinstance(model, str):
            return model, model.name, choose_named_model
        sources = [read_shipped_layer()]
        config = load_models(sources)
        provider, name = config.split(model)
        problem = config.name_error(model)
        if problem or not provider:
            form = f"a model is named provider:model, not {model!r}"
            raise InputError(f"agent {agent}: {problem or form}")
        config.resolve(provider, name, os.environ)
        if provider not in self._open:
            events = call_listener(self._journal, self._observer)
            opening = make_model(
                provider, config, load_prices(sources), env=os.environ, on_event=events
            )
            self._open[provider] = await self._closing.enter_async_context(opening)
        choose = partial(choose_model, config, provider, os.environ)
        return self._open[provider], name, choose
