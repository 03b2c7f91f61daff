"""What models cost (``config/prices.yaml``)."""

from collections.abc import Sequence
from datetime import date
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta

from orchestrator.catalog.data_sources import Source
from orchestrator.catalog.layered_files import merged
from orchestrator.engine.field_types import NonEmptyStr, PositiveInt, Strict
from orchestrator.engine.model_config import PRICES_FILE, Price, Prices, Rates

Dollars = Annotated[float, Meta(ge=0)]


class RatesEntry(Strict, frozen=True):
    """US dollars per million tokens."""

    input: Dollars
    output: Dollars
    cached: Dollars
    cache_write: Dollars

    @property
    def rates(self) -> Rates:
        """As the engine has it."""
        return Rates(self.input, self.output, self.cached, self.cache_write)


class LongEntry(RatesEntry, frozen=True):
    """The rates of a request with more than ``above`` input tokens, for all of its tokens."""

    above: PositiveInt


class PriceEntry(RatesEntry, frozen=True, kw_only=True):
    """What one model costs, where that was read, and when."""

    long: LongEntry | None = None
    source: NonEmptyStr
    date: date

    @property
    def price(self) -> Price:
        """As the engine has it."""
        long = self.long
        return Price(
            self.rates,
            self.source,
            self.date.isoformat(),
            long.above if long else None,
            long.rates if long else None,
        )

    def __post_init__(self) -> None:
        # A worst case is priced by an estimate that may be too high: dearer must mean "more".
        if self.long and any(
            getattr(self.long, name) < getattr(self, name)
            for name in ("input", "output", "cached", "cache_write")
        ):
            raise ValueError("a rate under long may not be lower than the same rate above it")


class PricesFile(Strict, frozen=True):
    """The whole of ``config/prices.yaml``."""

    prices: dict[str, PriceEntry]

    @property
    def table(self) -> Prices:
        """As the engine has it."""
        return MappingProxyType({name: entry.price for name, entry in self.prices.items()})


def load_prices(sources: Sequence[Source]) -> Prices:
    """What models cost, all layers merged.

    Raises:
        ConfigError: the first fault.
    """
    return merged(sources, PRICES_FILE, PricesFile).table
