"""What every store offers, and the two things that they share: turns and messages."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

import anyio
import anyio.to_thread

from orchestrator.engine.ports import JournalStore, Row, RunIndex, RunMeta
from orchestrator.engine.types import Json
from orchestrator.errors import RunNotFound, StoreError
from orchestrator.stores.holder import shown

T = TypeVar("T")


class RunStore(JournalStore, RunIndex, Protocol):
    """A journal store with an index, as the application needs it."""

    async def find(self, run_id: str, key: str) -> Row | None:
        """The newest row under a key, without reading the others."""

    async def restore(self, run: RunMeta, rows: Sequence[Row]) -> None:
        """Enter a run with all its rows, whole or not at all.

        Raises:
            StoreError: there is a run of that name.
        """

    def close(self) -> None:
        """Let go of it. Idempotent."""


class Turns:
    """Blocking work off the event loop, one piece at a time.

    The lock, beside the limiter: asyncio's Ctrl-C ends the wait for a thread and not the thread,
    and whoever comes next must not share its connection.
    """

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(1)
        self._lock = threading.Lock()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait for the piece of work that is under way, and hold off the next."""
        with self._lock:
            yield

    async def run(self, work: Callable[[], T]) -> T:
        """Do it in a worker thread."""

        def in_turn() -> T:
            with self._lock:
                return work()

        return await anyio.to_thread.run_sync(in_turn, limiter=self._limiter)


def no_such_run(run_id: str) -> RunNotFound:
    """The fault of a run that is not in the store."""
    return RunNotFound(f"there is no run {run_id} here; `diffcourt runs` lists them")


def already_there(run_id: str) -> StoreError:
    """The fault of a run that would be entered twice."""
    return StoreError(f"there is a run {run_id} here already; nothing was changed")


def held(run_id: str, holder: str, seconds: float) -> StoreError:
    """The fault of a run that another process writes, whose lease ends in so many seconds."""
    return StoreError(
        f"run {run_id} is being written by {shown(holder)}; "
        f"wait until it ends, or {max(seconds, 1):.0f} s after it died"
    )


def fenced_off(run_id: str) -> StoreError:
    """The fault of a writer whose token is no longer the run's."""
    return StoreError(f"run {run_id} has another writer now, or was removed; this one stops")


def meta_of(run_id: str, text: str) -> Json:
    """A run's entry, parsed.

    Raises:
        StoreError: it is no JSON.
    """
    try:
        return json.loads(text)
    except ValueError:
        raise StoreError(f"the entry of run {run_id} in the store is damaged") from None
