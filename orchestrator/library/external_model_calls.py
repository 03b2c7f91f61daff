"""Model calls of another framework, booked on the harness's account."""

from collections.abc import Awaitable, Callable
from typing import Any

from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.catalog.prices import Price, load_prices, price_of
from orchestrator.engine.budget import Account, Cost, Reservation
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.errors import InputError
from orchestrator.providers.call_costs import max_call_cost


class ModelCall:
    """One call of a model that the caller makes; ``record`` says what it used.

    >>> async def ask(call: ModelCall) -> str:
    ...     call.record(input_tokens=700, output_tokens=20, usd=0.01)
    ...     return "It burns."
    >>> async def main():
    ...     async with Harness.open(None, "run-1", bounds=Bounds(tokens=1500)) as harness:
    ...         limits = {"input_tokens": 800, "max_tokens": 200, "usd": 0.05}
    ...         print(await harness.model_call(ask, model="ours", **limits), harness.left().tokens)
    >>> anyio.run(main)
    It burns. 780.0

    Attributes:
        worst: the reservation, which is booked if nothing is recorded.
    """

    def __init__(self, worst: Cost, price: Price | None) -> None:
        self.worst, self.cost = worst, worst
        self._price = price

    def record(self, *, input_tokens: int, output_tokens: int, usd: float | None = None) -> None:
        """Record what the call used, as its provider reports it.

        Args:
            usd: US dollars; by default at the model's price, or else the reserved amount.

        Raises:
            InputError: an amount is negative or not a number.
        """
        if usd is None and self._price is not None:
            usd = max_call_cost(self._price, input_tokens, output_tokens)
        used = Cost(tokens=input_tokens), Cost(tokens=output_tokens)  # each is checked
        self.cost = Cost(
            1, 0, used[0].tokens + used[1].tokens, self.worst.usd if usd is None else usd
        )


Ask = Callable[[ModelCall], Awaitable[Any]]


async def book_model_call(
    ask: Ask,
    journal: Journal,
    account: Account,
    key: Key,
    *,
    model: str,
    input_tokens: int,
    max_tokens: int,
    usd: float | None,
) -> Any:
    """Make a model call as an effect; see ``Harness.model_call``."""
    price = price_of(load_prices([read_shipped_layer()]), model.rpartition(":")[2])
    if usd is None and price is not None:
        usd = max_call_cost(price, input_tokens, max_tokens)
    if usd is None and account.left("usd") < float("inf"):
        raise InputError(
            f"the price of {model} is unknown; give usd=, the maximum cost of the call"
        )
    sizes = Cost(tokens=input_tokens), Cost(tokens=max_tokens)
    worst = Cost(1, 0, sizes[0].tokens + sizes[1].tokens, usd or 0.0)

    async def admit() -> tuple[ModelCall, Reservation]:
        return ModelCall(worst, price), account.reserve(worst)

    async def perform(call: ModelCall) -> EffectResult:
        value = await ask(call)
        return EffectResult(value, call.cost)

    request = {"model": model, "input_tokens": input_tokens, "max_tokens": max_tokens}
    return await journal.effect(key, request, perform, admit=admit)
