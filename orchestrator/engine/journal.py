"""The journal: every effect of a run, once, keyed by where it stands.

Resume is "run the controller again over the journal": a recorded effect returns its record and
nothing is done; an unrecorded one is performed and recorded. Keys are logical, so parallel agents
need no order among themselves.

When is a record durable? A model's answer and a writing tool's outcome before they are used; an
intent to write before it is tried; everything else with the next of those, or a few milliseconds
later. What a crash can lose is therefore only work that may be repeated freely.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import anyio

from orchestrator.engine.budget import NO_COST, Cost, Reservation
from orchestrator.engine.canonical_json import canonical, digest
from orchestrator.engine.journal_chain import SigningKey
from orchestrator.engine.journal_log import LEASE_SECONDS, JournalLog
from orchestrator.engine.journal_records import (
    EffectRequest,
    Perform,
    Recorded,
    perform_effect,
    redact_error,
)
from orchestrator.engine.ports import Clock, JournalStore
from orchestrator.engine.redaction import Redactor
from orchestrator.engine.task_group import task_group
from orchestrator.engine.types import Json, Level
from orchestrator.errors import ApprovalRequired, Refused, ReplayMismatch

Admit = Callable[[], Awaitable[Reservation | None]]
Undo = Callable[[], Awaitable[None]]

APPROVAL = "approval/"
"""Notes under this key are what a person said to the call that follows in it: approval/1/CALL."""


class Journal:
    """One run's journal. Use ``open_journal``.

    Attributes:
        log: the rows; its ``head`` and ``length`` are what a verdict carries.
        repeated: keys of effects that were in flight at a crash and were performed again.
        decisions: call → what a person said to it, until something happens under its key.
        ended: key and record of each effect that has ended, in the order in which they did.
        redact: takes our own secrets out of all that is recorded. What an effect returns has gone
            through it too, so that a first run goes on with the same as a resumed one.
    """

    def __init__(
        self, log: JournalLog, rows: list[tuple[str, str, bytes]], redact: Redactor | None = None
    ) -> None:
        self.log, self.run_id = log, log.run_id
        self.redact = Redactor() if redact is None else redact
        self.elapsed, self.flush = log.elapsed, log.flush
        self.repeated: list[str] = []
        self.decisions: dict[str, Mapping[str, Json]] = {}
        self.ended: list[tuple[str, Recorded]] = []
        self._records: dict[str, Recorded] = {}
        self._data: set[str] = set()
        self._lost: list[tuple[str, Cost]] = []
        for kind, key, body in rows:
            self._learn(kind, key, json.loads(body))

    def _learn(self, kind: str, key: str, body: dict[str, Json]) -> None:
        if kind == "data":
            self._data.add(key)
            return
        if kind == "note" and key.startswith(APPROVAL):
            self.decisions[key.split("/", 2)[2]] = body
        else:
            self.decisions.pop(key, None)
        before = self._records.get(key)
        if before is not None and before.kind == "intent" and kind != "outcome":
            self._lost.append((key, before.cost()))
        # The request stands in the intent's row; a mismatch later on must be able to show it.
        asked = {"asked": before.body["asked"]} if before and "asked" in before.body else {}
        self._records[key] = record = Recorded(kind, {**asked, **body})
        if record.ended:
            self.ended.append((key, record))

    def _append(self, kind: str, key: str, body: dict[str, Json]) -> None:
        self.log.append(kind, key, body)
        self._learn(kind, key, body)

    def recorded(self, key: str) -> bool:
        """Whether the effect under this key has ended."""
        return key in self._records and self._records[key].ended

    def noted(self, key: str) -> Mapping[str, Json] | None:
        """The note under a key, None when there is none."""
        known = self._records.get(key)
        return known.body if known is not None and known.kind == "note" else None

    def notes(self, prefix: str = "") -> dict[str, Mapping[str, Json]]:
        """The notes under a prefix, by key."""
        return {
            key: record.body
            for key, record in self._records.items()
            if record.kind == "note" and key.startswith(prefix)
        }

    def spent(self, prefix: str = "") -> Cost:
        """What the recorded effects under a key's prefix cost.

        A call that was in flight at a crash, or whose reply was lost, counts at its worst case,
        beside its repetition: it may have been billed.
        """
        ours = [record.cost() for key, record in self._records.items() if key.startswith(prefix)]
        lost = [cost for key, cost in self._lost if key.startswith(prefix)]
        return sum(ours + lost, NO_COST)

    def unseen(self) -> Cost:
        """The part of what is spent that counts for calls whose end nobody saw."""
        begun = (record.cost() for record in self._records.values() if record.kind == "intent")
        return sum((*begun, *(cost for _, cost in self._lost)), NO_COST)

    def begin_again(self, key: str) -> None:
        """Say that an effect under way is tried once more, its first try lost as in a crash."""
        self._append("intent", key, dict(self._records[key].body))

    def outcomes(self, prefix: str = "") -> dict[str, Json]:
        """The values of the finished effects under a prefix, by key."""
        return {
            key: record.body["value"]
            for key, record in self._records.items()
            if record.kind == "outcome" and key.startswith(prefix) and "value" in record.body
        }

    def requests(self, suffix: str) -> dict[str, Json]:
        """What was asked of the effects whose key ends so, ended or not, in their first order."""
        return {
            key: record.body["asked"]
            for key, record in self._records.items()
            if key.endswith(suffix) and "asked" in record.body
        }

    def refusals(self, prefix: str = "") -> dict[str, tuple[str, str]]:
        """The refused calls under a prefix: key → (code, reason)."""
        return {
            key: (record.body["code"], record.body["message"])
            for key, record in self._records.items()
            if record.kind == "refusal" and key.startswith(prefix)
        }

    def put(self, value: Json) -> str:
        """Keep a value once by its digest, for requests that name it; returns the digest."""
        value = self.redact.json(value)
        name = digest(value)
        if name not in self._data:
            self._append("data", name, {"value": value})
        return name

    def note(self, key: str, body: dict[str, Json]) -> None:
        """Record a fact that the controller worked out, or hold it against the record.

        Raises:
            ReplayMismatch: the record says something else.
        """
        known, body = self._records.get(key), self.redact.json(body)
        if known is None:
            self._append("note", key, body)
        elif canonical(dict(known.body)) != canonical(body):
            raise ReplayMismatch(key, dict(known.body), body)

    async def effect(
        self,
        key: str,
        request: Json,
        perform: Perform,
        *,
        admit: Admit | None = None,
        level: Level = Level.READ,
        durable: bool = True,
        undo: Undo | None = None,
    ) -> Json:
        """The only way to touch the world: perform once, or return what is recorded.

        Args:
            key: where in the run it stands.
            request: what is asked; its digest must equal the recorded one.
            perform: does it.
            admit: decides whether it may be done and reserves its worst case; raises ``Refused``.
            level: what a crash in the middle leaves behind, see below.
            durable: wait until the outcome is on disk. False for reading tools, whose outcome is
                used only by a model call that is itself waited for.
            undo: takes back a half-done write.

        An intent without an outcome is a crash in between: READ is performed again, WRITE is undone
        first, anything above is handed to a person.

        Raises:
            ReplayMismatch, StoreError: the run cannot go on.
            Refused, ModelError, SandboxError: as it ended, live and at replay alike.
        """
        request = self.redact.json(request)
        ask = EffectRequest(key, request, digest(request), level)
        known = self._known(ask)
        if known is not None and known.ended:
            return known.value()
        if known is not None:
            await self._recover(ask, level, undo)
        reservation = await self._admit(ask, admit)
        if known is not None:
            self.repeated.append(key)
        worst = reservation.worst if reservation else NO_COST
        await self._begin(ask, worst)
        try:
            outcome, cost, fault = await perform_effect(perform, worst, self.redact)
        except BaseException:
            # Cancelled, or a fault of ours: what it did is unknown, so it counts at its worst and
            # the intent stays open for whoever resumes.
            if reservation:
                reservation.settle(worst)
            raise
        if reservation:
            reservation.settle(cost)
        self._append("outcome", key, {"request": ask.digest, "cost": cost.to_json(), **outcome})
        if durable or level > Level.READ:
            await self.flush()
        if fault:
            raise fault
        return outcome["value"]

    def _known(self, ask: EffectRequest) -> Recorded | None:
        known = self._records.get(ask.key)
        if known is not None and known.body["request"] != ask.digest:
            raise ReplayMismatch(ask.key, known.body.get("asked"), ask.request)
        return known

    async def _admit(self, ask: EffectRequest, admit: Admit | None) -> Reservation | None:
        if admit is None:
            return None
        try:
            return await admit()
        except Refused as refusal:
            shown = redact_error(refusal, self.redact)
            self._refuse(ask, shown)
            raise shown from None

    async def _begin(self, ask: EffectRequest, worst: Cost) -> None:
        """Say what is about to be done: durable before a write, signed before what stays done."""
        self._append("intent", ask.key, {**ask.body(), "worst": worst.to_json()})
        if ask.level > Level.WRITE:
            self.log.sign_head()
        if ask.level > Level.READ:
            await self.flush()

    def _refuse(self, ask: EffectRequest, refusal: Refused) -> None:
        body = {"error": type(refusal).__name__, "code": refusal.code, "message": str(refusal)}
        self._append("refusal", ask.key, {**ask.body(), **body})

    async def _recover(self, ask: EffectRequest, level: Level, undo: Undo | None) -> None:
        if level is Level.WRITE and undo is not None:
            await undo()
        elif level > Level.READ:
            refusal = ApprovalRequired(
                f"{ask.key} was under way when the run was cut off and may have happened; "
                "see what it did, then start a new run"
            )
            self._refuse(ask, refusal)
            raise refusal


@asynccontextmanager
async def open_journal(
    run_id: str,
    store: JournalStore,
    clock: Clock,
    *,
    holder: str,
    key: SigningKey | None = None,
    redact: Redactor | None = None,
) -> AsyncIterator[Journal]:
    """Become a run's one writer, read what is recorded, and commit in the background.

    Args:
        key: signs the journal before each effect that cannot be undone, and at the end.
        redact: takes our own secrets out of what is recorded.

    Raises:
        StoreError: another process writes it, or the rows were altered.
    """
    fence = await store.acquire(run_id, holder, LEASE_SECONDS)
    try:
        rows = await store.rows(run_id)
        log = JournalLog(run_id, store, clock, fence, rows, key)
        journal = Journal(log, [(row.kind, row.key, row.body) for row in rows], redact)
        async with task_group() as group:
            group.start_soon(log.commit_when_idle)
            try:
                yield journal
                await log.flush()
            finally:
                group.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await log.close()
    finally:
        with anyio.CancelScope(shield=True):
            await store.release(run_id, fence)
