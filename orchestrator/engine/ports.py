"""What the harness needs from outside, each as small as it can be. Adapters live above."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from orchestrator.engine.types import Json, Observation, Request, Response, Skill, ToolSpec, Usage

MayRetry = Callable[[], bool]
"""Asked before a try that follows one whose reply was lost; False: it cannot be paid for."""


def always_retry() -> bool:
    """Any number of tries is paid for."""
    return True


class Model(Protocol):
    """Whatever answers requests: the only probabilistic part."""

    name: str

    async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
        """Answer one request, and ask ``again`` before another try.

        Raises:
            ModelError: no usable answer came.
            ProviderRefused: none can come until a person has changed a setting.
        """

    def worst_case(self, request: Request) -> Usage:
        """The most that the request can use, counted before it is made."""


class CallContext(Struct, frozen=True):
    """What a running tool knows of its call.

    Attributes:
        ref: the journal's key of the call.
        agent: the agent that asked.
        seconds: how long it may take.
        skills: the playbooks of the agent.
    """

    ref: str
    agent: str
    seconds: float
    skills: tuple[Skill, ...] = ()


class Tool(Protocol):
    """A hand or an eye of the agents."""

    spec: ToolSpec

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Do it. Any exception is reported to the model as a failure, never as a crash."""


class Ruling(Struct, frozen=True):
    """What a guard says. ``modify`` replaces the arguments; ``warn`` lets pass and is journaled."""

    action: Literal["allow", "warn", "modify", "block"] = "allow"
    reason: str = ""
    arguments: Mapping[str, Json] | None = None


class GuardedCall(Struct, frozen=True):
    """A call as a guard sees it: already known to be registered, permitted and well-formed.

    Attributes:
        replayed: it comes out of the journal: it happened, at another time.
    """

    agent: str
    tool: ToolSpec
    arguments: Mapping[str, Json]
    fingerprint: str
    replayed: bool = False


class Guard(Protocol):
    """One reason to refuse a call."""

    name: str

    def check(self, call: GuardedCall) -> Ruling:
        """Rule on a call, before it begins."""

    def admitted(self, call: GuardedCall) -> None:
        """Learn that a call goes ahead (also told again for recorded calls of a resumed run)."""

    def withdrawn(self, call: GuardedCall) -> None:
        """Unlearn an admitted call that a person kept from going ahead."""


class Approver(Protocol):
    """A person, or nobody."""

    async def approve(self, call: GuardedCall, ref: str) -> None:
        """Return when a person has said yes to exactly this call.

        Raises:
            Denied: a person has said no.
            ApprovalPending: nobody has decided; the run stops here, to be gone on with.
        """


class Rollback(Protocol):
    """A scope in which a writing tool's effect can be undone."""

    async def begin(self, ref: str) -> None:
        """Remember how things were."""

    async def commit(self, ref: str) -> None:
        """Keep the effect."""

    async def undo(self, ref: str) -> None:
        """Put things back as they were at ``begin``; harmless when there was none."""


class Clock(Protocol):
    """Time, so that tests can hold it still."""

    def now(self) -> float:
        """Seconds since the epoch."""


class Row(Struct, frozen=True):
    """One journal record as a store keeps it.

    Attributes:
        seq: 1, 2, 3, ... without a hole.
        kind: ``intent``, ``outcome``, ``refusal``, ``note`` or ``data``.
        key: where in the run it stands.
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
    """Keeps rows. An append is atomic, durable when it returns, and not cut off by a cancellation.

    One that is cut off all the same breaks the run, which can be resumed.
    """

    async def acquire(self, run_id: str, holder: str, ttl: float) -> int:
        """Become the run's one writer for ``ttl`` seconds; returns the fencing token.

        Raises:
            StoreError: another writer holds it; says who and until when.
        """

    async def append(self, run_id: str, fence: int, rows: Sequence[Row], ttl: float) -> None:
        """Add rows and extend the lease.

        Raises:
            StoreError: the token is no longer the run's, or the rows could not be written.
        """

    async def rows(self, run_id: str) -> list[Row]:
        """All rows of a run, in order."""

    async def release(self, run_id: str, fence: int) -> None:
        """Let others write."""


class RunMeta(Struct, frozen=True):
    """What a store's index knows of a run."""

    run_id: str
    started: float
    meta: Json
    writer: str | None = None


class RunIndex(Protocol):
    """Which runs there are."""

    async def create(self, run_id: str, started: float, meta: Json) -> None:
        """Enter a new run."""

    async def runs(self) -> list[RunMeta]:
        """All runs, newest first."""

    async def forget(self, run_id: str) -> None:
        """Remove a run and its rows."""


class SystemClock:
    """The real time."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()
