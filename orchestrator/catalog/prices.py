"""What models cost (``config/prices.yaml``)."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated

from msgspec import Meta

from orchestrator.catalog.data_file_layers import Layer, read_merged
from orchestrator.catalog.model_config import find_by_model
from orchestrator.engine.field_types import NonEmptyStr, PositiveInt, Strict

PRICES_FILE = "config/prices.yaml"

Dollars = Annotated[float, Meta(ge=0)]


class Rates(Strict, frozen=True):
    """US dollars per million tokens.

    Attributes:
        cached: input that was read from the provider's cache.
        cache_write: input that was written to it.
    """

    input: Dollars
    output: Dollars
    cached: Dollars
    cache_write: Dollars


class LongRates(Rates, frozen=True):
    """The rates of a request with more than ``above`` input tokens, for all of its tokens."""

    above: PositiveInt


class Price(Rates, frozen=True, kw_only=True):
    """What a model costs.

    Attributes:
        long: the rates of long requests, None when all cost the same.
    """

    long: LongRates | None = None
    source: NonEmptyStr
    date: date

    def at(self, input_tokens: int) -> Rates:
        """The rates of a request with that many input tokens."""
        return self.long if self.long and input_tokens > self.long.above else self

    def __post_init__(self) -> None:
        # A worst case is priced by an estimate that may be too high: dearer must mean "more".
        if self.long and any(
            getattr(self.long, name) < getattr(self, name) for name in Rates.__struct_fields__
        ):
            raise ValueError("a rate under long may not be lower than the same rate above it")


Prices = Mapping[str, Price]
"""Model → price."""


class PricesFile(Strict, frozen=True):
    """The whole of ``config/prices.yaml``."""

    prices: dict[str, Price]


def load_prices(sources: Sequence[Layer]) -> Prices:
    """Read what models cost, all layers merged.

    Raises:
        ConfigError: the first error.
    """
    return read_merged(sources, PRICES_FILE, PricesFile).prices


def price_of(prices: Prices, model: str) -> Price | None:
    """The price of a model; None when it is not known."""
    return find_by_model(prices, model)
