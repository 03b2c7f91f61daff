"""What every journal store offers, and the errors that all of them raise."""

import json
from collections.abc import Sequence
from typing import Protocol

from orchestrator.engine.ports import JournalStore, Row, RunIndex, RunMeta
from orchestrator.engine.types import Json
from orchestrator.errors import RunLocked, RunNotFound, StoreError
from orchestrator.stores.writer_identity import display_name


class RunStore(JournalStore, RunIndex, Protocol):
    """A journal store with an index, as the application needs it."""

    async def find(self, run_id: str, key: str) -> Row | None:
        """The newest row under a key, without reading the others."""

    async def restore(self, run: RunMeta, rows: Sequence[Row]) -> None:
        """Enter a run with all its rows, whole or not at all.

        Raises:
            StoreError: there is a run of that name.
        """

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


def parse_meta(run_id: str, text: str) -> Json:
    """Parse a run's entry in the index.

    Raises:
        StoreError: it is not JSON.
    """
    try:
        return json.loads(text)
    except ValueError:
        raise StoreError(f"the entry of run {run_id} in the store is damaged") from None
