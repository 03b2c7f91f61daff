"""A journal in memory: for tests, and for runs that nobody wants to keep."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from orchestrator.engine.ports import Clock, Row, RunMeta
from orchestrator.engine.types import Json
from orchestrator.stores.base import (
    CancelRequest,
    lease_lost,
    run_exists,
    run_locked,
    run_not_found,
)
from orchestrator.stores.writer_identity import is_gone


@dataclass
class _Kept:
    """A run, its rows and its lease."""

    run: RunMeta
    rows: list[Row] = field(default_factory=list)
    holder: str = ""
    until: float = 0.0
    fence: int = 0
    cancellation: CancelRequest | None = None  # of the present writer


class MemoryStore:
    """Runs and their journals. Gone with the process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    def close(self) -> None:
        """Do nothing."""

    async def create(self, run_id: str, started: float, meta: Json) -> None:
        """Enter a new run."""
        await self.restore(RunMeta(run_id, started, meta), [])

    async def restore(self, run: RunMeta, rows: Sequence[Row]) -> None:
        """Enter a run with all its rows; see ``RunStore``."""
        if run.run_id in self._kept:
            raise run_exists(run.run_id)
        self._kept[run.run_id] = _Kept(replace(run, writer=None), list(rows))

    async def runs(self, *, all_repositories: bool = False) -> list[RunMeta]:
        """All runs, newest first; ``writer`` where a lease is live."""
        found = [
            replace(kept.run, writer=kept.holder if self._live(kept) else None)
            for kept in self._kept.values()
        ]
        return sorted(found, key=lambda run: (run.started, run.run_id), reverse=True)

    async def forget(self, run_id: str) -> None:
        """Remove a run and its rows."""
        kept = self._kept.get(run_id)
        if kept is not None and self._live(kept):
            raise run_locked(run_id, kept.holder, kept.until - self._clock.now())
        self._kept.pop(run_id, None)

    def _live(self, kept: _Kept) -> bool:
        return kept.until > self._clock.now() and not is_gone(kept.holder)

    async def acquire(self, run_id: str, holder: str, ttl: float) -> int:
        """Become the one writer."""
        if run_id not in self._kept:
            raise run_not_found(run_id)
        kept = self._kept[run_id]
        if self._live(kept):
            raise run_locked(run_id, kept.holder, kept.until - self._clock.now())
        kept.holder, kept.until = holder, self._clock.now() + ttl
        kept.fence, kept.cancellation = kept.fence + 1, None
        return kept.fence

    async def append(self, run_id: str, fence: int, rows: Sequence[Row], ttl: float) -> None:
        """Add rows and extend the lease."""
        kept = self._kept.get(run_id)
        if kept is None or kept.fence != fence:
            raise lease_lost(run_id)
        kept.until = self._clock.now() + ttl
        kept.rows.extend(rows)

    async def rows(self, run_id: str, after: int = 0) -> list[Row]:
        """The rows behind a number, in order."""
        kept = self._kept[run_id].rows if run_id in self._kept else []
        return [row for row in kept if row.seq > after]

    async def find(self, run_id: str, key: str) -> Row | None:
        """The newest row under a key."""
        return next((row for row in reversed(await self.rows(run_id)) if row.key == key), None)

    async def request_cancellation(
        self, run_id: str, request: CancelRequest
    ) -> CancelRequest | None:
        """Ask the run's present writer to stop; see ``RunStore``."""
        kept = self._kept.get(run_id)
        if kept is None:
            raise run_not_found(run_id)
        if not self._live(kept):
            return None
        kept.cancellation = kept.cancellation or request
        return kept.cancellation

    async def cancellation(self, run_id: str) -> CancelRequest | None:
        """What asks the run's present writer to stop."""
        kept = self._kept.get(run_id)
        return kept.cancellation if kept is not None else None

    async def release(self, run_id: str, fence: int) -> None:
        """Let others write."""
        kept = self._kept.get(run_id)
        if kept is not None and kept.fence == fence:
            kept.until = 0.0
