"""Models and prices (``config/models.yaml``, ``config/prices.yaml``), and how they become data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field, model_validator

from orchestrator.catalog.catalog import merged
from orchestrator.catalog.fields import Amount, Count, Unit, Words
from orchestrator.catalog.source import Source, versions
from orchestrator.catalog.yamlfile import Strict, tree
from orchestrator.engine.models import (
    HUMAN,
    MODELS_FILE,
    PRICES_FILE,
    CallPolicy,
    Capabilities,
    ModelsConfig,
    Price,
    Prices,
    Provider,
    Rates,
    Rung,
)

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Dollars = Annotated[float, Field(ge=0)]
Variable = Annotated[str, Field(pattern="^[A-Z][A-Z0-9_]*$")]

_SECRET_BOUND = ("key", "base_url", "base_url_env", "api")


class RungEntry(Strict):
    """One step of the ladder; each key is explained in ``config/models.yaml``."""

    name: Words
    model: Words | None = None
    strategy: str = ""
    effort: Effort | None = None
    max_tokens: Annotated[int, Field(ge=1, le=128_000)] = 16_000
    floor: Unit = 0.0

    @property
    def rung(self) -> Rung:
        """As the engine has it."""
        return Rung(
            self.name,
            self.model or self.name,
            self.strategy,
            self.effort,
            self.max_tokens,
            self.floor,
        )


class CapabilityFlags(Strict):
    """What a server can do."""

    schemas: Literal["strict", "loose", "json", "none"]
    schemas_with_tools: bool
    tool_calls: Literal["native", "text"]
    parallel_calls: bool
    forced_calls: bool
    effort: bool
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    think_tags: bool = False
    returns_reasoning: bool = False


class ProviderEntry(Strict):
    """One provider."""

    api: Literal["messages", "responses", "chat"]
    key: Variable
    key_required: bool = True
    base_url: str = ""
    base_url_env: Variable
    model_env: Variable | None = None
    models: dict[str, Words]
    can: CapabilityFlags

    def provider(self, name: str) -> Provider:
        """As the engine has it."""
        return Provider(
            name=name,
            api=self.api,
            key_env=self.key,
            key_required=self.key_required,
            base_url=self.base_url,
            base_url_env=self.base_url_env,
            model_env=self.model_env or "",
            models=MappingProxyType(dict(self.models)),
            can=Capabilities(**self.can.model_dump()),
        )


class BreakerEntry(Strict):
    """When nobody calls for a while; ``cooldown`` in seconds."""

    failures: Count
    cooldown: Amount


class CallsEntry(Strict):
    """How patient a call is; times in seconds."""

    attempts: Count
    timeout: Amount
    deadline: Amount
    first_wait: Amount
    longest_wait: Amount
    breaker: BreakerEntry

    @property
    def policy(self) -> CallPolicy:
        """As the engine has it."""
        own = self.model_dump(exclude={"breaker"})
        breaker = self.breaker
        return CallPolicy(
            **own, breaker_failures=breaker.failures, breaker_cooldown=breaker.cooldown
        )


class ModelsFile(Strict):
    """The whole of ``config/models.yaml``."""

    ladder: Annotated[tuple[RungEntry, ...], Field(min_length=1)]
    providers: dict[str, ProviderEntry]
    calls: CallsEntry

    @model_validator(mode="after")
    def _sound(self) -> ModelsFile:
        names = [entry.name for entry in self.ladder]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"the ladder names {', '.join(twice)} twice; allowed: once")
        if HUMAN in names[:-1]:
            raise ValueError(f"the rung {HUMAN!r} is a person and can only be the last")
        for entry in self.ladder:
            if entry.model is not None and entry.model not in names:
                raise ValueError(
                    f"the rung {entry.name!r} takes the models of {entry.model!r}, which is no "
                    f"rung; allowed: {', '.join(names)}"
                )
        for name, provider in self.providers.items():
            unknown = sorted(set(provider.models) - set(names))
            if unknown:
                raise ValueError(
                    f"providers.{name}.models names {', '.join(unknown)}, which is no rung; "
                    f"allowed: {', '.join(names)}"
                )
        return self


class RatesEntry(Strict):
    """US dollars per million tokens."""

    input: Dollars
    output: Dollars
    cached: Dollars
    cache_write: Dollars

    @property
    def rates(self) -> Rates:
        """As the engine has it."""
        return Rates(self.input, self.output, self.cached, self.cache_write)


class LongEntry(RatesEntry):
    """The rates of a request with more than ``above`` input tokens, for all of its tokens."""

    above: Count


class PriceEntry(RatesEntry):
    """What one model costs, where that was read, and when."""

    long: LongEntry | None = None
    source: Words
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]

    @model_validator(mode="after")
    def _long_is_dearer(self) -> PriceEntry:
        # A worst case is priced by an estimate that may be too high: dearer must mean "more".
        if self.long and any(
            getattr(self.long, name) < getattr(self, name)
            for name in ("input", "output", "cached", "cache_write")
        ):
            raise ValueError("a rate under long may not be lower than the same rate above it")
        return self


class PricesFile(Strict):
    """The whole of ``config/prices.yaml``."""

    prices: dict[str, PriceEntry]


def load_models(sources: Sequence[Source]) -> ModelsConfig:
    """The ladder and the providers, all layers merged.

    Raises:
        ConfigError: the first fault; or a layer above the shipped one says where keys go.
    """
    for source in sources[1:]:
        _refuse_redirection(source)
    file = merged(sources, MODELS_FILE, ModelsFile)
    providers = {name: entry.provider(name) for name, entry in file.providers.items()}
    return ModelsConfig(
        tuple(entry.rung for entry in file.ladder), MappingProxyType(providers), file.calls.policy
    )


def load_prices(sources: Sequence[Source]) -> Prices:
    """What models cost, all layers merged.

    Raises:
        ConfigError: the first fault.
    """
    file = merged(sources, PRICES_FILE, PricesFile)
    return MappingProxyType({name: _price(entry) for name, entry in file.prices.items()})


def _price(entry: PriceEntry) -> Price:
    return Price(
        entry.rates,
        entry.source,
        entry.date,
        entry.long.above if entry.long else None,
        entry.long.rates if entry.long else None,
    )


def _refuse_redirection(source: Source) -> None:
    """A repository may choose models; where a person's key is sent is the person's to say.

    Whoever reviews a stranger's repository would otherwise send their key wherever it asks.
    """
    for file in versions([source], MODELS_FILE):
        providers = tree(file.data, file.shown).at("providers").data
        if not isinstance(providers, Mapping):
            continue
        for name, node in providers.items():
            for key in _SECRET_BOUND:
                if isinstance(node.data, Mapping) and key in node.data:
                    raise node.fault(
                        f"providers.{name}.{key} decides where a key goes, so a repository may "
                        "not set it; set the provider's environment variables instead",
                        key,
                    )
