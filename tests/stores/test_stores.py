"""What every journal store promises: the same suite on each."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from orchestrator.engine.ports import Row, RunMeta, SystemClock
from orchestrator.errors import RunNotFound, StoreError
from orchestrator.stores.sql_store import CancelRequest, RunStore
from orchestrator.stores.sqlite_journal import MemoryStore, SqliteStore

Again = Callable[[], RunStore]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Again]:
    """Opens the store, each time as another process would."""
    opened: list[RunStore] = []
    if request.param == "memory":
        kept = MemoryStore(SystemClock())
        yield lambda: kept
        return
    if request.param == "postgres":
        address = request.getfixturevalue("postgres").fresh("conformance")

    def make() -> RunStore:
        if request.param == "sqlite":
            store: RunStore = SqliteStore(tmp_path / "journal.db")
        else:
            from orchestrator.stores.postgres import PostgresStore

            store = PostgresStore(address, "repo")
        opened.append(store)
        return store

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def store(again: Again) -> RunStore:
    return again()


def rows(*numbers: int) -> list[Row]:
    return [Row(n, "note", f"k{n}", n + 0.1 + 0.2, b'{"n":"\\u0000"}', f"h{n}") for n in numbers]


@pytest.mark.attack("a row put before the first of a journal")
async def test_a_row_before_the_first_is_read_too(store: RunStore) -> None:
    """What ``find`` finds, the audit sees."""
    await store.create("r", 1.0, {})
    fence = await store.acquire("r", "me", 30)
    await store.append("r", fence, rows(0, 1, 2), 30)
    assert await store.find("r", "k0") == rows(0)[0]
    assert await store.rows("r") == rows(0, 1, 2)
    assert await store.rows("r", 1) == rows(2)


async def test_rows_come_back_in_order_and_to_the_last_bit(store: RunStore) -> None:
    await store.create("r", 1.0, {"what": "x"})
    fence = await store.acquire("r", "me", 30)
    await store.append("r", fence, rows(1, 2), 30)
    await store.append("r", fence, rows(3), 30)
    await store.append("r", fence, [], 30)
    assert await store.rows("r") == rows(1, 2, 3)
    assert await store.rows("other") == []


async def test_a_second_process_sees_what_the_first_one_wrote(again: Again) -> None:
    first = again()
    await first.create("r", 1.0, {})
    await first.append("r", await first.acquire("r", "me", 30), rows(1), 30)
    assert await again().rows("r") == rows(1)


async def test_the_newest_row_under_a_key_is_found_without_the_others(store: RunStore) -> None:
    old, new = rows(1, 2)
    await store.restore(RunMeta("r", 1.0, {}), [old, Row(2, "note", "k1", *_rest(new))])
    assert await store.find("r", "k1") == Row(2, "note", "k1", *_rest(new))
    assert await store.find("r", "k2") is None
    assert await store.find("other", "k1") is None


async def test_runs_are_found_by_the_first_row_under_a_key_newest_first(store: RunStore) -> None:
    row = rows(1)[0]
    other = Row(1, "note", "k1", row.at, b"{}", row.hash)
    for name, started, known in (
        ("a", 1.0, [row]),
        ("b", 3.0, [other]),
        ("c", 2.0, [row]),
        ("d", 4.0, []),
    ):
        await store.restore(RunMeta(name, started, {}), known)
    assert await store.runs_with("k1", row.body) == ["c", "a"]
    assert await store.runs_with("k2", row.body) == []


def _rest(row: Row) -> tuple[float, bytes, str]:
    return row.at, row.body, row.hash


async def test_one_writer_at_a_time_and_it_is_named(again: Again) -> None:
    one, two = again(), again()
    await one.create("r", 1.0, {})
    fence = await one.acquire("r", "the first", 30)
    with pytest.raises(StoreError, match=r"by the first; wait until it ends, or (29|30) s after"):
        await two.acquire("r", "the second", 30)
    assert [run.writer for run in await two.runs()] == ["the first"]
    await one.release("r", fence)
    assert [run.writer for run in await two.runs()] == [None]
    assert await two.acquire("r", "the second", 30) > fence


async def test_of_many_that_come_at_once_one_wins(again: Again) -> None:
    await again().create("r", 1.0, {})
    won: list[str] = []
    told: list[str] = []

    async def come(name: str, store: RunStore) -> None:
        try:
            await store.acquire("r", name, 30)
            won.append(name)
        except StoreError as fault:
            told.append(str(fault))

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(come, f"number {number}", again())
    (winner,) = won
    assert [f"written by {winner};" in line for line in told] == [True] * 5


async def test_an_append_extends_the_lease(store: RunStore) -> None:
    await store.create("r", 1.0, {})
    fence = await store.acquire("r", "me", -1)
    await store.append("r", fence, rows(1), 30)
    with pytest.raises(StoreError, match="by me"):
        await store.acquire("r", "another", 30)


async def test_a_writer_whose_lease_was_taken_over_writes_nothing(again: Again) -> None:
    asleep, awake = again(), again()
    await asleep.create("r", 1.0, {})
    stale = await asleep.acquire("r", "asleep", -1)
    fresh = await awake.acquire("r", "awake", 30)
    with pytest.raises(StoreError, match="another writer"):
        await asleep.append("r", stale, rows(1), 30)
    await asleep.release("r", stale)
    with pytest.raises(StoreError, match="by awake"):
        await asleep.acquire("r", "asleep", 30)
    await awake.append("r", fresh, rows(1), 30)
    assert await awake.rows("r") == rows(1)


async def test_a_dead_writer_of_this_machine_keeps_nobody_waiting(again: Again) -> None:
    say = "from orchestrator.stores.writer_identity import this_process; print(this_process())"
    done = await anyio.run_process([sys.executable, "-c", say])
    first, second = again(), again()
    await first.create("r", 1.0, {})
    stale = await first.acquire("r", done.stdout.decode().strip(), 30)
    assert [run.writer for run in await second.runs()] == [None]
    fresh = await second.acquire("r", "alive", 30)
    with pytest.raises(StoreError, match="another writer"):
        await first.append("r", stale, rows(1), 30)
    await second.append("r", fresh, rows(1), 30)


async def test_an_unknown_run_is_said_to_be_unknown(store: RunStore) -> None:
    with pytest.raises(RunNotFound, match="there is no run r here") as caught:
        await store.acquire("r", "me", 30)
    assert caught.value.exit_code == 2
    with pytest.raises(StoreError, match="was removed"):
        await store.append("r", 1, rows(1), 30)
    await store.release("r", 1)
    await store.forget("r")


async def test_runs_are_listed_newest_first_and_can_be_forgotten(store: RunStore) -> None:
    await store.create("old", 1.0, {"n": 1})
    await store.create("new", 2.0, {"n": "\udcff"})
    await store.create("also new", 2.0, {"n": 3})
    assert [(run.run_id, run.meta) for run in await store.runs()] == [
        ("new", {"n": "\udcff"}),
        ("also new", {"n": 3}),
        ("old", {"n": 1}),
    ]
    await store.append("new", await store.acquire("new", "me", -1), rows(1), -1)
    await store.forget("new")
    assert [run.run_id for run in await store.runs()] == ["also new", "old"]
    assert await store.rows("new") == []


async def test_a_run_has_another_mark_after_each_writer(store: RunStore) -> None:
    for name in ("old", "new"):
        await store.create(name, 1.0, {"of": name})
    before = await store.marks()
    fence = await store.acquire("new", "me", 30)
    assert await store.marks() == {**before, "new": None}
    await store.append("new", fence, rows(1), 30)
    await store.release("new", fence)
    after = await store.marks()
    assert after["old"] == before["old"]
    assert after["new"] not in {None, before["new"]}
    assert await store.marks() == after
    listed = await store.runs(only=["new", "gone"])
    assert [run.meta for run in listed] == [{"of": "new"}]
    assert await store.runs(only=[]) == []


async def test_a_run_that_is_being_written_is_not_forgotten(store: RunStore) -> None:
    await store.create("r", 1.0, {})
    fence = await store.acquire("r", "the writer", 30)
    with pytest.raises(StoreError, match="by the writer"):
        await store.forget("r")
    await store.append("r", fence, rows(1), 30)
    assert await store.rows("r") == rows(1)


async def test_a_run_is_entered_once_whole_or_not_at_all(store: RunStore) -> None:
    await store.restore(RunMeta("r", 1.0, {"n": 1}, "its writer of old"), rows(1, 2))
    assert await store.runs() == [RunMeta("r", 1.0, {"n": 1})]
    assert await store.rows("r") == rows(1, 2)
    for enter in (
        lambda: store.create("r", 2.0, {"n": 2}),
        lambda: store.restore(RunMeta("r", 2.0, {"n": 2}), rows(1, 2, 3)),
    ):
        with pytest.raises(StoreError, match="there is a run r here already"):
            await enter()
    assert await store.runs() == [RunMeta("r", 1.0, {"n": 1})]
    assert await store.rows("r") == rows(1, 2)
    fence = await store.acquire("r", "me", 30)
    await store.append("r", fence, rows(3), 30)
    assert await store.rows("r") == rows(1, 2, 3)


async def test_a_request_to_cancel_is_for_the_present_writer_and_the_first_one_stands(
    again: Again,
) -> None:
    writer, one, two = again(), again(), again()
    dana, kim = CancelRequest("dana", "wrong branch", 1.5), CancelRequest("kim", "", 2.5)
    with pytest.raises(RunNotFound):
        await one.request_cancellation("r", dana)
    await writer.create("r", 1.0, {})
    assert await one.request_cancellation("r", dana) is None
    fence = await writer.acquire("r", "me", 30)
    assert await writer.cancellation("r") is None
    assert await one.request_cancellation("r", dana) == dana
    assert await two.request_cancellation("r", kim) == dana
    assert await writer.cancellation("r") == dana
    await writer.release("r", fence)
    assert await two.request_cancellation("r", kim) is None
    await writer.acquire("r", "me", 30)
    assert await writer.cancellation("r") is None
    assert await two.request_cancellation("r", kim) == kim
    assert await writer.cancellation("r") == kim
