"""What the SQLite store alone promises."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import anyio
import pytest

from orchestrator.engine.ports import Row
from orchestrator.errors import StoreError
from orchestrator.stores.sqlite import PAGE, ROOM_PAGES, SqliteStore

ROW = Row(1, "note", "k", 1.0, b"{}", "h")


def test_a_file_that_is_no_journal_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreError, match="cannot be used") as caught:
        SqliteStore(tmp_path / "journal.db")
    assert "\n" not in str(caught.value)


@pytest.mark.anyio
async def test_a_damaged_entry_is_one_line(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    await store.create("r", 1.0, {})
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.execute("UPDATE runs SET meta = '{'")
    db.close()
    with pytest.raises(StoreError, match="the entry of run r in the store is damaged"):
        await store.runs()
    store.close()


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


def test_whoever_comes_after_an_interrupted_append_waits_for_it(tmp_path: Path) -> None:
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


def test_an_append_that_its_event_loop_did_not_live_to_see_is_there(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    other = sqlite3.connect(store.path, isolation_level=None)
    asyncio.run(_interrupted_and_ended(store, other))
    other.execute("ROLLBACK")
    assert asyncio.run(store.rows("r")) == [ROW]
    other.close()
    store.close()


@pytest.mark.anyio
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
        "from orchestrator.stores.sqlite import SqliteStore\n"
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


@pytest.mark.anyio
async def test_commits_find_room_in_the_log_and_do_not_make_it_longer(tmp_path: Path) -> None:
    store, log = SqliteStore(tmp_path / "journal.db"), tmp_path / "journal.db-wal"
    await store.create("r", 1.0, {})
    fence = await store.acquire("r", "me", 30)
    length = log.stat().st_size
    assert length >= ROOM_PAGES * PAGE
    assert (tmp_path / "journal.db").stat().st_size < 10 * PAGE
    rows = [Row(seq, "note", f"k{seq}", 1.0, b"1" * 2000, "h") for seq in range(1, 151)]
    for row in rows:
        await store.append("r", fence, [row], 30)
    assert log.stat().st_size <= length + 10 * PAGE
    assert await store.rows("r") == rows
    store.close()
    assert not log.exists()


FIRST_LAYOUT = """
CREATE TABLE runs (run TEXT PRIMARY KEY, started REAL NOT NULL, meta TEXT NOT NULL,
    holder TEXT, lease_until REAL NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE journal (run TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL,
    key TEXT NOT NULL, at REAL NOT NULL, body BLOB NOT NULL, hash TEXT NOT NULL,
    PRIMARY KEY (run, seq)) STRICT;
INSERT INTO runs (run, started, meta, fence) VALUES ('s', 2.0, '{}', 4), ('r', 1.0, '{"a":1}', 7);
INSERT INTO journal VALUES
    ('r', 1, 'note', 'k', 1.0, x'7b7d', 'h'), ('s', 1, 'note', 'other', 1.0, x'7b7d', 'h');
"""


@pytest.mark.anyio
async def test_a_journal_of_the_first_layout_goes_on(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.executescript(FIRST_LAYOUT)
    db.close()
    for _ in range(2):
        store = SqliteStore(tmp_path / "journal.db")
        assert [(run.run_id, run.meta) for run in await store.runs()] == [
            ("s", {}),
            ("r", {"a": 1}),
        ]
        assert await store.rows("r") == [ROW]
        store.close()
    store = SqliteStore(tmp_path / "journal.db")
    more = [Row(seq, "note", f"k{seq}", 1.0, b"{}", "h") for seq in range(2, 2000)]
    fence = await store.acquire("r", "me", 30)
    assert fence == 8
    await store.append("r", fence, more, 30)
    assert await store.rows("r") == [ROW, *more]
    assert [row.key for row in await store.rows("s")] == ["other"]
    store.close()


def test_a_file_that_was_cut_off_while_it_was_made_is_made(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.execute(FIRST_LAYOUT.strip().split(";")[0])
    db.close()
    store = SqliteStore(tmp_path / "journal.db")
    assert asyncio.run(store.runs()) == []
    store.close()


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


@pytest.mark.anyio
async def test_what_a_run_adds_is_written_at_one_place(tmp_path: Path) -> None:
    store, log = SqliteStore(tmp_path / "journal.db"), tmp_path / "journal.db-wal"
    await store.create("r", 1.0, {})
    fence = await store.acquire("r", "me", 30)
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for seq in range(1, 101):
        await store.append("r", fence, [Row(seq, "note", f"k{seq}", 1.0, b"1" * 900, "h")], 30)
    # A quarter of a page each: its own page, and the tree's root for each new one.
    assert log.stat().st_size < 100 * 2 * PAGE
    store.close()
