"""The journal in PostgreSQL: for teams, one server for the runs of many machines.

psycopg's plain connection in a worker thread, since its async one knows asyncio only. Leases are
measured by the server's clock: the machines that share it may disagree about the time.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import resources

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from orchestrator.data_directories import read_queries
from orchestrator.engine.ports import Row
from orchestrator.errors import InputError, StoreError
from orchestrator.stores.sql_store import Entry, RunStore, in_thread, is_live

TIMEOUTS = {"connect_timeout": "10", "tcp_user_timeout": "20000"}
"""Seconds to connect, and milliseconds until a silent connection counts as lost."""

DURABLE = """
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off'
"""
"""An append must be on the server's disk when it returns, whatever the server's default."""

MIGRATION_LOCK = 0x6469666663
"""The number of the advisory lock under which one process at a time migrates."""


class PostgresStore(RunStore):
    """Runs and their journals on a server.

    Args:
        address: ``postgresql://user@host/database``, with any option that libpq takes.
        repository: what the runs belong to; those of others are not listed, written or removed.

    Raises:
        InputError: the address is invalid.
        StoreError: the server cannot be reached, or its tables are a newer version's.
    """

    QUERIES = read_queries(__file__, "postgres_queries.sql")

    def __init__(self, address: str, repository: str) -> None:
        super().__init__()
        self._repository = repository
        try:
            options = conninfo_to_dict(address)
        except psycopg.Error:
            # Without libpq's words: they may quote the password.
            raise InputError(
                "DIFFCOURT_STORE is not the address of a PostgreSQL database; write it as "
                "postgresql://user@host/database"
            ) from None
        self.where = f"PostgreSQL at {options.get('host') or 'localhost'}"
        with self._store_errors():
            self._db = psycopg.connect(
                make_conninfo(address, **{k: v for k, v in TIMEOUTS.items() if k not in options}),
                autocommit=True,
            )
            try:
                self._db.execute(DURABLE)
                migrate(self._db, "diffcourt_migrations", sql_files("orchestrator.stores"))
            except BaseException:
                self._db.close()
                raise

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise StoreError(
                f"{self.where} cannot be used ({reason}); its contents are kept. "
                "Check the connection and the server, then resume the run"
            ) from None

    @in_thread
    def mark(self) -> str:
        """Another text whenever a run of this repository has changed, without reading its rows.

        Every writer takes a new fence, and every append moves the lease.
        """
        return " ".join(map(str, self._execute("mark").fetchone() or ()))

    def _transaction(self) -> AbstractContextManager[object]:
        transaction: AbstractContextManager[object] = self._db.transaction()
        return transaction

    def _own_values(self) -> dict[str, object]:
        return {"repository": self._repository}

    def _insert_rows(self, run: str, rows: Sequence[Row]) -> None:
        with self._db.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO diffcourt_journal VALUES (%s, %s, %s, %s, %s, %s, %s)",
                [(run, r.seq, r.kind, r.key, r.at, r.body, r.hash) for r in rows],
            )

    def _list_entries(self, all_repositories: bool, only: Sequence[str] | None) -> list[Entry]:
        names = None if only is None else list(only)
        entries = [
            (run, at, meta, holder if is_live(holder, left) else None)
            for run, at, meta, holder, left in self._select(
                "entries", all=all_repositories, only=names
            )
        ]
        # Sorted here: the server's collation would order equal times its own way.
        return sorted(entries, key=lambda entry: (entry[1], entry[0]), reverse=True)

    def _list_leases(self) -> list[tuple[str, str | None, float, object, int]]:
        return list(self._select("leases"))


def migrate(db: psycopg.Connection, table: str, files: Mapping[str, bytes]) -> None:
    """Bring the tables up to date: numbered files, each applied once, all or none.

    Args:
        table: where the applied files are listed.
        files: name → SQL; applied in the order of their names.

    Raises:
        StoreError: a newer version was here, or an applied file is not the one we have.
    """
    listed = sql.Identifier(table)
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        db.execute(
            sql.SQL(
                "CREATE TABLE IF NOT EXISTS {} (name TEXT PRIMARY KEY,"
                " sha256 TEXT NOT NULL, applied TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp())"
            ).format(listed)
        )
        applied: dict[str, str] = dict(
            db.execute(sql.SQL("SELECT name, sha256 FROM {}").format(listed)).fetchall()
        )
        for name, digest in applied.items():
            if name not in files or hashlib.sha256(files[name]).hexdigest() != digest:
                raise StoreError(
                    f"the store was migrated by another version of diffcourt ({name}); "
                    "use that version, or another database"
                )
        for name in sorted(files.keys() - applied.keys()):
            db.execute(files[name])
            db.execute(
                sql.SQL("INSERT INTO {} (name, sha256) VALUES (%s, %s)").format(listed),
                (name, hashlib.sha256(files[name]).hexdigest()),
            )


def sql_files(package: str) -> dict[str, bytes]:
    """The SQL files in a package's folder ``migrations``, by name."""
    directory = resources.files(package) / "migrations"
    return {
        file.name: file.read_bytes() for file in directory.iterdir() if file.name[-4:] == ".sql"
    }
