"""Budgets by *reserve, then settle*.

The worst case of a call is reserved in the account and in every account above it, in one step with
no await in it, so parallel agents cannot overdraw together. After the call the reservation is
settled at what it really cost, or refunded. Spending is never above the limit because nothing
starts that might take it there.
"""

import math
from collections.abc import Callable, Mapping
from operator import add

from msgspec import Struct
from msgspec.structs import asdict, astuple, replace

from orchestrator.engine.field_types import check_amounts
from orchestrator.engine.ports import Model
from orchestrator.engine.types import Bounds, Json, Request
from orchestrator.errors import BudgetExhausted

_NUMBERS = frozenset((int, float))

THE_LIMIT = ", the limit is "
"""What every text about a limit that was met says."""


class Cost(Struct, frozen=True):
    """What calls cost: turns, tool calls, tokens, US dollars."""

    # Not float alone: an int in a journal is read as an int.
    turns: int | float = 0
    tool_calls: int | float = 0
    tokens: int | float = 0
    usd: int | float = 0.0

    def __post_init__(self) -> None:
        # Costs are made in each turn, so an int or float is accepted without a further check.
        for part in astuple(self):
            if type(part) not in _NUMBERS or not 0 <= part < math.inf:
                check_amounts(self, *self.__struct_fields__)

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*map(add, astuple(self), astuple(other)))

    def to_json(self) -> dict[str, float]:
        """The parts that are not zero."""
        return {name: value for name, value in asdict(self).items() if value}


NO_COST = Cost()


class Account:
    """A budget within the budgets above it.

    Args:
        name: used in messages.
        bounds: the limits; ``seconds`` counts from ``started``.
        parent: the account that this one draws on as well.
        used: what was spent before (a resumed run).
        elapsed: seconds of wall time used so far, over all sessions of the run.
    """

    def __init__(
        self,
        name: str,
        bounds: Bounds,
        *,
        parent: "Account | None" = None,
        used: Cost = NO_COST,
        elapsed: Callable[[], float] | None = None,
    ) -> None:
        self.name, self.bounds = name, bounds
        self._limits, self._used, self._held = asdict(bounds), asdict(used), asdict(NO_COST)
        self._elapsed = elapsed
        self._chain: tuple[Account, ...] = (self, *parent._chain) if parent else (self,)

    @property
    def used(self) -> Cost:
        """What settled calls used."""
        return Cost(**self._used)

    @property
    def held(self) -> Cost:
        """What is reserved for calls under way."""
        return Cost(**self._held)

    def seconds_left(self) -> float:
        """Wall time left in this account and those above it; ``inf`` without a limit."""
        clocks = [(one.bounds.seconds, one._elapsed) for one in self._chain if one._elapsed]
        return min([seconds - elapsed() for seconds, elapsed in clocks], default=math.inf)

    def left(self, dimension: str) -> float:
        """What can still be reserved of a dimension (``turns``, ``usd``), here and above."""
        free = [
            one._limits[dimension] - (one._used[dimension] + one._held[dimension])
            for one in self._chain
        ]
        return float(min(free))

    def reserve(self, worst: Cost) -> "Reservation":
        """Reserve the worst case of a call in this account and all above it, or in none.

        Raises:
            BudgetExhausted: it does not fit; names the account and the dimension.
        """
        amounts = worst.to_json()
        for account in self._chain:
            account._check(amounts)
        for account in self._chain:
            for dimension, amount in amounts.items():
                account._held[dimension] += amount
        return Reservation(self, worst, amounts)

    def _check(self, amounts: Mapping[str, float]) -> None:
        if self._elapsed and self._elapsed() >= (limit := self.bounds.seconds):
            raise BudgetExhausted(f"{self.name}: its {limit:g} s of wall time are used up")
        for dimension, amount in amounts.items():
            would = self._used[dimension] + self._held[dimension] + amount
            if would > (limit := self._limits[dimension]):
                reaches = f"{dimension} would reach {would:g}{THE_LIMIT}{limit:g}"
                raise BudgetExhausted(f"{self.name}: {reaches}")


class Reservation:
    """A reserved worst case; it is settled or refunded once, later calls do nothing.

    Attributes:
        amounts: the parts of the worst case that are not zero.
        effective: the arguments of the call, if guards or its schema changed them.
    """

    def __init__(self, account: Account, worst: Cost, amounts: dict[str, float]) -> None:
        self._account, self.worst, self.amounts, self._open = account, worst, amounts, True
        self.effective: Json = None

    def settle(self, actual: Cost) -> dict[str, float]:
        """Release the reservation and book what was used; returns its parts that are not zero."""
        used = self.amounts if actual is self.worst else actual.to_json()
        if self._open:
            self._open = False
            for account in self._account._chain:
                held, spent = account._held, account._used
                for dimension, amount in self.amounts.items():
                    # Not below zero: of money, the last digit may be off.
                    held[dimension] = max(held[dimension] - amount, 0)
                for dimension, amount in used.items():
                    spent[dimension] += amount
        return used

    def refund(self) -> None:
        """Release the reservation: nothing was used."""
        self.settle(NO_COST)


def max_output_that_fits(model: Model, request: Request, tokens: float, usd: float) -> int:
    """The largest output limit, at most the request's own, whose worst case fits.

    Args:
        tokens, usd: what is left of the budget (``Account.left``); ``inf`` without a limit.

    Returns:
        The limit in tokens; 0 when not even one token fits.
    """
    full = model.worst_case(request)
    if full.tokens <= tokens and full.usd <= usd:
        return request.max_tokens
    least = model.worst_case(replace(request, max_tokens=1))
    if least.tokens > tokens or least.usd > usd:
        return 0
    price = (full.usd - least.usd) / (full.output_tokens - least.output_tokens)
    room = min(tokens - least.tokens, (usd - least.usd) / price if price else math.inf)
    limit = min(request.max_tokens, least.output_tokens + math.floor(room))
    # Floating point may be off by the price of a token.
    fits = model.worst_case(replace(request, max_tokens=limit))
    return limit if fits.usd <= usd else limit - 1
