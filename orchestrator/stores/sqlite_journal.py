"""The journal in one SQLite file: the default, no server, safe against a power cut."""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from weakref import finalize

from msgspec.structs import astuple

from orchestrator.data_directories import read_beside, read_queries
from orchestrator.engine.ports import Clock, Row
from orchestrator.errors import StoreError
from orchestrator.stores.sql_store import Entry, RunStore, is_live
from orchestrator.stores.sqlite_log_damage import refuse_damaged_log

LAYOUT = 1
"""The file's ``user_version``; 0 is an empty file."""

TABLES = read_beside(__file__, "sqlite_journal.sql").split(";\n")

BUSY_SECONDS = 10
"""How long to wait while another process writes."""
REPAIR, HIDDEN = "diffcourt runs repair", "hidden"
MAX_RUNS = 100_000
"""How many are looked for where the index of runs is damaged."""
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

MEMORY = Path(":memory:")

ROWS_PER_INSERT = 500
"""Six values each; SQLite takes 32766 in a statement."""


class SqliteStore(RunStore):
    """Runs and their journals in one file.

    Args:
        path: the database; its directory must exist.

    Raises:
        StoreError: it cannot be opened, is not such a database, or its log is damaged.
    """

    QUERIES = read_queries(__file__, "sqlite_queries.sql")

    _now = staticmethod(time.time)

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        refuse_damaged_log(path)
        with self._store_errors():
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                # A text that is not UTF-8 is an altered row, and not an unreadable store.
                self._db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
                self._db.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")
                self._begin_log()
                self._db.execute("PRAGMA synchronous=FULL")
                self._create_tables()
            except BaseException:
                self._db.close()
                raise

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OverflowError) as error:  # a number that is too large, by damage
            advice = "Free some space or repair its permissions, then resume the run"
            if is_damage(error):
                advice = "It is damaged: put back a copy, or take what can be read: " + REPAIR
            what = " ".join(str(error).split())[:200]
            raise StoreError(
                f"the journal {self.path} cannot be used ({what}); its contents are kept. {advice}"
            ) from None

    def _begin_log(self) -> None:
        # SQLite does not wait for others here, whatever busy_timeout says: when several open a new
        # file at once, each holds what another wants.
        until = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return

    def _create_tables(self) -> None:
        if self._layout() == 0:
            with self._transaction():
                if self._layout() == 0:  # still: another process may have been faster
                    for statement in TABLES:
                        self._db.execute(statement)
        if self._layout() != LAYOUT:
            raise StoreError("the journal was written by a newer Diffcourt; use that version")
        # A constraint can drop rows, an index can make each write take seconds.
        found, ours = _schema(self._db), _own_schema()
        if odd := sorted(found - ours) or sorted(ours - found):
            raise StoreError(
                f"the journal has a {odd[0][0]} that Diffcourt did not make: {odd[0][1]!r}; if its "
                f"disk damaged it: {REPAIR}"
            )

    def _layout(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if self.path != MEMORY and not self.path.exists():  # SQLite would go on writing to it
            raise StoreError(f"the journal {self.path} was removed meanwhile; start the run again")
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            # A failed COMMIT (a full disk) may have ended the transaction by itself.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _own_values(self) -> dict[str, object]:
        return {"now": self._now()}

    def _insert_rows(self, run: int, rows: Sequence[Row]) -> None:
        # Many rows a statement: after each one this thread waits for the interpreter's lock.
        for start in range(0, len(rows), ROWS_PER_INSERT):
            part = rows[start : start + ROWS_PER_INSERT]
            values = [v for r in part for v in (place_of(run, r.seq), *astuple(r)[1:])]
            places = ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(part))
            self._db.execute(f"INSERT INTO journal VALUES {places}", values)  # noqa: S608

    def _select(self, query: str, **values: object) -> Sequence[Any]:
        try:
            return super()._select(query, **values)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            # Only the index of names may be damaged: without it all runs are compared.
            whole = self.QUERIES[query].replace("FROM runs", "FROM runs NOT INDEXED")
            found: Sequence[Any] = self._db.execute(whole, values).fetchall()
            return found

    def _read_runs(self, columns: str, rest: str = "", values: Sequence[object] = ()) -> list[Any]:
        """Fields of runs, the name first; those that damage hides are named by their numbers."""
        try:
            found = self._db.execute(f"SELECT {columns} FROM runs {rest}", values).fetchall()  # noqa: S608
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            found = list(self._read_one_by_one(columns))
        names = (isinstance(row[0], str) and row[0].isprintable() for row in found)
        return [r if is_name else (HIDDEN, *r[1:]) for r, is_name in zip(found, names, strict=True)]

    def _read_one_by_one(self, columns: str) -> Iterator[Any]:
        """Each run by its number, the newest first; ``hidden-N`` where it cannot be read."""
        (last,) = self._db.execute("SELECT max(place) >> 32 FROM journal").fetchone()
        for number in range(min(last or 0, MAX_RUNS), 0, -1):
            try:
                query = f"SELECT {columns} FROM runs WHERE number = ?"  # noqa: S608
                row = self._db.execute(query, (number,)).fetchone()
            except sqlite3.DatabaseError:
                row = (f"{HIDDEN}-{number}", *[0] * columns.count(","))
            if row:
                yield row

    def _list_entries(self, all_repositories: bool, only: Sequence[str] | None) -> list[Entry]:
        chosen = "" if only is None else "WHERE run IN (SELECT value FROM json_each(?))"
        found = self._read_runs(
            "run, started, meta, CAST(holder AS TEXT), CAST(lease_until AS REAL)",
            f"{chosen} ORDER BY started DESC, run DESC",
            () if only is None else (json.dumps(only),),
        )
        now = self._now()
        return [
            (run, at, meta, holder if is_live(holder, (end or 0) - now) else None)
            for run, at, meta, holder, end in found
            if only is None or run in only
        ]

    def _list_leases(self) -> list[tuple[str, str | None, float, object, int]]:
        left = f"lease_until - {self._now()!r}"
        holder = f"CASE WHEN {left} > 0 THEN holder END"
        return self._read_runs(f"run, {holder}, {left}, lease_until, fence")

    def _extend_lease(self, run_id: str, fence: int, ttl: float) -> int | None:
        row = self._execute("extend_lease", run=run_id, fence=fence).fetchone()
        if row is None:
            return None
        (number, lease), until = row, self._now() + ttl
        if lease < until - ttl / 10:  # not each time: it is one more page to write
            self._db.execute("UPDATE runs SET lease_until = ? WHERE number = ?", (until, number))
        return int(number)


def is_damage(error: Exception) -> bool:
    """Whether the file itself is wrong, and not the disk or another process."""
    number = sqlite3.SQLITE_CORRUPT if isinstance(error, OverflowError) else 0
    return (getattr(error, "sqlite_errorcode", number) & 0xFF) in _DAMAGED


def _schema(db: sqlite3.Connection) -> set[tuple[str, str, str]]:
    rows = db.execute(
        "SELECT type, name, coalesce(sql, '') FROM sqlite_master"
        " WHERE type != 'table'"  # no other table has an effect
        " OR name IN ('runs', 'journal', 'cancellations')"
    )
    return {(str(kind), str(name), str(text)) for kind, name, text in rows}


@cache
def _own_schema() -> set[tuple[str, str, str]]:
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in TABLES:
            db.execute(statement)
        return _schema(db)


def place_of(number: int, seq: int) -> int:
    """The primary key of a run's row: the run's number, then the row's."""
    return number << 32 | seq


T = TypeVar("T")


class MemoryStore(SqliteStore):
    """Runs and their journals. Gone with the process.

    Args:
        clock: by which leases end.
    """

    def __init__(self, clock: Clock) -> None:
        self._now = clock.now
        super().__init__(MEMORY)
        finalize(self, self._db.close)

    def close(self) -> None:
        """Do nothing: what it holds can still be read."""

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return work()  # there is nothing to wait for
