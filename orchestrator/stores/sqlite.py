"""The journal in one SQLite file: the default, no server, safe against a power cut.

WAL with ``synchronous=FULL``: an append is on disk when it returns. One connection, used from one
worker thread at a time, so that the event loop never waits for the disk.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from orchestrator.engine.canonical import canonical
from orchestrator.engine.ports import Row, RunMeta
from orchestrator.engine.types import Json
from orchestrator.errors import StoreError

T = TypeVar("T")

SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    run TEXT PRIMARY KEY, started REAL NOT NULL, meta TEXT NOT NULL,
    holder TEXT, lease_until REAL NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS journal (
    run TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
    at REAL NOT NULL, body BLOB NOT NULL, hash TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
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
        self._limiter = anyio.CapacityLimiter(1)
        with self._faults():
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA busy_timeout=10000")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(SCHEMA)

    def close(self) -> None:
        """Close the file. Idempotent."""
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

        return await anyio.to_thread.run_sync(guarded, limiter=self._limiter)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
            self._db.execute("COMMIT")
        except BaseException:
            # A failed COMMIT (a full disk) may have ended the transaction by itself.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    async def create(self, run_id: str, started: float, meta: Json) -> None:
        """Enter a new run."""

        def work() -> None:
            with self._transaction() as db:
                db.execute(
                    "INSERT INTO runs (run, started, meta) VALUES (?, ?, ?)",
                    (run_id, started, canonical(meta).decode()),
                )

        await self._in_thread(work)

    async def runs(self) -> list[RunMeta]:
        """All runs, newest first; ``writer`` where a lease is live."""

        def work() -> list[RunMeta]:
            rows = self._db.execute(
                "SELECT run, started, meta, CASE WHEN lease_until > ? THEN holder END"
                " FROM runs ORDER BY started DESC, run DESC",
                (time.time(),),
            )
            return [
                RunMeta(run, started, json.loads(meta), holder)
                for run, started, meta, holder in rows
            ]

        return await self._in_thread(work)

    async def forget(self, run_id: str) -> None:
        """Remove a run and its rows."""

        def work() -> None:
            with self._transaction() as db:
                db.execute("DELETE FROM journal WHERE run = ?", (run_id,))
                db.execute("DELETE FROM runs WHERE run = ?", (run_id,))

        await self._in_thread(work)

    async def acquire(self, run_id: str, holder: str, ttl: float) -> int:
        """Become the run's one writer; see ``JournalStore``."""

        def work() -> int:
            with self._transaction() as db:
                row = db.execute(
                    "SELECT holder, lease_until, fence FROM runs WHERE run = ?", (run_id,)
                ).fetchone()
                if row is None:
                    raise StoreError(f"there is no run {run_id} in {self.path}")
                other, until, fence = row
                if until > time.time():
                    raise StoreError(
                        f"run {run_id} is being written by {other}; "
                        f"wait until it ends, or {until - time.time():.0f} s after it died"
                    )
                db.execute(
                    "UPDATE runs SET holder = ?, lease_until = ?, fence = ? WHERE run = ?",
                    (holder, time.time() + ttl, fence + 1, run_id),
                )
                return int(fence) + 1

        return await self._in_thread(work)

    async def append(self, run_id: str, fence: int, rows: Sequence[Row], ttl: float) -> None:
        """Add rows and extend the lease, in one transaction; durable when it returns."""

        def work() -> None:
            with self._transaction() as db:
                held = db.execute(
                    "UPDATE runs SET lease_until = ? WHERE run = ? AND fence = ?",
                    (time.time() + ttl, run_id, fence),
                ).rowcount
                if not held:
                    raise StoreError(f"run {run_id} has another writer now; this one stops")
                db.executemany(
                    "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [(run_id, r.seq, r.kind, r.key, r.at, r.body, r.hash) for r in rows],
                )

        await self._in_thread(work)

    async def rows(self, run_id: str) -> list[Row]:
        """All rows of a run, in order."""

        def work() -> list[Row]:
            found = self._db.execute(
                "SELECT seq, kind, key, at, body, hash FROM journal WHERE run = ? ORDER BY seq",
                (run_id,),
            )
            return [Row(*row) for row in found]

        return await self._in_thread(work)

    async def release(self, run_id: str, fence: int) -> None:
        """Let others write."""

        def work() -> None:
            with self._transaction() as db:
                db.execute(
                    "UPDATE runs SET lease_until = 0 WHERE run = ? AND fence = ?", (run_id, fence)
                )

        await self._in_thread(work)
