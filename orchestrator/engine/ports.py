"""The engine's ports: protocols that adapters in higher layers implement."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from orchestrator.engine.program_output_collection import ProgramOutput
from orchestrator.engine.types import Json, Observation, Request, Response, ToolSpec, Usage

MayRetry = Callable[[], bool]
"""Asked before an attempt that follows one whose reply was lost; False: no budget for it."""


def always_retry() -> bool:
    """Allow every retry."""
    return True


class Model(Protocol):
    """A language model: answers requests."""

    name: str

    async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
        """Answer one request.

        Args:
            may_retry: asked before an attempt after one whose reply was lost.

        Raises:
            ModelError: there was no usable answer.
            ProviderRefused: there can be none until a person changes a setting.
        """

    def worst_case(self, request: Request) -> Usage:
        """The most that the request can use, computed before it is sent."""


class CallContext(Struct, frozen=True):
    """What a running tool knows about its call.

    Attributes:
        ref: the journal's key of the call.
        seconds: how long it may take.
    """

    ref: str
    agent: str
    seconds: float


class Tool(Protocol):
    """Something that an agent can call to read or change the world."""

    spec: ToolSpec

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Perform one call. An exception is reported to the model as a failed call."""


class OutputStore(Protocol):
    """Keeps what the programs behind a tool call printed."""

    async def keep(self, ref: str, programs: Sequence[ProgramOutput]) -> Json:
        """Keep the output, and return what the journal records of it with the call's result.

        Args:
            ref: the journal's key of the call.
        """


RulingAction = Literal["allow", "warn", "modify", "confirm", "block"]


class Ruling(Struct, frozen=True):
    """A guard's decision.

    ``modify`` replaces the arguments; ``warn`` passes and is journaled; ``confirm`` has the call
    wait for a person's approval.
    """

    action: RulingAction = "allow"
    reason: str = ""
    arguments: Mapping[str, Json] | None = None


class GuardedCall(Struct, frozen=True):
    """A call as a guard sees it: already known to be registered, permitted and well-formed.

    Attributes:
        confirm: why a person must approve it; empty if no guard requires that.
        replayed: it is a recorded call of an earlier session.
    """

    agent: str
    tool: ToolSpec
    arguments: Mapping[str, Json]
    fingerprint: str
    confirm: str = ""
    replayed: bool = False


class Guard(Protocol):
    """A check of tool calls, which can refuse, change or warn about one; if it fails, it refuses.

    It needs ``name`` and ``check``. One that counts calls also has ``admitted(call)`` for a call
    that starts, also for those on record when a run is resumed, and ``withdrawn(call)`` for one
    that no person approved.

    >>> class Small:
    ...     name = "small"
    ...     def check(self, call):
    ...         big = call.arguments["usd"] > 10
    ...         return Ruling("block", "at most 10 dollars") if big else Ruling()
    >>> async def main():
    ...     async with Harness.open(None, "run-1", tools=[pay], guards=[Small()]) as harness:
    ...         await harness.execute("pay", {"usd": 25})
    >>> anyio.run(main)
    Traceback (most recent call last):
    orchestrator.errors.GuardRefused: small: at most 10 dollars
    """

    name: str

    def check(self, call: GuardedCall) -> Ruling:
        """Decide about a call before it begins."""


class Approver(Protocol):
    """Asks a person for approval of calls that cannot be undone."""

    async def approve(self, call: GuardedCall, ref: str) -> None:
        """Return if a person has approved exactly this call.

        Raises:
            Denied: a person has denied it.
            ApprovalPending: there is no decision yet; the run stops and can be resumed.
        """


class UsedApprovals(Protocol):
    """A record of used approvals that outlives the journal."""

    async def claim(self, decision: str) -> bool:
        """Record durably that a decision is used; False if it was used before.

        Raises:
            StoreError: it cannot be recorded.
        """


class Rollback(Protocol):
    """A scope in which a writing tool's effect can be undone."""

    async def begin(self, ref: str) -> None:
        """Save the state before a call writes."""

    async def commit(self, ref: str) -> None:
        """Keep what the call wrote."""

    async def undo(self, ref: str) -> None:
        """Restore the state saved by ``begin``; does nothing if none was."""


class Clock(Protocol):
    """A source of time, which tests can control."""

    def now(self) -> float:
        """Seconds since the epoch."""


BEFORE_ALL = -(1 << 63)
"""A number before that of every row, also of one that somebody put before the first."""


class Row(Struct, frozen=True):
    """One row of a journal, as a store keeps it.

    Attributes:
        seq: 1, 2, 3, ... without gaps.
        kind: ``intent``, ``outcome``, ``refusal``, ``note`` or ``data``.
        key: its place in the run.
        at: seconds since the epoch.
        body: canonical JSON.
        hash: SHA-256 over the previous row's hash and all of the above, in hex.
    """

    seq: int
    kind: str
    key: str
    at: float
    body: bytes
    hash: str


class JournalStore(Protocol):
    """Stores rows. An append is atomic, durable when it returns, and shielded from cancellation.

    If it is interrupted nevertheless, the run ends and can be resumed.
    """

    async def acquire(self, run_id: str, holder: str, ttl: float) -> int:
        """Take the lease to write a run for ``ttl`` seconds; returns the fencing token.

        Raises:
            StoreError: another writer holds it; names the writer and the lease's end.
        """

    async def append(self, run_id: str, fence: int, rows: Sequence[Row], ttl: float) -> None:
        """Add rows and extend the lease.

        Raises:
            StoreError: the token is no longer the run's, or the rows could not be written.
        """

    async def rows(self, run_id: str, after: int = BEFORE_ALL) -> list[Row]:
        """The rows of a run after a number, all of them by default, in order."""

    async def release(self, run_id: str, fence: int) -> None:
        """Give the lease back."""


class RunMeta(Struct, frozen=True):
    """A run as a store's index lists it; ``meta`` is None where its entry cannot be read."""

    run_id: str
    started: float
    meta: Json
    writer: str | None = None


class SystemClock:
    """The clock of the operating system."""

    now = staticmethod(time.time)
