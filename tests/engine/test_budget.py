"""Budgets: what is held and used, here and above, and the longest answer that fits."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.engine.budget import Account, Cost, max_output_that_fits
from orchestrator.engine.ports import MayRetry, always_retry
from orchestrator.engine.types import Bounds, Request, Response, Usage
from orchestrator.errors import BudgetExhausted

INF = float("inf")


def test_costs_add_by_part() -> None:
    one, other = Cost(5, 6, 7, 8.0), Cost(1, 2, 3, 4.0)
    assert one + other == Cost(6, 8, 10, 12.0)


def test_a_cost_is_stored_without_its_zeros() -> None:
    assert Cost(tool_calls=1, usd=0.5).to_json() == {"tool_calls": 1, "usd": 0.5}
    assert Cost(**Cost(0, 1, 0, 0.5).to_json()) == Cost(0, 1, 0, 0.5)


def test_what_is_left_counts_what_is_used_and_held_here_and_above() -> None:
    whole = Account("whole", Bounds(tokens=100), used=Cost(tokens=10))
    part = Account("part", Bounds(tokens=60), parent=whole)
    other = Account("other", Bounds(), parent=whole)
    assert (part.left("tokens"), other.left("tokens"), part.left("usd")) == (60, 90, INF)
    held = part.reserve(Cost(tokens=50))
    assert held.effective is None  # whoever changes the arguments says so
    assert (part.left("tokens"), other.left("tokens")) == (10, 40)
    held.settle(Cost(tokens=20))
    assert (part.left("tokens"), other.left("tokens")) == (40, 70)
    other.reserve(Cost(tokens=45))
    assert part.left("tokens") == 25


def test_a_limit_can_be_reached_and_not_exceeded() -> None:
    account = Account("the run", Bounds(usd=0.5))
    with pytest.raises(BudgetExhausted) as refused:
        account.reserve(Cost(turns=1, usd=0.75))
    assert str(refused.value).endswith("the run: usd would reach 0.75, the limit is 0.5")
    account.reserve(Cost(usd=0.5))
    assert account.left("usd") == 0


def test_a_reservation_is_settled_once() -> None:
    account = Account("the run", Bounds(tokens=100))
    held = account.reserve(Cost(tokens=50))
    held.settle(Cost(tokens=20))
    held.settle(Cost(tokens=20))
    held.refund()
    assert (account.used, account.held) == (Cost(tokens=20), Cost())


def test_the_wall_time_left_shrinks_and_is_the_least_of_all_accounts() -> None:
    now = [0.0]
    run = Account("the run", Bounds(seconds=10), elapsed=lambda: now[0])
    agent = Account("agent", Bounds(seconds=3), parent=run)
    quick = Account("quick", Bounds(seconds=5), parent=run, elapsed=lambda: now[0])
    assert [a.seconds_left() for a in (run, agent, quick)] == [10, 10, 5]
    now[0] = 4.0
    assert [a.seconds_left() for a in (run, agent, quick)] == [6, 6, 1]
    assert Account("unbounded", Bounds(seconds=3)).seconds_left() == INF


def test_wall_time_is_a_budget_too() -> None:
    now = [9.0]
    account = Account("the run", Bounds(seconds=10), elapsed=lambda: now[0])
    account.reserve(Cost(tool_calls=1))
    now[0] = 10.0
    with pytest.raises(BudgetExhausted) as refused:
        account.reserve(Cost(tool_calls=1))
    assert str(refused.value).endswith("the run: its 10 s of wall time are used up")
    assert account.held == Cost(tool_calls=1)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.integers(0, 5),
            st.sampled_from(["settle", "less", "refund", "twice", "keep"]),
        ),
        max_size=60,
    )
)
def test_a_budget_is_conserved_whatever_happens(moves: list[tuple[int, int, str]]) -> None:
    whole = Account("whole", Bounds(tool_calls=10, tokens=40))
    parts = [Account(f"part{n}", Bounds(tool_calls=4), parent=whole) for n in range(5)]
    kept, spent = Cost(), Cost()
    for who, tokens, how in moves:
        worst = Cost(tool_calls=1, tokens=tokens)
        before = whole.used + whole.held
        try:
            held = parts[who].reserve(worst)
        except BudgetExhausted:
            assert whole.used + whole.held == before  # all accounts or none
            continue
        actual = Cost(tool_calls=1, tokens=tokens // 2) if how == "less" else worst
        if how == "keep":
            kept = kept + worst
        elif how == "refund":
            held.refund()
        else:
            held.settle(actual)
            spent = spent + actual
        if how == "twice":
            held.settle(actual)
            held.refund()
        assert (whole.used, whole.held) == (spent, kept)
        assert whole.left("tool_calls") >= 0
        assert whole.left("tokens") >= 0
        assert all(part.used.tool_calls + part.held.tool_calls <= 4 for part in parts)


class PricedModel:
    """A model whose worst case is a line: 100 tokens and USD ``base``, ``price`` for each more.

    Like some providers it never answers with a limit below ``least`` tokens.
    """

    name = "priced"

    def __init__(self, base: float = 0.5, price: float = 0.25, least: int = 1) -> None:
        self._base, self._price, self._least = base, price, least

    async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
        raise AssertionError

    def worst_case(self, request: Request) -> Usage:
        output = max(request.max_tokens, self._least)
        return Usage(100, output, usd=self._base + self._price * output)


@pytest.mark.parametrize(
    ("model", "asked", "tokens", "usd", "limit"),
    [
        ({}, 50, INF, INF, 50),
        ({}, 50, 150, 13.0, 50),
        # One limit binds, then the other, then both.
        ({}, 50, 149, INF, 49),
        ({}, 50, 149, 13.0, 49),
        ({}, 50, INF, 12.75, 49),
        ({}, 50, 150, 12.9, 49),
        ({}, 50, 120, 5.5, 20),
        ({}, 50, 119, 5.5, 19),
        ({}, 1000, INF, 225.5, 900),
        ({}, 50, 120, 5.25, 19),
        # A single token, and not even that.
        ({}, 50, 101, 13.0, 1),
        ({}, 50, 150, 0.75, 1),
        ({}, 50, 100, 13.0, 0),
        ({}, 50, 150, 0.5, 0),
        ({}, 1, 100, 13.0, 0),
        # Without a price only tokens bind, but what the prompt costs must be there.
        ({"price": 0.0}, 50, 120, 0.5, 20),
        ({"price": 0.0}, 50, 120, 0.25, 0),
        ({"price": 0.0}, 50, INF, 0.25, 0),
        ({"base": 0.0, "price": 0.0}, 50, 120, 0.0, 20),
        # The request's limit is below the least that is reserved.
        ({"least": 16}, 5, 116, INF, 5),
        ({"least": 16}, 5, 115, INF, 0),
        ({"least": 16}, 50, 116, INF, 16),
        ({"least": 16}, 50, 120, INF, 20),
        ({"least": 16}, 1000, INF, 225.5, 900),
        # Floating point: 6 tokens cost 0.6000000000000001.
        ({"base": 0.0, "price": 0.1}, 90, INF, 0.6, 5),
    ],
)
def test_the_longest_answer_that_fits(
    model: dict[str, Any], asked: int, tokens: float, usd: float, limit: int
) -> None:
    request = Request("a", "m", (), (), max_tokens=asked)
    assert max_output_that_fits(PricedModel(**model), request, tokens, usd) == limit
