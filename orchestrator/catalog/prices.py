"""What models cost (``config/prices.yaml``)."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Annotated, TypeVar

from msgspec import Meta
from msgspec.structs import replace

from orchestrator.catalog.data_file_layers import Layer, locate_text, read_merged
from orchestrator.catalog.model_config import find_by_model
from orchestrator.engine.field_types import NonEmptyStr, PositiveInt, Strict
from orchestrator.errors import ConfigError

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


R = TypeVar("R", bound=Rates)


class LongRates(Rates, frozen=True):
    """The rates of a request with more than ``above`` input tokens, for all of its tokens."""

    above: PositiveInt


class Price(Rates, frozen=True, kw_only=True):
    """What a model costs.

    Attributes:
        long: the rates of long requests, None when all cost the same.
        batch: all rates of a request in a batch, as a part of the others.
    """

    long: LongRates | None = None
    batch: Annotated[float, Meta(gt=0, le=1)] = 1.0
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


def load_prices(layers: Sequence[Layer]) -> Prices:
    """Read what models cost, all layers merged."""
    prices = read_merged(layers, PRICES_FILE, PricesFile).prices
    for error in find_lowered_prices(prices, layers):
        raise error
    return prices


def find_lowered_prices(prices: Prices, layers: Sequence[Layer]) -> Iterator[ConfigError]:
    """An error for each rate below the shipped one: bounds in US dollars would then not hold.

    Args:
        prices: all layers merged.
        layers: lowest first, the lowest is the shipped one.
    """
    if len(layers) < 2:
        return
    shipped = read_merged(layers[:1], PRICES_FILE, PricesFile).prices
    for model, price in prices.items():
        known = price_of(shipped, model)
        if known is None or known == price:
            continue
        compared = [
            (rate, getattr(price.at(tokens), rate), getattr(known.at(tokens), rate))
            for tokens in ((0, known.long.above + 1) if known.long else (0,))
            for rate in Rates.__struct_fields__
        ]
        for rate, ours, least in [*compared, ("batch", price.batch, known.batch)]:
            if ours < least:
                yield ConfigError(
                    f"prices.{model}.{rate} is {ours:g}, below the shipped {least:g}; "
                    "a repository may only raise a known price",
                    *locate_text(layers, PRICES_FILE, model),
                )
                break


def batch_prices(prices: Prices) -> Prices:
    """What requests in a batch cost."""

    def reduced(rates: R, part: float) -> R:
        return replace(rates, **{n: getattr(rates, n) * part for n in Rates.__struct_fields__})

    return {
        model: replace(reduced(p, p.batch), long=p.long and reduced(p.long, p.batch), batch=1.0)
        for model, p in prices.items()
    }


def price_of(prices: Prices, model: str) -> Price | None:
    """The price of a model; None when it is not known."""
    return find_by_model(prices, model)
