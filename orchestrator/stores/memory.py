"""A journal in memory: for tests, and for runs that nobody wants to keep."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.engine.ports import Clock, Row, RunMeta
from orchestrator.engine.types import Json
from orchestrator.errors import StoreError


class MemoryStore:
    """Rows by run. Gone with the process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rows: dict[str, list[Row]] = {}
        self._index: dict[str, RunMeta] = {}
        self._leases: dict[str, tuple[str, float]] = {}
        self._fences: dict[str, int] = {}

    async def create(self, run_id: str, started: float, meta: Json) -> None:
        """Enter a new run."""
        self._index[run_id] = RunMeta(run_id, started, meta)

    async def runs(self) -> list[RunMeta]:
        """All runs, newest first."""
        return sorted(self._index.values(), key=lambda run: run.started, reverse=True)

    async def forget(self, run_id: str) -> None:
        """Remove a run and its rows."""
        for table in (self._index, self._rows, self._leases, self._fences):
            table.pop(run_id, None)

    async def acquire(self, run_id: str, holder: str, ttl: float) -> int:
        """Become the one writer."""
        other, until = self._leases.get(run_id, ("", 0.0))
        if until > self._clock.now():
            raise StoreError(f"run {run_id} is being written by {other}")
        self._leases[run_id] = (holder, self._clock.now() + ttl)
        self._fences[run_id] = self._fences.get(run_id, 0) + 1
        return self._fences[run_id]

    async def append(self, run_id: str, fence: int, rows: Sequence[Row], ttl: float) -> None:
        """Add rows and extend the lease."""
        if self._fences.get(run_id) != fence:
            raise StoreError(f"run {run_id} has another writer now")
        holder, _ = self._leases.get(run_id, ("", 0.0))
        self._leases[run_id] = (holder, self._clock.now() + ttl)
        self._rows.setdefault(run_id, []).extend(rows)

    async def rows(self, run_id: str) -> list[Row]:
        """All rows, in order."""
        return list(self._rows.get(run_id, ()))

    async def release(self, run_id: str, fence: int) -> None:
        """Let others write."""
        if self._fences.get(run_id) == fence:
            self._leases.pop(run_id, None)
