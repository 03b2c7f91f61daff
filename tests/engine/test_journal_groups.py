"""Commits are shared: whoever waits while one is under way is on disk with the next."""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import anyio
import pytest
from anyio.lowlevel import checkpoint

from orchestrator.engine.journal import Journal, open_journal
from orchestrator.engine.journal_log import JournalLog
from orchestrator.engine.ports import Row, SystemClock
from orchestrator.errors import StoreError
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.engine.engine_kit import RUN


class Gated(MemoryStore):
    """Its appends wait until they are let through, each after how many rows it brings."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.gate, self.brought = anyio.Semaphore(0), list[int]()

    async def append(self, run_id: str, fence: int, rows: Sequence[Row], ttl: float) -> None:
        self.brought.append(len(rows))
        with anyio.CancelScope(shield=True):  # as the stores do it
            await self.gate.acquire()
        if self.gate.value > 100:
            raise StoreError("disk full")
        await super().append(run_id, fence, rows, ttl)

    def let(self, times: int) -> None:
        for _ in range(times):
            self.gate.release()


async def settle() -> None:
    for _ in range(10):
        await checkpoint()


async def durable(journal: Journal, key: str, done: list[str]) -> None:
    journal.note(key, {})
    await journal.flush()
    done.append(key)


async def test_writers_that_are_ready_at_once_share_the_first_write() -> None:
    store, done = Gated(), list[str]()
    await store.create(RUN, 0.0, {})
    store.let(2)
    opened = open_journal(RUN, store, SystemClock(), holder="a test")
    async with opened as journal, anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(durable, journal, f"k{number:02}", done)
    assert store.brought == [21]  # with the session's row
    assert len(done) == 20


async def test_writers_that_wait_during_a_write_share_the_next_one() -> None:
    store, done = Gated(), list[str]()
    await store.create(RUN, 0.0, {})
    async with open_journal(RUN, store, SystemClock(), holder="a test") as journal:
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(durable, journal, f"k{number:02}", done)
                await settle()
            assert (store.brought, done) == ([2], [])  # the session's row and the first note
            store.let(1)
            await settle()
            assert (store.brought, done) == ([2, 19], ["k00"])
            store.let(1)
        assert sorted(done) == [f"k{number:02}" for number in range(20)]  # trio wakes in any order
        assert store.brought == [2, 19]
        store.let(9)


async def test_a_cancelled_writer_passes_its_turn_on() -> None:
    store, done = Gated(), list[str]()
    await store.create(RUN, 0.0, {})
    async with open_journal(RUN, store, SystemClock(), holder="a test") as journal:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(durable, journal, "first", done)
                await settle()
                async with anyio.create_task_group() as cut_off:
                    cut_off.start_soon(durable, journal, "second", done)
                    await settle()
                    group.start_soon(durable, journal, "third", done)
                    await anyio.sleep(0.02)  # so that who commits in the background waits as well
                    cut_off.cancel_scope.cancel()
                store.let(9)
    assert done == ["first", "third"]


def test_a_writer_cancelled_just_after_it_was_woken_passes_its_turn_on() -> None:
    store, done, tasks = Gated(), list[str](), list[asyncio.Task[None]]()

    async def first(journal: Journal) -> None:
        await durable(journal, "first", done)
        tasks[1].cancel()  # it is woken, and has not run yet

    async def main() -> None:
        await store.create(RUN, 0.0, {})
        async with open_journal(RUN, store, SystemClock(), holder="a test") as journal:
            tasks.append(asyncio.create_task(first(journal)))
            await settle()
            second = asyncio.create_task(durable(journal, "second", done))
            await settle()
            third = asyncio.create_task(durable(journal, "third", done))
            tasks.append(second)
            await asyncio.sleep(0.02)
            store.let(9)
            async with asyncio.timeout(5):
                await third
            assert second.cancelled()

    asyncio.run(main())
    assert done == ["first", "third"]


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # a task without a first step
@pytest.mark.parametrize("spares_its_user", [False, True])
def test_tasks_that_are_cancelled_at_any_step_leave_no_journal_that_waits(
    spares_its_user: bool,
) -> None:
    async def use(store: MemoryStore, run_id: str) -> None:
        async with open_journal(run_id, store, SystemClock(), holder="a test") as journal:
            journal.note("a", {})

    async def main() -> None:
        store, seen = MemoryStore(SystemClock()), set[int]()
        for steps in range(12):
            run_id = f"run-{steps}"
            await store.create(run_id, 0.0, {})
            user = asyncio.create_task(use(store, run_id))
            for _ in range(steps):
                await asyncio.sleep(0)
            spared = {asyncio.current_task(), user if spares_its_user else None}
            for task in asyncio.all_tasks() - spared:
                task.cancel()
            assert await asyncio.wait([user], timeout=10) == ({user}, set())
            seen.add(len(await store.rows(run_id)))
        assert seen == {0, 2}

    asyncio.run(main())
    gc.collect()  # while its warning is ignored


async def test_a_failed_write_fails_all_waiting_writers() -> None:
    store, told = Gated(), list[str]()
    await store.create(RUN, 0.0, {})

    async def waits(journal: Journal, key: str) -> None:
        with pytest.raises(StoreError, match="disk full"):
            await durable(journal, key, [])
        told.append(key)

    with pytest.raises(StoreError, match="disk full") as caught:
        async with (
            open_journal(RUN, store, SystemClock(), holder="a test") as journal,
            anyio.create_task_group() as group,
        ):
            for key in ("first", "second", "third"):
                group.start_soon(waits, journal, key)
                await settle()
            store.let(200)
    assert sorted(told) == ["first", "second", "third"]
    assert str(caught.value) == "disk full"


@asynccontextmanager
async def open_log(store: MemoryStore) -> AsyncIterator[JournalLog]:
    """The log of a new run, without what cancels its users when a write fails."""
    await store.create(RUN, 0.0, {})
    fence = await store.acquire(RUN, "a test", 30)
    log = JournalLog(RUN, store, SystemClock(), fence, [])

    async def commit() -> None:
        with suppress(StoreError, OSError):
            await log.commit_until_closed()

    async with anyio.create_task_group() as group:
        group.start_soon(commit)
        yield log
        await log.close()


async def test_a_waiting_writer_hears_of_a_failure_before_another_can_cancel_it() -> None:
    store, told = Gated(), list[str]()

    async def waits(log: JournalLog, key: str) -> None:
        with pytest.raises(StoreError, match="disk full"):
            await log.flush()
        told.append(key)

    async with open_log(store) as log, anyio.create_task_group() as group:
        for key in ("first", "second"):
            group.start_soon(waits, log, key)
            await settle()
        store.let(200)
        while log._broken is None:
            await checkpoint()
        group.cancel_scope.cancel()
    assert sorted(told) == ["first", "second"]


async def test_a_single_waiting_writer_is_written_after_the_present_write() -> None:
    store = Gated()
    with anyio.fail_after(30):
        async with open_log(store) as log, anyio.create_task_group() as group:
            group.start_soon(log.flush)
            await settle()
            log.append("note", "a", b"{}")
            group.start_soon(log.flush)
            await settle()
            store.let(2)
    assert [row.key for row in await store.rows(RUN)] == ["session/1", "a"]


class FailsOnce(MemoryStore):
    """Its first append fails."""

    def __init__(self, error: Exception) -> None:
        super().__init__(SystemClock())
        self.errors = [error]

    async def append(self, run_id: str, fence: int, rows: Sequence[Row], ttl: float) -> None:
        if self.errors:
            raise self.errors.pop()
        await super().append(run_id, fence, rows, ttl)


@pytest.mark.parametrize(
    ("error", "later"),
    [
        (StoreError("disk full"), "disk full"),
        # Whether the rows were written is not known.
        (OSError("bad disk"), f"run {RUN} was cut off during a write; resume it"),
    ],
)
async def test_after_a_failed_write_no_rows_are_accepted(error: Exception, later: str) -> None:
    store = FailsOnce(error)
    async with open_log(store) as log:
        for _ in range(2):
            with pytest.raises(StoreError, match=later):
                await log.flush()
        for take in (lambda: log.append("note", "a", b"{}"), log.sign_head):
            with pytest.raises(StoreError) as raised:
                take()
            assert str(raised.value) == later
    assert await store.rows(RUN) == []


class Interrupts(MemoryStore):
    """Cancels a task in the middle of an append, as Ctrl-C does with the main task of asyncio."""

    main_task: asyncio.Task[None] | None = None

    async def append(self, run_id: str, fence: int, rows: Sequence[Row], ttl: float) -> None:
        if self.main_task:
            self.main_task.cancel()
            self.main_task = None
        await checkpoint()
        await super().append(run_id, fence, rows, ttl)


def test_an_interrupt_while_rows_are_written_is_no_store_error_and_leaves_them_durable() -> None:
    keys = list[str]()

    async def interrupted(store: Interrupts) -> None:
        async with open_journal(RUN, store, SystemClock(), holder="a test") as journal:
            store.main_task = asyncio.current_task()
            try:
                await durable(journal, "before", [])
            finally:
                journal.note("teardown", {})

    async def main() -> None:
        store = Interrupts(SystemClock())
        await store.create(RUN, 0.0, {})
        with pytest.raises(asyncio.CancelledError):
            await interrupted(store)
        keys.extend(row.key for row in await store.rows(RUN))

    asyncio.run(main())
    assert keys == ["session/1", "before", "teardown"]


def test_a_program_that_cancels_all_tasks_does_not_make_the_journal_hang() -> None:
    async def journaling() -> None:
        store = MemoryStore(SystemClock())
        await store.create(RUN, 0.0, {})
        async with open_journal(RUN, store, SystemClock(), holder="a test") as journal:
            await settle()
            for task in asyncio.all_tasks() - others:
                task.cancel()
            await durable(journal, "late", [])

    async def main() -> None:
        others.update(asyncio.all_tasks())
        ended, _ = await asyncio.wait([asyncio.create_task(journaling())], timeout=5)
        assert ended

    others = set[asyncio.Task[None]]()
    asyncio.run(main())


async def test_rows_of_a_cancelled_run_are_written() -> None:
    store = MemoryStore(SystemClock())
    await store.create(RUN, 0.0, {})
    with anyio.CancelScope() as scope:
        async with open_journal(RUN, store, SystemClock(), holder="a test") as journal:
            journal.note("before", {})
            await settle()
            scope.cancel()
            await checkpoint()
    assert [row.key for row in await store.rows(RUN)] == ["session/1", "before"]


async def test_who_waits_for_rows_of_the_present_write_leaves_the_next_one_to_others() -> None:
    store, done = Gated(), list[str]()

    async def durable_row(log: JournalLog, key: str) -> None:
        if key:
            log.append("note", key, b"{}")
        await log.flush()
        done.append(key)

    with anyio.fail_after(30):
        async with open_log(store) as log, anyio.create_task_group() as group:
            for key in ("first", "", "second", "third"):  # the empty one adds no row
                group.start_soon(durable_row, log, key)
                await settle()
            store.let(1)
            await settle()
            assert sorted(done) == ["", "first"]
            store.let(1)
    assert store.brought == [2, 2]


async def test_a_closed_journal_takes_no_rows_and_nobody_waits_for_it() -> None:
    async with open_log(MemoryStore(SystemClock())) as log:
        pass
    with anyio.fail_after(5):
        await log.flush()
        with pytest.raises(StoreError, match="closed"):
            log.append("note", "late", b"{}")
