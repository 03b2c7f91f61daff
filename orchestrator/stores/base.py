"""What every journal store offers, and the errors that all of them raise."""

import json
from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from orchestrator.engine.ports import JournalStore, Row, RunIndex, RunMeta
from orchestrator.engine.types import Json
from orchestrator.errors import RunLocked, RunNotFound, StoreError
from orchestrator.stores.writer_identity import display_name


class CancelRequest(Struct, frozen=True):
    """What asks the writer of a run to stop: who, why (may be empty), seconds since the epoch."""

    who: str
    why: str
    at: float


class RunStore(JournalStore, RunIndex, Protocol):
    """A journal store with an index, as the application needs it."""

    async def find(self, run_id: str, key: str) -> Row | None:
        """The newest row under a key, without reading the others."""

    async def index(self, *, all_repositories: bool = False) -> tuple[list[RunMeta], list[str]]:
        """All runs, newest first, and the ids of those whose entry cannot be read.

        Args:
            all_repositories: of every repository in a shared store.
        """

    async def restore(self, run: RunMeta, rows: Sequence[Row]) -> None:
        """Enter a run with all its rows, whole or not at all.

        Raises:
            StoreError: there is a run of that name.
        """

    async def request_cancellation(
        self, run_id: str, request: CancelRequest
    ) -> CancelRequest | None:
        """Ask the run's present writer to stop; an earlier request stands.

        Returns:
            The request that stands; None when nobody writes the run.

        Raises:
            RunNotFound: there is no such run.
        """

    async def cancellation(self, run_id: str) -> CancelRequest | None:
        """What asks the run's present writer to stop; a later writer is not asked."""

    def close(self) -> None:
        """Close the store. Idempotent."""


def run_not_found(run_id: str) -> RunNotFound:
    """The error of a run that is not in the store."""
    return RunNotFound(f"there is no run {run_id} here; `diffcourt runs` lists them")


def run_exists(run_id: str) -> StoreError:
    """The error of a run that would be entered twice."""
    return StoreError(f"there is a run {run_id} here already; nothing was changed")


def run_locked(run_id: str, holder: str, seconds_left: float) -> RunLocked:
    """The error of a run that another process writes."""
    return RunLocked(
        f"run {run_id} is being written by {display_name(holder)}; "
        f"wait until it ends, or {max(seconds_left, 1):.0f} s after it died"
    )


def lease_lost(run_id: str) -> StoreError:
    """The error of a writer whose fencing token is no longer the run's."""
    return StoreError(f"run {run_id} has another writer now, or was removed; this one stops")


Entry = tuple[str, float, str, str | None]
"""A run in the index: its id, when it began, its entry as JSON, and its live writer."""


def parse_entries(entries: Iterable[Entry]) -> tuple[list[RunMeta], list[str]]:
    """The runs of an index, and the ids of those whose entry cannot be read."""
    runs, damaged = list[RunMeta](), list[str]()
    for run_id, started, meta, writer in entries:
        try:
            runs.append(RunMeta(run_id, started, parse_meta(run_id, meta), writer))
        except StoreError:
            damaged.append(run_id)
    return runs, damaged


def parse_meta(run_id: str, text: str) -> Json:
    """Parse a run's entry in the index.

    Raises:
        StoreError: it is not JSON.
    """
    try:
        return json.loads(text)
    except ValueError:
        raise StoreError(f"the entry of run {run_id} in the store is damaged") from None
