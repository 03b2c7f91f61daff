"""What every journal store offers, and the errors that all of them raise."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from msgspec import Struct

from orchestrator.engine.ports import JournalStore, Row, RunIndex, RunMeta
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


def read_entry(run_id: str, started: float, text: str, writer: str | None) -> RunMeta:
    """A run of the index; without ``meta``, and at the epoch, where its entry is damaged."""
    try:
        datetime.fromtimestamp(started, UTC)
        meta = json.loads(text)
    except (ValueError, TypeError, OverflowError, OSError):
        return RunMeta(run_id, 0.0, None, writer)
    return RunMeta(run_id, started, meta if isinstance(meta, dict) else None, writer)
