"""A journal in memory: for tests, and for runs that nobody wants to keep."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from weakref import finalize

from orchestrator.engine.ports import Clock
from orchestrator.stores.sqlite_journal import SqliteStore

T = TypeVar("T")


class MemoryStore(SqliteStore):
    """Runs and their journals. Gone with the process.

    Args:
        clock: by which leases end.
    """

    def __init__(self, clock: Clock) -> None:
        self._now = clock.now
        super().__init__(Path(":memory:"))
        finalize(self, self._db.close)

    def close(self) -> None:
        """Do nothing: what it holds can still be read."""

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return work()  # there is nothing to wait for
