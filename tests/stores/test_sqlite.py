"""What the SQLite store alone promises."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from orchestrator.engine.ports import Row, RunMeta
from orchestrator.errors import StoreError
from orchestrator.stores.sqlite_journal import TABLES, SqliteStore
from orchestrator.stores.sqlite_repair import repair

ROW = Row(1, "note", "k", 1.0, b"{}", "h")
PAGE = 4096  # bytes


def test_a_file_that_is_no_journal_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(
        StoreError,
        match=r"cannot be used .* It is damaged: put back a copy, or .*: diffcourt runs repair",
    ) as caught:
        SqliteStore(tmp_path / "journal.db")
    assert "\n" not in str(caught.value)


async def _interrupted_append(store: SqliteStore) -> None:
    """An append that asyncio's Ctrl-C ends: the wait for the thread ends, the thread does not."""
    await store.create("r", 1.0, {})
    fence = await store.acquire("r", "me", 30)
    other = sqlite3.connect(store.path, check_same_thread=False, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(store.append("r", fence, [ROW], 30))
    await asyncio.sleep(0.2)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    threading.Timer(0.3, lambda: other.execute("ROLLBACK")).start()
    # The thread still waits inside its transaction, on the connection that this needs.
    await store.release("r", fence)
    assert await store.rows("r") == [ROW]
    assert [run.writer for run in await store.runs()] == [None]
    other.close()


def test_an_append_after_an_interrupted_one_waits_for_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    asyncio.run(_interrupted_append(store))
    store.close()
    store.close()


async def _interrupted_and_closed(store: SqliteStore) -> None:
    await store.create("r", 1.0, {})
    fence = await store.acquire("r", "me", 30)
    with sqlite3.connect(store.path) as other:
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(store.append("r", fence, [ROW], 30))
        await asyncio.sleep(0.2)
        writing.cancel()
        await asyncio.sleep(0)
    other.close()
    store.close()


def test_closing_waits_for_what_is_being_written(tmp_path: Path) -> None:
    asyncio.run(_interrupted_and_closed(SqliteStore(tmp_path / "journal.db")))
    with sqlite3.connect(tmp_path / "journal.db") as db:
        assert db.execute("SELECT key FROM journal").fetchall() == [("k",)]
    db.close()


async def _interrupted_and_ended(store: SqliteStore, other: sqlite3.Connection) -> None:
    await store.create("r", 1.0, {})
    fence = await store.acquire("r", "me", 30)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(store.append("r", fence, [ROW], 30))
    await asyncio.sleep(0.2)
    writing.cancel()


def test_an_append_survives_the_end_of_its_event_loop(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    other = sqlite3.connect(store.path, isolation_level=None)
    asyncio.run(_interrupted_and_ended(store, other))
    other.execute("ROLLBACK")
    assert asyncio.run(store.rows("r")) == [ROW]
    other.close()
    store.close()


async def test_no_cancellation_cuts_an_append_off(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    await store.create("r", 1.0, {})
    fence = await store.acquire("r", "me", 30)
    other = sqlite3.connect(store.path, check_same_thread=False, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.2, lambda: other.execute("ROLLBACK")).start()
    appended = False
    with anyio.move_on_after(0.05):
        await store.append("r", fence, [ROW], 30)
        appended = True
    assert appended
    assert await store.rows("r") == [ROW]
    other.close()
    store.close()


def test_many_processes_may_open_a_new_journal_at_once(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from orchestrator.stores.sqlite_journal import SqliteStore\n"
        "time.sleep(max(0, float(sys.argv[2]) - time.time()))\n"
        "SqliteStore(Path(sys.argv[1])).close()\n"
    )
    at = str(time.time() + 1.5)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "journal.db"), at],
            stderr=subprocess.PIPE, text=True,
        )
        for _ in range(6)
    ]  # fmt: skip
    assert [racer.communicate()[1] for racer in racers] == [""] * 6


def test_a_new_journal_waits_for_who_writes_into_the_file(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE t (x)")
    other.execute("BEGIN IMMEDIATE")  # as who begins a log beside us does
    leaving = threading.Timer(0.3, other.close)
    leaving.start()
    SqliteStore(path).close()
    leaving.join()


async def test_the_log_is_begun_anew_and_gone_once_the_store_is_closed(tmp_path: Path) -> None:
    store, log = SqliteStore(tmp_path / "journal.db"), tmp_path / "journal.db-wal"
    await store.create("r", 1.0, {})
    fence = await store.acquire("r", "me", 30)
    rows = [Row(seq, "note", f"k{seq}", 1.0, b"1" * 40_000, "h") for seq in range(1, 251)]
    for row in rows:
        await store.append("r", fence, [row], 30)
    assert log.stat().st_size < 250 * 40_000 / 2
    assert await store.rows("r") == rows
    store.close()
    assert not log.exists()


def test_another_program_s_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE runs (x)")
    db.close()
    with pytest.raises(StoreError, match="cannot be used"):
        SqliteStore(path)
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("runs",)]
    db.close()


async def test_rows_of_a_removed_journal_are_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    (tmp_path / "journal.db").unlink()
    with closing(store), pytest.raises(StoreError, match="was removed meanwhile"):
        await store.create("r", 0.0, {})


def test_a_newer_version_s_file_is_left_alone(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "journal.db").close()
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(StoreError, match="newer Diffcourt"):
        SqliteStore(tmp_path / "journal.db")


def test_a_file_that_does_more_than_keep_rows_is_refused(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "journal.db").close()
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.execute(
            "CREATE TRIGGER lie AFTER INSERT ON journal"
            " BEGIN UPDATE journal SET body = x'7b7d' WHERE place = new.place; END"
        )
    db.close()
    with pytest.raises(StoreError, match="trigger that Diffcourt did not make: 'lie'"):
        SqliteStore(tmp_path / "journal.db")


async def test_rows_of_a_run_are_written_in_one_place(tmp_path: Path) -> None:
    store, log = SqliteStore(tmp_path / "journal.db"), tmp_path / "journal.db-wal"
    await store.create("r", 1.0, {})
    fence = await store.acquire("r", "me", 30)
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for seq in range(1, 101):
        await store.append("r", fence, [Row(seq, "note", f"k{seq}", 1.0, b"1" * 900, "h")], 30)
    # A quarter of a page each: its own page, and the tree's root for each new one.
    assert log.stat().st_size < 100 * 2 * PAGE
    store.close()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("hash TEXT NOT NULL", "hash TEXT NOT NULL, UNIQUE(kind) ON CONFLICT IGNORE"),
        ("", "CREATE INDEX slow ON journal (hex(zeroblob(30000000)))"),
    ],
)
def test_a_journal_with_another_schema_is_refused(tmp_path, before, after):
    with sqlite3.connect(tmp_path / "journal.db") as db:
        for statement in TABLES:
            db.execute(statement.replace(before, after) if before else statement)
        if not before:
            db.execute(after)
    db.close()
    with pytest.raises(StoreError, match="that Diffcourt did not make"):
        SqliteStore(tmp_path / "journal.db")


def _flip(store: Path, page: int, byte: int) -> bytes:
    """Flip the top bit of a byte of a page; returns what the file was."""
    before = store.read_bytes()
    data = bytearray(before)
    data[page * PAGE + byte] ^= 0x80
    store.write_bytes(data)
    return before


@pytest.mark.attack("a bit of the journal's file flips on the disk")
@pytest.mark.parametrize(
    ("page", "byte", "named"),
    [(0, 100, 0), (0, 1, 0), (1, 9, 2), (2, 0, 3), (3, 0, 3), (5, 0, 3)],
    ids=["schema", "header", "an entry", "the index", "the rows' tree", "a page of rows"],
)
def test_damage_of_pages_is_named_and_repair_keeps_a_copy_and_what_can_be_read(
    tmp_path: Path, page: int, byte: int, named: int
) -> None:
    path = tmp_path / "journal.db"
    rows = [Row(n, "note", "k", 1.0, b"x" * 3000, "h") for n in range(6)]
    runs = [RunMeta(f"run-{n}", float(n), {}) for n in range(3)]
    with closing(SqliteStore(path)) as store:
        for run in runs:
            anyio.run(store.restore, run, rows)
    damaged = _flip(path, page, byte) and path.read_bytes()
    try:
        with closing(SqliteStore(path)) as store:
            listed = anyio.run(store.runs)
            assert sum(run.meta is not None for run in listed) == named
            readable = [run.run_id for run in listed if _reads(store, run.run_id)]
    except StoreError as error:
        assert "diffcourt runs repair" in str(error)  # noqa: PT017
        readable = []
    done = repair(path)
    assert done.copy is not None
    assert done.copy.read_bytes() == damaged
    with closing(SqliteStore(path)) as store:
        kept = [run.run_id for run in anyio.run(store.runs)]
        assert sorted(kept) == sorted(done.taken)
        assert {*readable} <= {*kept}
        assert len(kept) >= (3 if page in {0, 2} else 1 if page == 5 else 0)
        assert all(anyio.run(store.rows, run) == rows for run in kept)
        anyio.run(store.create, "new", 9.0, {})
    assert repair(path).copy is None


def _reads(store: SqliteStore, run: str) -> bool:
    try:
        return bool(anyio.run(store.rows, run))
    except StoreError:
        return False


def test_repair_of_a_damaged_log_keeps_what_stands_before_the_damage(tmp_path: Path) -> None:
    rows = [Row(n, "note", "k", 1.0, b"x" * 3000, "h") for n in range(6)]
    copy, end = tmp_path / "copy.db", "-wal"
    with closing(SqliteStore(tmp_path / "journal.db")) as store:
        for n in range(3):
            anyio.run(store.restore, RunMeta(f"run-{n}", float(n), {}), rows)
        for part in ("", end):  # as a killed process leaves them
            copy.with_name(copy.name + part).write_bytes(Path(f"{store.path}{part}").read_bytes())
    log = copy.with_name(copy.name + end)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with pytest.raises(StoreError, match="is damaged at byte"):
        SqliteStore(copy)
    done = repair(copy)
    assert done.copy is not None
    assert Path(f"{done.copy}{end}").read_bytes() == data
    assert "run-0" in done.taken
    with closing(SqliteStore(copy)) as store:
        assert anyio.run(store.rows, "run-0") == rows
