"""What every journal store is: one connection to an SQL database, used in worker threads."""

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial, wraps
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from anyio import to_thread
from msgspec import Struct, to_builtins

from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.ports import BEFORE_ALL, Row, RunMeta
from orchestrator.engine.types import Json
from orchestrator.errors import RunLocked, RunNotFound, StoreError
from orchestrator.stores.writer_identity import display_name, is_gone

P = ParamSpec("P")
T = TypeVar("T")
Store = TypeVar("Store", bound="RunStore")

Lease = tuple[str, float, int]
"""Holder, seconds left and fencing token."""

MAX_SECONDS = 24 * 3600
"""Of a lease: one that ends later than any writer asks for is damaged, and keeps nobody out."""


class CancelRequest(Struct, frozen=True):
    """What asks the writer of a run to stop: who, why (may be empty), seconds since the epoch."""

    who: str
    why: str
    at: float


def run_exists(run_id: str) -> StoreError:
    """The error of a run that would be entered twice."""
    return StoreError(f"there is a run {run_id} here already; nothing was changed")


def run_locked(run_id: str, holder: str, seconds_left: float) -> RunLocked:
    """The error of a run that another process writes."""
    return RunLocked(
        f"run {run_id} is being written by {display_name(holder)}; "
        f"wait until it ends, or {max(seconds_left, 1):.0f} s after it died"
    )


Entry = tuple[str, float, str, str | None]
"""A run in the index: its id, when it began, its entry as JSON, and its live writer."""

Mark = tuple[int, object] | None
"""Of a run: another one after each writer; None while it is written."""


def read_entry(run_id: str, started: float, text: str, writer: str | None) -> RunMeta:
    """A run of the index; without ``meta``, and at the epoch, where its entry is damaged."""
    try:
        datetime.fromtimestamp(started, UTC)
        meta = json.loads(text)
    except (ValueError, TypeError, OverflowError, OSError, RecursionError):
        return RunMeta(run_id, 0.0, None, writer)
    return RunMeta(run_id, started, meta if isinstance(meta, dict) else None, writer)


def _make_row(seq: int, kind: str, key: str, at: float, body: bytes, hash_: str) -> Row:
    """A row; a time before 1970 or after 5138, which is damaged, is 0: it breaks the chain too."""
    return Row(seq, kind, key, at if 0 <= at < 1e11 else 0.0, body, hash_)


def in_thread(
    work: Callable[Concatenate[Store, P], T],
) -> Callable[Concatenate[Store, P], Coroutine[Any, Any, T]]:
    """An asynchronous method that does the work of a blocking one in a worker thread."""

    @wraps(work)
    async def perform(self: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._in_thread(partial(work, self, *args, **kwargs))

    return perform


class RunStore(ABC):
    """Runs and their journals on one blocking connection.

    Every call is one transaction in a worker thread. The lock keeps transactions apart: asyncio's
    Ctrl-C ends the wait for a thread and not the thread, and the next call must not share its
    transaction.

    Attributes:
        QUERIES: name → SQL in the database's dialect; the parameters are named.
    """

    QUERIES: ClassVar[Mapping[str, str]]

    _db: Any

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connection, after the transaction that is running. Idempotent."""
        with self._lock:
            self._db.close()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def locked() -> T:
            with self._lock, self._store_errors():
                return work()

        return await to_thread.run_sync(locked)  # to its end, once it has begun

    async def create(self, run_id: str, started: float, meta: Json) -> None:
        """Enter a new run."""
        await self.restore(RunMeta(run_id, started, meta), [])

    @in_thread
    def restore(self, run: RunMeta, rows: Sequence[Row]) -> None:
        """Enter a run with all its rows, whole or not at all.

        Raises:
            StoreError: there is a run of that name.
        """
        with self._transaction():
            meta = canonical(run.meta).decode()
            new = self._execute("insert_run", run=run.run_id, started=run.started, meta=meta)
            if (number := new.fetchone()) is None:
                raise run_exists(run.run_id)
            self._insert_rows(number[0], rows)

    @in_thread
    def runs(
        self, *, all_repositories: bool = False, only: Sequence[str] | None = None
    ) -> list[RunMeta]:
        """All runs, newest first, also those with damaged entries.

        Args:
            all_repositories: of every repository in a shared store.
            only: ids of the runs; None: all.
        """
        return [read_entry(*entry) for entry in self._list_entries(all_repositories, only)]

    @in_thread
    def marks(self) -> dict[str, Mark]:
        """The marks of all runs of the store's repository.

        Every writer takes a new fence, and every append moves the lease.
        """
        return {
            run: None if holder is not None and is_live(holder, left) else (fence, end)
            for run, holder, left, end, fence in self._list_leases()
        }

    @in_thread
    def forget(self, run_id: str) -> None:
        """Remove a run and its rows."""
        with self._transaction():
            lease = self._lease(run_id)
            if lease is not None:
                _check_free(run_id, lease)
                for part in ("journal", "cancellations", "run"):
                    self._execute(f"delete_{part}", run=run_id)

    @in_thread
    def acquire(self, run_id: str, holder: str, ttl: float) -> int:
        """Become the run's one writer; see ``JournalStore``."""
        with self._transaction():
            lease = self._known_lease(run_id)
            _check_free(run_id, lease)
            fence = lease[2] + 1
            self._execute("set_lease", run=run_id, holder=holder, ttl=ttl, fence=fence)
            return fence

    @in_thread
    def append(self, run_id: str, fence: int, rows: Sequence[Row], ttl: float) -> None:
        """Add rows and extend the lease, in one transaction; durable when it returns."""
        with self._transaction():
            number = self._extend_lease(run_id, fence, ttl)
            if number is None:
                raise StoreError(
                    f"run {run_id} has another writer now, or was removed; this one stops"
                )
            self._insert_rows(number, rows)

    @in_thread
    def rows(self, run_id: str, after: int = BEFORE_ALL) -> list[Row]:
        """The rows of a run behind a number, in order."""
        return [_make_row(*row) for row in self._select("rows", run=run_id, after=after)]

    @in_thread
    def find(self, run_id: str, key: str) -> Row | None:
        """The newest row under a key, without reading the others; None: there is none."""
        found = self._select("find", run=run_id, key=key)
        return _make_row(*found[0]) if found else None

    @in_thread
    def runs_with(self, key: str, body: bytes) -> list[str]:
        """The ids of the runs whose first row under a key has this body, newest first."""
        return [run for (run,) in self._select("runs_with", key=key, body=body)]

    @in_thread
    def release(self, run_id: str, fence: int) -> None:
        """Let others write."""
        self._execute("release", run=run_id, fence=fence)

    @in_thread
    def request_cancellation(self, run_id: str, request: CancelRequest) -> CancelRequest | None:
        """Ask the run's present writer to stop; an earlier request stands.

        Returns:
            The request that stands; None when nobody writes the run.

        Raises:
            RunNotFound: there is no such run.
        """
        with self._transaction():
            holder, seconds_left, fence = self._known_lease(run_id)
            if not is_live(holder, seconds_left):
                return None
            before = self._cancellation(run_id)
            if before is None:
                values = to_builtins(request)
                self._execute("insert_cancellation", run=run_id, fence=fence, **values)
            return before or request

    @in_thread
    def cancellation(self, run_id: str) -> CancelRequest | None:
        """What asks the run's present writer to stop; a later writer is not asked."""
        return self._cancellation(run_id)

    def _cancellation(self, run_id: str) -> CancelRequest | None:
        found = self._execute("cancellation", run=run_id).fetchone()
        return CancelRequest(*found) if found else None

    def _known_lease(self, run_id: str) -> Lease:
        lease = self._lease(run_id)
        if lease is None:
            raise RunNotFound(f"there is no run {run_id} here; `diffcourt runs` lists them")
        return lease

    def _execute(self, query: str, **values: object) -> Any:
        """A cursor over what a query gives."""
        return self._db.execute(self.QUERIES[query], {**self._own_values(), **values})

    def _select(self, query: str, **values: object) -> Sequence[Any]:
        """The rows that a query of one run finds."""
        found: Sequence[Any] = self._execute(query, **values).fetchall()
        return found

    def _lease(self, run_id: str) -> Lease | None:
        """A run's lease, which nobody else changes before the transaction ends; None: no run."""
        lease: Lease | None = self._execute("lease", run=run_id).fetchone()
        return lease

    def _extend_lease(self, run_id: str, fence: int, ttl: float) -> Any:
        """Extend a lease; what ``_insert_rows`` knows the run by, None when it is another's."""
        row = self._execute("extend_lease", run=run_id, fence=fence, ttl=ttl).fetchone()
        return row[0] if row else None

    # --- what differs between databases -------------------------------------------------------

    @abstractmethod
    def _own_values(self) -> Mapping[str, object]:
        """The parameters that queries of this database have besides."""

    @abstractmethod
    def _store_errors(self) -> AbstractContextManager[None]:
        """Raise the driver's errors as ``StoreError``, in one line."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[object]:
        """What is done within is done whole or not at all."""

    @abstractmethod
    def _insert_rows(self, run: Any, rows: Sequence[Row]) -> None:
        """Add rows to a run, as the queries ``insert_run`` and ``extend_lease`` name it."""

    @abstractmethod
    def _list_entries(self, all_repositories: bool, only: Sequence[str] | None) -> list[Entry]:
        """Runs, newest first; of every repository, or of the store's own."""

    @abstractmethod
    def _list_leases(self) -> list[tuple[str, str | None, float, object, int]]:
        """Of each run its id, live holder, seconds left, end and fencing token."""


def is_live(holder: str, seconds_left: float) -> bool:
    """Whether a lease still keeps others out."""
    return 0 < seconds_left < MAX_SECONDS and not is_gone(holder)


def _check_free(run_id: str, lease: Lease) -> None:
    holder, seconds_left, _ = lease
    if is_live(holder, seconds_left):
        raise run_locked(run_id, holder, seconds_left)
