"""Cancels a run of another process by a row in the store, which that process polls.

The present writer of the run stops its agents and their programs and records a verdict of the
results so far. Verdict and journal name the person who cancelled it.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Literal

import anyio
from msgspec import Struct, to_builtins

from orchestrator.app.human_decisions.approvals import current_user
from orchestrator.app.runs import state_directory
from orchestrator.app.types import is_program_run
from orchestrator.engine.journal import Journal
from orchestrator.engine.ports import RunMeta, SystemClock
from orchestrator.engine.task_groups import task_group
from orchestrator.errors import InputError, RunCancelled, StoreError
from orchestrator.stores.sql_store import CancelRequest, RunStore

CANCELLED = "cancelled"
"""Key of the note that says who cancelled the run."""

POLL_SECONDS = 1.0
INTAKE_SECONDS = 30.0
"""How long a cancelled run may take until it knows what it would have reviewed."""

WAIT_SECONDS = 10.0
"""How long the command waits for the run to stop."""

Outcome = Literal["cancelled", "ended", "running"]


class Cancelled(Struct, frozen=True):
    """The outcome of a request to cancel a run.

    Attributes:
        request: the effective request, which may be an earlier one of another person.
        own: whether it is by the same person.
        outcome: ``cancelled``; ``ended`` before the request was seen; or ``running`` still.
    """

    run_id: str
    request: CancelRequest
    own: bool
    outcome: Outcome


class Cancellation:
    """The request to cancel a run, in the process that works on it.

    Attributes:
        detail: who cancelled the run and why; empty if nobody has.
    """

    def __init__(self) -> None:
        self.request: CancelRequest | None = None
        self.detail = ""
        self._scopes: list[anyio.CancelScope] = []
        self._reviewing = anyio.Event()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """A scope that the request cancels, the innermost of several; ``detail`` is set then."""
        with anyio.CancelScope() as scope:
            self._scopes.append(scope)
            if len(self._scopes) > 1:
                self._reviewing.set()
                if self.request is not None:
                    scope.cancel()
            try:
                yield
            finally:
                self._scopes.remove(scope)
        if scope.cancelled_caught and self.request is not None:
            why = f": {self.request.why}" if self.request.why else ""
            self.detail = f"by {self.request.who}{why}"

    def record(self, journal: Journal) -> None:
        """Note who cancelled the run."""
        assert self.request is not None
        journal.note(CANCELLED, to_builtins(self.request))

    async def watch(self, store: RunStore, run_id: str) -> None:
        """Poll the store until the run is cancelled."""
        while self.request is None:
            await anyio.sleep(POLL_SECONDS)
            with suppress(StoreError):  # the next append reports the error of the store
                self.request = await store.cancellation(run_id)
        with anyio.move_on_after(INTAKE_SECONDS):  # a verdict needs to know the change
            await self._reviewing.wait()
        if self._scopes:
            self._scopes[-1].cancel()


@asynccontextmanager
async def watch_cancellation(store: RunStore, journal: Journal) -> AsyncIterator[Cancellation]:
    """Stop the work in this context when the run is cancelled.

    Raises:
        RunCancelled: it was cancelled before there were results for a verdict.
    """
    cancellation = Cancellation()
    async with task_group() as group:
        group.start_soon(cancellation.watch, store, journal.run_id)
        with cancellation.interruptible():
            yield cancellation
        group.cancel_scope.cancel()
    if cancellation.detail and journal.noted(CANCELLED) is None:
        cancellation.record(journal)
        await journal.flush()
        raise cancelled_error(journal)


def refuse_cancelled(journal: Journal) -> None:
    """Refuse to continue a run that was cancelled before there was a verdict."""
    if journal.noted(CANCELLED) is not None:
        raise cancelled_error(journal)


def cancelled_error(journal: Journal) -> RunCancelled:
    """The error of a cancelled run without a verdict."""
    note = journal.noted(CANCELLED) or {}
    why = f" ({note['why']})" if note.get("why") else ""
    return RunCancelled(
        f"{note.get('who')} cancelled run {journal.run_id}{why}; start a new one: diffcourt review"
    )


async def request_cancellation(
    store: RunStore, run: RunMeta, *, who: str, why: str = ""
) -> CancelRequest:
    """Ask the process that works on a run to stop; returns at once.

    Returns:
        The effective request, which may be an earlier one.

    Raises:
        InputError: no process works on the run, or it is a program that uses the library.
        RunNotFound: it no longer exists.
    """
    if is_program_run(run):
        raise InputError(
            f"run {run.run_id} belongs to a program that uses the library; stop that program"
        )
    asked = CancelRequest(who, " ".join(why.split()), SystemClock().now())
    stands = await store.request_cancellation(run.run_id, asked)
    if stands is None:
        raise InputError(
            f"run {run.run_id} is not running, so there is nothing to cancel; "
            f"see it with: diffcourt show {run.run_id}"
        )
    return stands


async def _wait_for_end(store: RunStore, run_id: str) -> Outcome:
    while True:
        if not any(run.writer for run in await store.runs() if run.run_id == run_id):
            return "cancelled" if await store.find(run_id, CANCELLED) else "ended"
        await anyio.sleep(POLL_SECONDS / 5)


def cancel_run(
    repo: Path | None, run_id: str, why: str = "", *, wait: float = WAIT_SECONDS
) -> Cancelled:
    """Cancel a run under the operating system's user name, and wait until it has stopped.

    Args:
        run_id: its id, a unique prefix of it, or ``latest``.

    Raises:
        RunNotFound, InputError: as ``request_cancellation``.
    """

    async def work(store: RunStore, run: RunMeta) -> Cancelled:
        who = current_user()
        stands = await request_cancellation(store, run, who=who, why=why)
        outcome: Outcome = "running"
        with anyio.move_on_after(wait):
            outcome = await _wait_for_end(store, run.run_id)
        return Cancelled(run.run_id, stands, stands.who == who, outcome)

    with state_directory.open_run(repo, run_id) as (store, run):
        return anyio.run(work, store, run)
