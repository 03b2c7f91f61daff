"""What every store offers, and the two things that they share: turns and messages."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

import anyio
from anyio.lowlevel import current_token

from orchestrator.engine.ports import JournalStore, Row, RunIndex, RunMeta
from orchestrator.engine.types import Json
from orchestrator.errors import RunNotFound, StoreError
from orchestrator.stores.lease_holder import shown

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
    """Blocking work off the event loop, one piece at a time, in a thread of its own.

    Every commit is waited for, and to hand it to a thread that stays takes two thirds of the time
    that anyio's takes. The queue also orders what an interrupt cuts off: asyncio's Ctrl-C ends the
    wait for a piece of work and not the work, and whoever comes next must not share its connection.
    """

    def __init__(self) -> None:
        self._pieces: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Do it in the thread, after all that came before. A cancellation waits for its end."""
        done, post = anyio.Event(), _poster()
        results: list[T] = []
        faults: list[BaseException] = []

        def piece() -> None:
            try:
                results.append(work())
            except BaseException as fault:
                faults.append(fault)
            with suppress(RuntimeError):  # the loop has ended: nobody waits any more
                post(done.set)

        if self._thread is None:
            thread = threading.Thread(target=self._work, name="store", daemon=True)
            thread.start()
            self._thread = thread
        with anyio.CancelScope(shield=True):
            self._pieces.put(piece)
            await done.wait()
        for fault in faults:
            raise fault
        return results[0]

    def _work(self) -> None:
        while piece := self._pieces.get():
            piece()

    def end(self) -> None:
        """Wait for all that was handed over, and end the thread. Idempotent."""
        if self._thread is not None:
            self._pieces.put(None)
            self._thread.join()
            self._thread = None


def _poster() -> Callable[[Callable[[], object]], object]:
    """How another thread has the running event loop call something, without waiting for it."""
    loop: Any = current_token().native_token
    post: Callable[[Callable[[], object]], object]
    post = loop.run_sync_soon if hasattr(loop, "run_sync_soon") else loop.call_soon_threadsafe
    return post


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
