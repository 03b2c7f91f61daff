"""What every journal store promises."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.engine.ports import Row, SystemClock
from orchestrator.errors import StoreError
from orchestrator.stores.memory import MemoryStore
from orchestrator.stores.sqlite import SqliteStore

pytestmark = pytest.mark.anyio
Store = MemoryStore | SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore(SystemClock())
        return
    opened = SqliteStore(tmp_path / "journal.db")
    yield opened
    opened.close()


def rows(*numbers: int) -> list[Row]:
    return [Row(n, "note", f"k{n}", float(n), b'{"n":1}', f"h{n}") for n in numbers]


async def test_rows_come_back_in_order(store: Store) -> None:
    await store.create("r", 1.0, {"what": "x"})
    fence = await store.acquire("r", "me", 30)
    await store.append("r", fence, rows(1, 2), 30)
    await store.append("r", fence, rows(3), 30)
    assert await store.rows("r") == rows(1, 2, 3)
    assert await store.rows("other") == []


async def test_one_writer_at_a_time_and_it_is_named(store: Store) -> None:
    await store.create("r", 1.0, {})
    fence = await store.acquire("r", "the first", 30)
    with pytest.raises(StoreError, match="the first"):
        await store.acquire("r", "the second", 30)
    await store.release("r", fence)
    assert await store.acquire("r", "the second", 30) > fence


async def test_a_writer_whose_lease_was_taken_over_writes_nothing(store: Store) -> None:
    await store.create("r", 1.0, {})
    stale = await store.acquire("r", "asleep", -1)
    fresh = await store.acquire("r", "awake", 30)
    with pytest.raises(StoreError, match="another writer"):
        await store.append("r", stale, rows(1), 30)
    await store.release("r", stale)
    await store.append("r", fresh, rows(1), 30)
    assert await store.rows("r") == rows(1)


async def test_runs_are_listed_newest_first_and_can_be_forgotten(store: Store) -> None:
    await store.create("old", 1.0, {"n": 1})
    await store.create("new", 2.0, {"n": 2})
    assert [(run.run_id, run.meta) for run in await store.runs()] == [
        ("new", {"n": 2}),
        ("old", {"n": 1}),
    ]
    await store.forget("new")
    assert [run.run_id for run in await store.runs()] == ["old"]


async def test_what_sqlite_holds_outlives_the_process(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "journal.db")
    await first.create("r", 1.0, {})
    await first.append("r", await first.acquire("r", "me", -1), rows(1), -1)
    first.close()
    second = SqliteStore(tmp_path / "journal.db")
    assert await second.rows("r") == rows(1)
    second.close()


async def test_a_file_that_is_no_journal_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreError, match="cannot be used"):
        SqliteStore(tmp_path / "journal.db")


async def test_an_unknown_run_has_no_writer(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    with pytest.raises(StoreError, match="no run"):
        await store.acquire("r", "me", 30)
    store.close()
