"""Things done side by side."""

from functools import partial

import anyio
import pytest

from orchestrator.engine.task_groups import run_both
from orchestrator.errors import InputError


async def after(seconds: float, value: str) -> str:
    await anyio.sleep(seconds)
    return value


async def fails() -> str:
    raise InputError("no")


async def test_two_concurrent_calls_return_their_results_in_order() -> None:
    assert await run_both(partial(after, 0.02, "one"), partial(after, 0, "other")) == (
        "one",
        "other",
    )
    assert await run_both(partial(after, 0, "one"), partial(after, 0.02, "other")) == (
        "one",
        "other",
    )


@pytest.mark.parametrize("first", [True, False])
async def test_a_failure_is_itself_and_ends_the_other(first: bool) -> None:
    endless = partial(after, 60, "never")
    with pytest.raises(InputError, match="no"):
        await (run_both(fails, endless) if first else run_both(endless, fails))
