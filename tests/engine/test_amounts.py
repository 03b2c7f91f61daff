"""Amounts of budgets and costs: NaN voids every bound, a negative cost makes money."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from orchestrator import Bounds, Harness, InputError, review, tool
from orchestrator.engine.budget import Account, Cost
from orchestrator.engine.types import Json, ToolSpec

WRONG = [float("nan"), -1.0, float("-inf"), "1"]
MAKERS: list[tuple[str, Callable[[float], object]]] = [
    ("usd", lambda value: Cost(usd=value)),
    ("tokens", lambda value: Cost(tokens=value)),
    ("usd", lambda value: Bounds(usd=value)),
    ("seconds", lambda value: Bounds(seconds=value)),
    ("turns", lambda value: Bounds(turns=value)),
    ("usd", lambda value: ToolSpec("t", "", {}, usd=value)),
    ("timeout", lambda value: ToolSpec("t", "", {}, timeout=value)),
    ("usd", lambda value: tool(usd=value)(act)),
]


async def act(arguments: Mapping[str, Json]) -> Json:
    return None


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize(("name", "make"), MAKERS)
def test_an_amount_is_a_number_and_not_negative(
    name: str, make: Callable[[float], object], value: float
) -> None:
    with pytest.raises(InputError, match=rf"^{name} of \w+ must be .*number >= 0, not .*$"):
        make(value)


@pytest.mark.parametrize("value", [*WRONG, True])
def test_a_cost_of_invalid_amounts_is_refused(value: float) -> None:
    with pytest.raises(InputError, match=r"^turns of Cost must be a finite number >= 0, not "):
        Cost(value, value, value, value)


def test_only_a_bound_may_be_infinite() -> None:
    assert Bounds(usd=float("inf")) == Bounds()
    for make in (lambda: Cost(usd=float("inf")), lambda: ToolSpec("t", "", {}, usd=float("inf"))):
        with pytest.raises(InputError, match="must be a finite number >= 0, not inf"):
            make()


@pytest.mark.parametrize("value", [float("nan"), -1.0, float("inf")])
async def test_programs_cannot_pass_invalid_amounts(tmp_path: Path, value: float) -> None:
    async with Harness.open(None, "r", bounds=Bounds(usd=1.0)) as harness:
        with pytest.raises(InputError, match="usd of ToolSpec"):
            harness.register("act", act, usd=value)
        assert harness.left().usd == 1.0
    for name in ("max_usd", "max_minutes"):
        with pytest.raises(InputError, match=f"{name} of ReviewOptions"):
            await review(tmp_path, **{name: value})  # type: ignore[arg-type]


def test_a_reservation_returns_to_zero_and_never_below() -> None:
    account = Account("the run", Bounds(usd=1.0))
    held = [account.reserve(Cost(usd=usd)) for usd in (0.1, 0.2, 0.3)]
    for reservation in reversed(held):
        reservation.refund()
    assert 0 <= account.held.usd < 1e-9
