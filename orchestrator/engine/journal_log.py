"""The journal's log: rows in one order, chained by hash, made durable in groups.

Rows become durable in order, so what is on disk is always a prefix of what was written. Callers
that wait for durability share a commit; rows that no caller waits for are committed when the log
has been idle for a few milliseconds.
"""

from itertools import pairwise

import anyio

from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.journal_hash_chain import (
    GENESIS,
    SIGNED_HEAD,
    SigningKey,
    find_signature_errors,
    row_hash,
    signed_head_body,
    signed_head_key,
    verify_chain,
)
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.ports import Clock, JournalStore, Row
from orchestrator.errors import StoreError

SESSION = "session"
"""Topic of the note with which each session of a run begins."""

BEGINNING = Row(0, "", "", 0.0, b"", GENESIS)
"""Stands before a journal's first row."""

LEASE_SECONDS = 30.0
IDLE_COMMIT_SECONDS = 0.005


def is_session_start(row: Row) -> bool:
    """Whether a row notes that a session of the run began."""
    return row.kind == "note" and row.key.startswith(f"{SESSION}/")


def seconds_worked(rows: list[Row]) -> float:
    """Seconds from the first to the last row of each session; pauses between them do not count."""
    return sum(row.at - before.at for before, row in pairwise(rows) if not is_session_start(row))


class JournalLog:
    """One run's rows, held by their only writer.

    Args:
        key: signs the chain; None leaves it unsigned.
    """

    def __init__(
        self,
        run_id: str,
        store: JournalStore,
        clock: Clock,
        fence: int,
        rows: list[Row],
        key: SigningKey | None = None,
    ) -> None:
        verify_chain(rows)
        for _, what in find_signature_errors(run_id, rows, {key.key_id: key} if key else {}):
            raise StoreError(what)
        self.run_id, self._key = run_id, key
        self._store, self._clock, self._fence = store, clock, fence
        self._last = rows[-1] if rows else BEGINNING
        self._pending: list[tuple[str, str, float, bytes]] = []  # kind, key, time and body
        # The last row that a write took; set when that write has ended, and when the next one has.
        self._taken, self._ended, self._next = 0, anyio.Event(), anyio.Event()
        # Set when there are rows to write, and when a caller waits for them.
        self._dirty, self._wanted = anyio.Event(), anyio.Event()
        self._commits = self._closed = False
        self._since: float  # no pending row is older; by the event loop's clock
        self._broken: StoreError | None = None
        self._began = clock.now() - seconds_worked(rows)
        self._session = 1 + sum(map(is_session_start, rows))
        self.append("note", str(Key(SESSION, number=self._session)), b"{}")

    def _chained(self) -> list[Row]:
        """The pending rows; they are hashed when they are written, while agents wait for models."""
        rows, head = list[Row](), self._last.hash
        for seq, (kind, key, at, body) in enumerate(self._pending, self._last.seq + 1):
            head = row_hash(head, seq, kind, key, at, body)
            rows.append(Row(seq, kind, key, at, body, head))
        return rows

    @property
    def length(self) -> int:
        """The number of rows so far, durable or not."""
        return self._last.seq + len(self._pending)

    @property
    def head(self) -> str:
        """The last row's hash."""
        return [self._last, *self._chained()][-1].hash

    def elapsed(self) -> float:
        """Seconds of work so far, over all sessions."""
        return self._clock.now() - self._began

    def append(self, kind: str, key: str, body: bytes, at: float | None = None) -> None:
        """Add a row of this time, or of now; it is durable after the next ``flush``, or soon.

        Raises:
            StoreError: an earlier write failed; nothing more is taken.
        """
        if self._broken:
            raise self._broken
        if not self._pending:
            self._since = anyio.current_time()
            self._dirty.set()
        self._pending.append((kind, key, self._clock.now() if at is None else at, body))

    def sign_head(self) -> None:
        """Sign everything appended so far, unless there is no key or it is signed already.

        Raises:
            StoreError: an earlier write failed; nothing more is taken.
        """
        if self._broken:
            raise self._broken
        newest = [self._last, *self._chained()][-1]
        if self._key is None or newest.kind == SIGNED_HEAD:
            return
        seq, at = newest.seq + 1, self._clock.now()
        body = signed_head_body(self._key, self.run_id, seq, at, newest.hash)
        self.append(SIGNED_HEAD, signed_head_key(seq), canonical(body), at)

    async def flush(self) -> None:
        """Return when everything appended so far is durable.

        Raises:
            StoreError: the store failed; the run cannot continue, and can be resumed.
        """
        target = self.length
        while self._last.seq < target:
            if self._broken:
                raise self._broken
            if target <= self._taken:
                await self._ended.wait()
            else:
                self._wanted.set()
                await self._next.wait()

    async def close(self) -> None:
        """Sign the head, make pending rows durable unless an earlier write failed; end commits."""
        try:
            if not self._broken:
                self.sign_head()
                if self._commits:
                    await self.flush()
        finally:
            self._closed = True
            self._dirty.set()
            # On asyncio, a task that is cancelled before its first step never takes one.
            await self.commit_until_closed()

    async def commit_until_closed(self) -> None:
        """Commit pending rows when a caller waits, or soon; extend the lease during long waits.

        To be run once, in a task of its own: a caller that is cancelled cuts off no write.
        """
        if self._commits:
            return
        self._commits = True
        try:
            with anyio.CancelScope(shield=True):
                while True:
                    if not self._pending and not self._closed:
                        self._dirty = anyio.Event()
                        with anyio.move_on_after(LEASE_SECONDS / 3):
                            await self._dirty.wait()
                    if self._pending:
                        with anyio.CancelScope(deadline=self._since + IDLE_COMMIT_SECONDS):
                            await self._wanted.wait()
                    elif self._closed:
                        self._broken = StoreError(f"the journal of {self.run_id} is closed")
                        return
                    await self._write()
        except BaseException as error:
            # Rows may be written or not: a row after these might leave a hole.
            cut_off = StoreError(f"run {self.run_id} was cut off during a write; resume it")
            self._broken = error if isinstance(error, StoreError) else cut_off
            raise
        finally:
            self._ended.set()
            self._next.set()

    async def _write(self) -> None:
        """Write all pending rows to the store; without any, only extend the lease."""
        batch, self._since = self._chained(), anyio.current_time()  # of later rows
        self._taken, self._wanted = self.length, anyio.Event()
        self._ended, self._next = self._next, anyio.Event()
        await self._store.append(self.run_id, self._fence, batch, LEASE_SECONDS)
        self._last = batch[-1] if batch else self._last
        del self._pending[: len(batch)]
        self._ended.set()
