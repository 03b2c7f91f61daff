"""Model calls of other frameworks: reserved before, booked after, at the worst when cut off."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator import Bounds, BudgetExhausted, Harness, InputError, ModelCall

pytestmark = pytest.mark.either_loop
LIMITS: dict[str, Any] = {
    "model": "anthropic:claude-haiku-5-5",
    "input_tokens": 1000,
    "max_tokens": 500,
}


async def quiet(call: ModelCall) -> str:
    return "answer"


async def frugal(call: ModelCall) -> str:
    call.record(input_tokens=100, output_tokens=50)
    return "answer"


async def test_what_is_recorded_is_booked_at_the_models_price() -> None:
    async with Harness.open(None, "r", bounds=Bounds(tokens=10_000, usd=1, turns=3)) as harness:
        assert await harness.model_call(frugal, **LIMITS) == "answer"
        left = harness.left()
    assert (left.tokens, left.turns) == (9_850, 2)
    assert 0.999 < left.usd < 1


async def test_a_call_that_records_nothing_is_booked_at_its_worst() -> None:
    async with Harness.open(None, "r", bounds=Bounds(tokens=10_000)) as harness:
        await harness.model_call(quiet, **LIMITS)
        assert harness.left().tokens == 8_500


async def test_a_crash_in_between_is_booked_at_its_worst_beside_the_repetition(
    tmp_path: Path,
) -> None:
    async def crashes(call: ModelCall) -> str:
        call.record(input_tokens=1, output_tokens=1)
        raise RuntimeError("the process dies")

    bounds, path = Bounds(tokens=10_000), tmp_path / "runs.db"
    with pytest.raises(RuntimeError):
        async with Harness.open(path, "r", bounds=bounds) as harness:
            await harness.model_call(crashes, **LIMITS)
    async with Harness.open(path, "r", bounds=bounds) as harness:
        assert harness.left().tokens == 8_500
        assert await harness.model_call(frugal, **LIMITS) == "answer"
        assert harness.left().tokens == 8_350


async def test_a_refused_call_is_not_made_and_costs_nothing() -> None:
    async def never(call: ModelCall) -> str:
        raise AssertionError("it was asked")

    async with Harness.open(None, "r", bounds=Bounds(tokens=1_400)) as harness:
        with pytest.raises(BudgetExhausted):
            await harness.model_call(never, **LIMITS)
        assert harness.left().tokens == 1_400
        assert await harness.model_call(frugal, **LIMITS | {"max_tokens": 400}) == "answer"


async def test_a_model_without_a_price_needs_one_under_a_bound_in_dollars() -> None:
    async with Harness.open(None, "r", bounds=Bounds(usd=1)) as harness:
        with pytest.raises(InputError, match="the price of house-model is unknown; give usd="):
            await harness.model_call(quiet, **LIMITS | {"model": "house-model"})


@pytest.mark.parametrize(
    "given", [{"input_tokens": -1}, {"output_tokens": -1}, {"usd": float("nan")}]
)
async def test_amounts_that_would_make_money_are_refused(given: dict[str, Any]) -> None:
    async def lies(call: ModelCall) -> str:
        call.record(**{"input_tokens": 5, "output_tokens": 5, **given})
        return "answer"

    async with Harness.open(None, "r", bounds=Bounds(tokens=10_000)) as harness:
        with pytest.raises(InputError):
            await harness.model_call(lies, **LIMITS)
        assert harness.left().tokens == 8_500
