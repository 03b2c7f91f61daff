"""A task group that raises a single failure as itself, and two concurrent calls."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

One = TypeVar("One")
Other = TypeVar("Other")


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in _leaves(part)]
    return [error]


@asynccontextmanager
async def task_group() -> AsyncIterator[TaskGroup]:
    """``anyio.create_task_group`` that raises what went wrong, not a group around it.

    If several tasks failed, one that is not an ``Exception`` (an interrupt) is raised, else the
    first; the others become its notes. A cancellation is raised only if there is nothing else,
    since the scope that asked for it would swallow it together with the failure.
    """
    try:
        async with anyio.create_task_group() as group:
            yield group
    except BaseExceptionGroup as errors:
        cancelled = anyio.get_cancelled_exc_class()
        leaves = _leaves(errors)
        failed = [error for error in leaves if not isinstance(error, cancelled)] or leaves[:1]
        first = next((f for f in failed if not isinstance(f, Exception)), failed[0])
        for other in failed:
            if other is not first:
                first.add_note(f"also failed: {type(other).__name__}: {other}")
        raise first from first.__cause__


async def run_both(
    start_first: Callable[[], Awaitable[One]], start_second: Callable[[], Awaitable[Other]]
) -> tuple[One, Other]:
    """Run two calls concurrently and return both results; if one fails, the other is cancelled."""
    beside: list[Other] = []

    async def keep() -> None:
        beside.append(await start_second())

    async with task_group() as group:
        group.start_soon(keep)
        first = await start_first()
    return first, beside[0]
