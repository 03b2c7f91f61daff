"""The journal in one SQLite file: the default, no server, safe against a power cut.

WAL with ``synchronous=FULL``: an append is on disk when it returns. One connection, used from one
thread of its own, so that the event loop never waits for the disk.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from msgspec.structs import astuple

from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.ports import Row, RunMeta
from orchestrator.engine.types import Json
from orchestrator.errors import StoreError
from orchestrator.stores.base import Turns, already_there, fenced_off, held, meta_of, no_such_run
from orchestrator.stores.lease_holder import gone
from orchestrator.stores.sqlite_schema import LAST_SEQ, lay_out, place_of, transaction

T = TypeVar("T")

ROOM_PAGES, PAGE = 128, 4096
"""What the write-ahead log has room for from the start, in pages of so many bytes, and after which
it is begun anew. A commit that makes a file longer waits for the file system's own journal as well,
which takes twice as long, and much longer on a disk that others use."""

CACHE_PAGES = 500

BUSY_SECONDS = 10
"""That long one waits while another writes."""

ROWS_AT_ONCE = 500
"""Six values each; SQLite takes 32766 in a statement."""

ROWS = """
SELECT place & 0xffffffff, kind, key, at, body, hash FROM runs JOIN journal
ON place BETWEEN number << 32 AND number << 32 | 0xffffffff WHERE run = ?
"""


class SqliteStore:
    """Runs and their journals in one file.

    Args:
        path: the database; its folder must exist.

    Raises:
        StoreError: it cannot be opened or is not such a database.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turns = Turns()
        with self._faults():
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                # A text that is no UTF-8 is an altered row, and not a store that cannot be read.
                self._db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
                self._db.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")
                self._keep_a_log()
                self._db.execute("PRAGMA synchronous=FULL")
                self._db.execute(f"PRAGMA wal_autocheckpoint={ROOM_PAGES}")
                self._db.execute(f"PRAGMA cache_size={CACHE_PAGES}")
                lay_out(self._db)
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        """Close the file, when what is being written is written. Idempotent."""
        self._turns.end()
        self._db.close()

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as fault:
            raise StoreError(
                f"the journal {self.path} cannot be used ({fault}); what it holds is kept. "
                "Free some space or mend its permissions, then resume the run"
            ) from None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def guarded() -> T:
            with self._faults():
                return work()

        return await self._turns.run(guarded)

    def _keep_a_log(self) -> None:
        # SQLite does not wait for others here, whatever busy_timeout says: when several open a new
        # file at once, each holds what another wants.
        until = time.monotonic() + BUSY_SECONDS
        while not self._has_log(last=time.monotonic() > until):
            time.sleep(0.01)

    def _has_log(self, *, last: bool) -> bool:
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as fault:
            if last or fault.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            return False
        return True

    def _make_room(self) -> None:
        """Make the write-ahead log as long as it will be, unless it is.

        A transaction that outgrows the cache is written to the log before it is committed. Rolled
        back it counts for nothing, and the file stays as long as it was.
        """
        log, room = Path(f"{self.path}-wal"), ROOM_PAGES * PAGE
        if log.exists() and log.stat().st_size >= room:
            return
        # Without room commits are slower, and that is all; a full disk says so at the next one.
        with suppress(sqlite3.OperationalError):
            self._db.execute("PRAGMA cache_size=10")
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("CREATE TABLE room (bytes BLOB)")
            self._db.execute("INSERT INTO room VALUES (zeroblob(?))", (room + PAGE,))
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self._db.execute(f"PRAGMA cache_size={CACHE_PAGES}")

    async def create(self, run_id: str, started: float, meta: Json) -> None:
        """Enter a new run."""
        await self.restore(RunMeta(run_id, started, meta), [])

    async def restore(self, run: RunMeta, rows: Sequence[Row]) -> None:
        """Enter a run with all its rows; see ``RunStore``."""

        def work() -> None:
            with transaction(self._db) as db:
                entered = db.execute(
                    "INSERT INTO runs (run, started, meta) VALUES (?, ?, ?)"
                    " ON CONFLICT DO NOTHING RETURNING number",
                    (run.run_id, run.started, canonical(run.meta).decode()),
                ).fetchone()
                if entered is None:
                    raise already_there(run.run_id)
                _insert(db, entered[0], rows)

        await self._in_thread(work)

    async def runs(self) -> list[RunMeta]:
        """All runs, newest first; ``writer`` where a lease is live."""

        def work() -> list[RunMeta]:
            found = self._db.execute(
                "SELECT run, started, meta, holder, lease_until FROM runs"
                " ORDER BY started DESC, run DESC"
            )
            return [
                RunMeta(run, started, meta_of(run, meta), holder if _live(holder, until) else None)
                for run, started, meta, holder, until in found
            ]

        return await self._in_thread(work)

    async def forget(self, run_id: str) -> None:
        """Remove a run and its rows."""

        def work() -> None:
            with transaction(self._db) as db:
                row = db.execute(
                    "SELECT number, holder, lease_until FROM runs WHERE run = ?", (run_id,)
                ).fetchone()
                if row is None:
                    return
                number, holder, until = row
                if _live(holder, until):
                    raise held(run_id, holder, until - time.time())
                db.execute(
                    "DELETE FROM journal WHERE place BETWEEN ? AND ?",
                    (place_of(number, 0), place_of(number, LAST_SEQ)),
                )
                db.execute("DELETE FROM runs WHERE number = ?", (number,))

        await self._in_thread(work)

    async def acquire(self, run_id: str, holder: str, ttl: float) -> int:
        """Become the run's one writer; see ``JournalStore``."""

        def work() -> int:
            self._make_room()
            with transaction(self._db) as db:
                row = db.execute(
                    "SELECT holder, lease_until, fence FROM runs WHERE run = ?", (run_id,)
                ).fetchone()
                if row is None:
                    raise no_such_run(run_id)
                other, until, fence = row
                if _live(other, until):
                    raise held(run_id, other, until - time.time())
                db.execute(
                    "UPDATE runs SET holder = ?, lease_until = ?, fence = ? WHERE run = ?",
                    (holder, time.time() + ttl, fence + 1, run_id),
                )
                return int(fence) + 1

        return await self._in_thread(work)

    async def append(self, run_id: str, fence: int, rows: Sequence[Row], ttl: float) -> None:
        """Add rows and extend the lease, in one transaction; durable when it returns."""

        def work() -> None:
            with transaction(self._db) as db:
                ours = db.execute(
                    "SELECT number, lease_until FROM runs WHERE run = ? AND fence = ?",
                    (run_id, fence),
                ).fetchone()
                if ours is None:
                    raise fenced_off(run_id)
                (number, lease), until = ours, time.time() + ttl
                if lease < until - ttl / 10:  # not each time: it is one more page to write
                    db.execute("UPDATE runs SET lease_until = ? WHERE number = ?", (until, number))
                _insert(db, number, rows)

        await self._in_thread(work)

    async def rows(self, run_id: str) -> list[Row]:
        """All rows of a run, in order."""

        def work() -> list[Row]:
            found = self._db.execute(f"{ROWS} ORDER BY place", (run_id,))
            return [Row(*row) for row in found]

        return await self._in_thread(work)

    async def find(self, run_id: str, key: str) -> Row | None:
        """The newest row under a key; see ``RunStore``."""

        def work() -> Row | None:
            found = self._db.execute(
                f"{ROWS} AND key = ? ORDER BY place DESC LIMIT 1", (run_id, key)
            ).fetchone()
            return Row(*found) if found else None

        return await self._in_thread(work)

    async def release(self, run_id: str, fence: int) -> None:
        """Let others write."""

        def work() -> None:
            with transaction(self._db) as db:
                db.execute(
                    "UPDATE runs SET lease_until = 0 WHERE run = ? AND fence = ?", (run_id, fence)
                )

        await self._in_thread(work)


def _insert(db: sqlite3.Connection, number: int, rows: Sequence[Row]) -> None:
    # Many rows a statement: after each one this thread waits for its turn with the interpreter.
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[start : start + ROWS_AT_ONCE]
        values = [v for r in part for v in (place_of(number, r.seq), *astuple(r)[1:])]
        places = ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(part))
        db.execute(f"INSERT INTO journal VALUES {places}", values)  # noqa: S608


def _live(holder: str | None, until: float) -> bool:
    """Whether a lease still keeps others out."""
    return until > time.time() and not gone(holder or "")
