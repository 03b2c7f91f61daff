"""When rows that nobody waits for are committed, and the lease extended, in exact virtual time."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

from orchestrator.engine import journal_log
from orchestrator.engine.journal import Journal, open_journal
from orchestrator.engine.ports import Row, SystemClock
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.engine.engine_kit import RUN


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """An event loop whose time goes on only while all tasks wait for it."""
    return "trio", {"clock": MockClock(autojump_threshold=0)}


@pytest.fixture(autouse=True)
def _exact(monkeypatch: pytest.MonkeyPatch) -> None:
    # Binary fractions, so that the sums below are exact.
    monkeypatch.setattr(journal_log, "IDLE_COMMIT_SECONDS", 0.5)
    monkeypatch.setattr(journal_log, "LEASE_SECONDS", 96.0)


class Slow(MemoryStore):
    """Each append takes so many seconds; ``log`` has when each began, its rows, and its lease."""

    def __init__(self, *seconds: float) -> None:
        super().__init__(SystemClock())
        self.seconds, self.log = list(seconds), list[tuple[float, list[str], float]]()

    async def append(self, run_id: str, fence: int, rows: Sequence[Row], ttl: float) -> None:
        self.log.append((anyio.current_time(), [row.key for row in rows], ttl))
        if self.seconds:
            await anyio.sleep(self.seconds.pop(0))
        await super().append(run_id, fence, rows, ttl)


async def run(store: Slow, *steps: tuple[float, str]) -> list[tuple[float, list[str], float]]:
    """Note each key (or flush, for an empty one) after so many seconds; returns the appends."""
    await store.create(RUN, 0.0, {})

    async def step(journal: Journal, key: str) -> None:
        if key:
            journal.note(key, {})
        else:
            await journal.flush()

    async with open_journal(RUN, store, SystemClock(), holder="a test") as journal:
        async with anyio.create_task_group() as group:
            for seconds, key in steps:
                await anyio.sleep(seconds)
                group.start_soon(step, journal, key)
        return list(store.log)  # without those of the end


async def test_rows_without_a_waiting_caller_are_committed_together_when_the_log_is_idle() -> None:
    assert await run(Slow(), (0, "a"), (0.25, "b"), (1, "c"), (1, "")) == [
        (0.5, ["session/1", "a", "b"], 96.0),
        (1.75, ["c"], 96.0),
    ]


async def test_the_wait_begins_anew_after_a_commit() -> None:
    # What is there at 0.375 is committed by whoever waits; what comes then has its own half second.
    assert await run(Slow(), (0, "a"), (0.375, ""), (0.0625, "b"), (8, "")) == [
        (0.375, ["session/1", "a"], 96.0),
        (0.9375, ["b"], 96.0),
    ]


async def test_rows_that_come_during_a_long_write_are_committed_after_it() -> None:
    assert await run(Slow(4), (0, "a"), (0.25, ""), (1, "b"), (8, "")) == [
        (0.25, ["session/1", "a"], 96.0),
        (4.25, ["b"], 96.0),
    ]


async def test_rows_that_come_during_a_short_write_wait_from_its_beginning() -> None:
    assert await run(Slow(0.25), (0, "a"), (0.25, ""), (0.125, "b"), (8, "")) == [
        (0.25, ["session/1", "a"], 96.0),
        (0.75, ["b"], 96.0),
    ]


async def test_the_lease_is_extended_thrice_in_its_time() -> None:
    assert await run(Slow(), (100, "a"), (20, "")) == [
        (0.5, ["session/1"], 96.0),
        (32.5, [], 96.0),
        (64.5, [], 96.0),
        (96.5, [], 96.0),
        (100.5, ["a"], 96.0),
    ]


async def test_a_write_that_takes_long_is_not_joined_by_an_extension_of_the_lease() -> None:
    assert await run(Slow(0, 48), (1, "a"), (0, ""), (81, "")) == [
        (0.5, ["session/1"], 96.0),
        (1.0, ["a"], 96.0),
        (81.0, [], 96.0),
    ]
