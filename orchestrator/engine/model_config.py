"""Which models there are, as data: escalation stages, who serves them, and what they cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeVar

from msgspec import Struct, field

from orchestrator.errors import ConfigError

MODELS_FILE = "config/models.yaml"
PRICES_FILE = "config/prices.yaml"

HUMAN = "human"
"""The stage that is a person."""

T = TypeVar("T")

_SNAPSHOT = re.compile(r"-\d{4}-?\d{2}-?\d{2}$")


class Stage(Struct, frozen=True):
    """One escalation stage: the model and settings that a task is tried with.

    Attributes:
        model: the stage whose models it uses; its own name unless it only changes the strategy.
        strategy: what the agent is told in addition, empty for nothing.
        effort: how hard the model should think (``low``, ``medium``, ...), None for its default.
        max_tokens: the most one answer may have, thinking included.
        min_score: a judge's score below it escalates to the next stage, 0 to 1.
    """

    name: str
    model: str
    strategy: str = ""
    effort: str | None = None
    max_tokens: int = 16_000
    min_score: float = 0.0


class Capabilities(Struct, frozen=True):
    """What a server of some API can do; what it cannot is done another way.

    Attributes:
        schemas: how it takes a report's JSON Schema: it holds the answer to it (``strict``), is
            only guided by it (``loose``), knows "some JSON" (``json``), or nothing (``none``). All
            but ``strict`` are also told the schema in words.
        schemas_with_tools: it takes a schema in a request that also offers tools.
        tool_calls: ``native``, or as marked ``text``.
        parallel_calls: one answer may hold several calls.
        forced_calls: it can be made to call a tool.
        effort: it takes an effort.
        max_tokens_field: the name of that parameter (Chat Completions only).
        think_tags: what stands in a leading ``<think>`` element is reasoning, not answer.
        returns_reasoning: wants its reasoning back with the next request.
        asides: it can be told something for one turn alone (``types.Aside``).
        streams: it is asked to send its answer as it comes.
    """

    schemas: Literal["strict", "loose", "json", "none"] = "strict"
    schemas_with_tools: bool = True
    tool_calls: Literal["native", "text"] = "native"
    parallel_calls: bool = True
    forced_calls: bool = True
    effort: bool = True
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    think_tags: bool = False
    returns_reasoning: bool = False
    asides: bool = True
    streams: bool = True


class Provider(Struct, frozen=True):
    """A service that answers requests.

    Attributes:
        api: which of the three HTTP APIs it speaks: Anthropic Messages, OpenAI Responses, or
            OpenAI Chat Completions.
        key_env: the environment variable that holds the key.
        key_required: False for a server that may do without.
        base_url: where it is; empty when only ``base_url_env`` says so.
        base_url_env: the environment variable that names another place.
        model_env: the environment variable that names the model of every stage that has none,
            empty for no such thing.
        models: stage → model.
    """

    name: str
    api: Literal["messages", "responses", "chat"]
    key_env: str
    base_url_env: str
    key_required: bool = True
    base_url: str = ""
    model_env: str = ""
    models: Mapping[str, str] = field(default_factory=dict)
    can: Capabilities = Capabilities()


class CallPolicy(Struct, frozen=True):
    """How patient a call is. Times in seconds.

    Attributes:
        attempts: tries of one call, the first included.
        timeout: one try; of an answer that is streamed, the longest silence in it.
        deadline: all tries of one call and the waits between them.
        first_wait, longest_wait: pauses grow from one to the other; jitter comes on top.
        breaker_failures: failures in a row after which nobody calls for a while.
        breaker_cooldown: that while.
    """

    attempts: int = 5
    timeout: float = 180.0
    deadline: float = 300.0
    first_wait: float = 1.0
    longest_wait: float = 30.0
    breaker_failures: int = 5
    breaker_cooldown: float = 20.0


class ModelsConfig(Struct, frozen=True):
    """Escalation stages, cheapest first, providers by name, and the retries of calls.

    Attributes:
        windows: model → tokens of a request and its answer together.
        default_window: the same for a model that is not among them.
    """

    stages: tuple[Stage, ...]
    providers: Mapping[str, Provider]
    calls: CallPolicy = CallPolicy()
    windows: Mapping[str, int] = field(default_factory=dict)
    default_window: int = 128_000

    def stage(self, name: str) -> Stage:
        """A stage by name.

        Raises:
            ConfigError: there is no stage of that name.
        """
        for stage in self.stages:
            if stage.name == name:
                return stage
        names = ", ".join(stage.name for stage in self.stages)
        raise ConfigError(f"there is no stage {name!r}; there is {names}", MODELS_FILE)

    def is_stage(self, name: str) -> bool:
        """Whether a name is a stage, and not a model's own name."""
        return any(stage.name == name for stage in self.stages)

    def resolve(self, provider: str, name: str, env: Mapping[str, str]) -> str:
        """The model behind a stage; any other name is a model's own name and stays as it is.

        Raises:
            ConfigError: the provider has no model for the stage; says where to name one.
        """
        chosen = self.served(provider, name, env)
        if not chosen:
            where = f"name one under providers.{provider}.models"
            model_env = self.provider(provider).model_env
            also = f", or set {model_env}" if model_env else ""
            raise ConfigError(f"{provider} has no model for {name!r}; {where}{also}", MODELS_FILE)
        return chosen

    def served(self, provider: str, name: str, env: Mapping[str, str]) -> str:
        """The same, empty where the provider has no model for the stage."""
        if not self.is_stage(name):
            return name
        served = self.provider(provider)
        chosen = served.models.get(self.stage(name).model) or env.get(served.model_env, "").strip()
        return "" if name == HUMAN else chosen

    def provider(self, name: str) -> Provider:
        """A provider by name.

        Raises:
            ConfigError: there is none of that name.
        """
        if name not in self.providers:
            known = ", ".join(self.providers)
            raise ConfigError(f"there is no provider {name!r}; there is {known}", MODELS_FILE)
        return self.providers[name]

    def window(self, model: str) -> int:
        """Tokens of a request of this model and its answer; a dated snapshot has its name's."""
        return _by_name(self.windows, model) or self.default_window


class Rates(Struct, frozen=True):
    """US dollars per million tokens.

    Attributes:
        cached: input that was read from the provider's cache.
        cache_write: input that was written to it.
    """

    input: float
    output: float
    cached: float
    cache_write: float


class Price(Struct, frozen=True):
    """What a model costs.

    Attributes:
        long_from: a request with more input tokens than this is charged ``long`` as a whole.
        source: where the figures were read.
        date: when, as YYYY-MM-DD.
    """

    rates: Rates
    source: str
    date: str
    long_from: int | None = None
    long: Rates | None = None

    def at(self, input_tokens: int) -> Rates:
        """The rates for a request of that size."""
        if self.long is not None and self.long_from is not None and input_tokens > self.long_from:
            return self.long
        return self.rates


Prices = Mapping[str, Price]
"""Model → price."""


def price_of(prices: Prices, model: str) -> Price | None:
    """A model's price; a dated snapshot (``name-2026-09-29``) costs what its name costs."""
    return _by_name(prices, model)


def _by_name(entries: Mapping[str, T], model: str) -> T | None:
    return entries.get(model) or entries.get(_SNAPSHOT.sub("", model))
