"""Lets callers without an event loop call async functions."""

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import ParamSpec, TypeVar

import anyio

P = ParamSpec("P")
T = TypeVar("T")


def blocking(function: Callable[P, Awaitable[T]]) -> Callable[P, T]:
    """Run each call of an async function in an event loop of its own."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return anyio.run(partial(function, *args, **kwargs))

    return run
