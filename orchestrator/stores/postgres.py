"""The journal in PostgreSQL: for teams, one server for the runs of many machines.

psycopg's plain connection in a worker thread, since its async one knows asyncio only. Leases are
measured by the server's clock: the machines that share it may disagree about the time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.ports import Row, RunMeta
from orchestrator.engine.types import Json
from orchestrator.errors import InputError, StoreError
from orchestrator.stores.base import Turns, already_there, fenced_off, held, meta_of, no_such_run
from orchestrator.stores.lease_holder import gone

T = TypeVar("T")

PATIENCE = {"connect_timeout": "10", "tcp_user_timeout": "20000"}
"""Seconds to connect, and milliseconds until a silent connection counts as lost."""

MIGRATING = 0x6469666663
"""The number of the advisory lock under which one process at a time migrates."""

DURABLE = """
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off'
"""
"""An append must be on the server's disk when it returns, whatever the server's default."""

ROWS = "SELECT seq, kind, key, at, body, hash FROM diffcourt_journal"
LEASE = "SELECT holder, extract(epoch FROM lease_until - clock_timestamp())::float8, fence"
EXTEND = "UPDATE diffcourt_runs SET lease_until = clock_timestamp() + make_interval(secs => %s)"


class PostgresStore:
    """Runs and their journals on a server.

    Args:
        address: ``postgresql://user@host/database``, with any option that libpq takes.

    Raises:
        InputError: the address is none.
        StoreError: the server cannot be reached, or its tables are a newer version's.
    """

    def __init__(self, address: str) -> None:
        self._turns = Turns()
        try:
            given = conninfo_to_dict(address)
        except psycopg.Error:
            # Without libpq's words: they may quote the password.
            raise InputError(
                "DIFFCOURT_STORE is no address of a PostgreSQL database; write it as "
                "postgresql://user@host/database"
            ) from None
        self.where = f"PostgreSQL at {given.get('host') or 'localhost'}"
        with self._faults():
            self._db = psycopg.connect(
                make_conninfo(address, **{k: v for k, v in PATIENCE.items() if k not in given}),
                autocommit=True,
            )
            try:
                self._db.execute(DURABLE)
                _migrate(self._db)
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        """Close the connection, when what is being written is written. Idempotent."""
        self._turns.end()
        self._db.close()

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as fault:
            why = " ".join(str(fault).split()) or type(fault).__name__
            raise StoreError(
                f"{self.where} cannot be used ({why}); what it holds is kept. "
                "Mend the connection or the server, then resume the run"
            ) from None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def guarded() -> T:
            with self._faults():
                return work()

        return await self._turns.run(guarded)

    async def create(self, run_id: str, started: float, meta: Json) -> None:
        """Enter a new run."""
        await self.restore(RunMeta(run_id, started, meta), [])

    async def restore(self, run: RunMeta, rows: Sequence[Row]) -> None:
        """Enter a run with all its rows; see ``RunStore``."""

        def work() -> None:
            with self._db.transaction():
                entered = self._db.execute(
                    "INSERT INTO diffcourt_runs (run, started, meta) VALUES (%s, %s, %s)"
                    " ON CONFLICT DO NOTHING",
                    (run.run_id, run.started, canonical(run.meta).decode()),
                ).rowcount
                if not entered:
                    raise already_there(run.run_id)
                self._insert(run.run_id, rows)

        await self._in_thread(work)

    async def runs(self) -> list[RunMeta]:
        """All runs, newest first; ``writer`` where a lease is live."""

        def work() -> list[RunMeta]:
            found = self._db.execute(f"{LEASE}, run, started, meta FROM diffcourt_runs").fetchall()
            runs = [
                RunMeta(run, at, meta_of(run, meta), holder if _live(holder, left) else None)
                for holder, left, _, run, at, meta in found
            ]
            # Sorted here: the server's collation would order equal times its own way.
            return sorted(runs, key=lambda run: (run.started, run.run_id), reverse=True)

        return await self._in_thread(work)

    async def forget(self, run_id: str) -> None:
        """Remove a run and its rows."""

        def work() -> None:
            with self._db.transaction():
                row = self._lease(run_id)
                if row is not None and _live(row[0], row[1]):
                    raise held(run_id, row[0], row[1])
                self._db.execute("DELETE FROM diffcourt_runs WHERE run = %s", (run_id,))

        await self._in_thread(work)

    def _lease(self, run_id: str) -> tuple[Any, ...] | None:
        """Holder, seconds left and fence of a run, held against others until the end of the
        transaction."""
        return self._db.execute(
            f"{LEASE} FROM diffcourt_runs WHERE run = %s FOR UPDATE", (run_id,)
        ).fetchone()

    async def acquire(self, run_id: str, holder: str, ttl: float) -> int:
        """Become the run's one writer; see ``JournalStore``."""

        def work() -> int:
            with self._db.transaction():
                row = self._lease(run_id)
                if row is None:
                    raise no_such_run(run_id)
                other, left, fence = row
                if _live(other, left):
                    raise held(run_id, other, left)
                self._db.execute(
                    f"{EXTEND}, holder = %s, fence = %s WHERE run = %s",
                    (ttl, holder, fence + 1, run_id),
                )
                return int(fence) + 1

        return await self._in_thread(work)

    async def append(self, run_id: str, fence: int, rows: Sequence[Row], ttl: float) -> None:
        """Add rows and extend the lease, in one transaction; durable when it returns."""

        def work() -> None:
            with self._db.transaction():
                ours = self._db.execute(
                    f"{EXTEND} WHERE run = %s AND fence = %s", (ttl, run_id, fence)
                ).rowcount
                if not ours:
                    raise fenced_off(run_id)
                self._insert(run_id, rows)

        await self._in_thread(work)

    def _insert(self, run_id: str, rows: Sequence[Row]) -> None:
        with self._db.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO diffcourt_journal VALUES (%s, %s, %s, %s, %s, %s, %s)",
                [(run_id, r.seq, r.kind, r.key, r.at, r.body, r.hash) for r in rows],
            )

    async def rows(self, run_id: str) -> list[Row]:
        """All rows of a run, in order."""

        def work() -> list[Row]:
            found = self._db.execute(f"{ROWS} WHERE run = %s ORDER BY seq", (run_id,))
            return [Row(*row) for row in found]

        return await self._in_thread(work)

    async def find(self, run_id: str, key: str) -> Row | None:
        """The newest row under a key; see ``RunStore``."""

        def work() -> Row | None:
            found = self._db.execute(
                f"{ROWS} WHERE run = %s AND key = %s ORDER BY seq DESC LIMIT 1", (run_id, key)
            ).fetchone()
            return Row(*found) if found else None

        return await self._in_thread(work)

    async def release(self, run_id: str, fence: int) -> None:
        """Let others write."""

        def work() -> None:
            self._db.execute(
                "UPDATE diffcourt_runs SET lease_until = 'epoch' WHERE run = %s AND fence = %s",
                (run_id, fence),
            )

        await self._in_thread(work)


def _live(holder: str, left: float) -> bool:
    """Whether a lease still keeps others out."""
    return left > 0 and not gone(holder)


def _migrate(db: psycopg.Connection) -> None:
    """Bring the tables up to date: numbered files, each applied once, all or none.

    Raises:
        StoreError: a newer version was here, or an applied file is not the one we have.
    """
    ours = _migrations()
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATING,))
        db.execute(
            "CREATE TABLE IF NOT EXISTS diffcourt_migrations (name TEXT PRIMARY KEY,"
            " sha256 TEXT NOT NULL, applied TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp())"
        )
        applied: dict[str, str] = dict(
            db.execute("SELECT name, sha256 FROM diffcourt_migrations").fetchall()
        )
        for name, digest in applied.items():
            if name not in ours or hashlib.sha256(ours[name]).hexdigest() != digest:
                raise StoreError(
                    f"the store was migrated by another version of diffcourt ({name}); "
                    "use that version, or another database"
                )
        for name in sorted(ours.keys() - applied.keys()):
            db.execute(ours[name])
            db.execute(
                "INSERT INTO diffcourt_migrations (name, sha256) VALUES (%s, %s)",
                (name, hashlib.sha256(ours[name]).hexdigest()),
            )


def _migrations() -> dict[str, bytes]:
    """The migrations that this version has, by name."""
    folder = resources.files("orchestrator.stores") / "migrations"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name[-4:] == ".sql"}
