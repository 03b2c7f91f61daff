"""The journal: every effect of a run, recorded once under its place in the run.

To resume is to run the controller again over the journal: a recorded effect returns its record and
is not performed; any other is performed and recorded. Keys are logical, so parallel agents need no
order among themselves.

A model's answer and a writing tool's outcome are durable before they are used, and an intent to
write before it is tried; everything else is durable with the next of those, or a few milliseconds
later. So a crash can lose only work that may be repeated.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any, TypeVar

import anyio
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.budget import NO_COST, Cost, Reservation
from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.journal_hash_chain import SigningKey
from orchestrator.engine.journal_keys import GRANT, Key
from orchestrator.engine.journal_log import LEASE_SECONDS, JournalLog
from orchestrator.engine.journal_rows import error_from_json, error_to_json
from orchestrator.engine.ports import Clock, JournalStore
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.trace_context import PERFORMED, TRACEPARENT, TraceContext, trace_of
from orchestrator.engine.types import Json, Level, Refusal
from orchestrator.errors import (
    ApprovalRequired,
    DiffcourtError,
    ModelError,
    ProviderRefused,
    Refused,
    ReplayMismatch,
    SandboxError,
    StoreError,
    VendorDown,
)

ErrorT = TypeVar("ErrorT", bound=DiffcourtError)

RECORDED_ERRORS = (Refused, ModelError, SandboxError, ProviderRefused)
"""Errors that are an effect's recorded outcome, raised again at replay, but for ``RETRIED_ERROR``.
Any other is not recorded: the effect stays open and is performed again when the run is resumed."""

RETRIED_ERROR = ProviderRefused.__name__
"""The recorded error that is not raised again: a person changes a setting, then it is retried."""

APPROVAL = "approval"
"""Topic of notes of what a person decided about a call: approval/1/CALL."""

IMPORTED = "imported"
"""Topic of notes that the rows before come from elsewhere: decisions in them do not count here."""


class EffectResult(Struct, frozen=True):
    """The value and the cost of a performed effect."""

    value: Json
    cost: Cost = NO_COST


Admit = Callable[[], Awaitable[tuple[Any, Reservation]]]
Undo = Callable[[], Awaitable[None]]


class Record(Struct, frozen=True):
    """The latest row of a key; ``kind`` is ``intent``, ``outcome``, ``refusal`` or ``note``."""

    kind: str
    body: Mapping[str, Any]

    @property
    def ended(self) -> bool:
        """Whether it is final: it will not be performed again."""
        return self.kind in {"outcome", "refusal"} and self.body.get("error") != RETRIED_ERROR

    def cost(self) -> Cost:
        """What it used; for a call whose outcome is unknown, the most that it can have used."""
        if self.kind == "intent":
            # The turn is taken again; only what the lost attempt may have cost counts.
            return replace(Cost(**self.body.get("worst", {})), turns=0)
        return Cost(**self.body.get("cost", {})) if self.kind == "outcome" else NO_COST

    def value(self) -> Json:
        """Its value.

        Raises:
            DiffcourtError: the recorded error, if it ended with one.
        """
        if "error" in self.body:
            raise error_from_json(self.body)
        return self.body["value"]

    def refusal(self) -> Refusal | None:
        """Why it was refused; None if it was not."""
        if "reason" not in self.body or "code" not in self.body:
            return None
        return Refusal(self.body["code"], self.body["reason"], self.body.get("guard", ""))


def redact_error(error: ErrorT, redact: Redactor) -> ErrorT:
    """An error without secrets in its arguments, all of which are text."""
    shown = [redact(str(argument)) for argument in error.args]
    return error if shown == list(error.args) else type(error)(*shown)


class Journal:
    """One run's journal. Use ``open_journal``.

    Attributes:
        log: the rows; its ``head`` and ``length`` are what a verdict carries.
        repeated: keys of effects that were in flight at a crash and were performed again.
        decisions: call → a person's decision on it, until the next row under its key.
        ended: key and record of each effect that has ended, in that order.
        replay_only: refuse an effect that is not recorded instead of performing it.
        redact: removes our own secrets from all that is recorded, and from what an effect returns,
            so that the first run and a resumed one see the same values.
    """

    def __init__(
        self,
        log: JournalLog,
        rows: list[tuple[str, str, bytes]],
        redact: Redactor | None = None,
        *,
        replay_only: bool = False,
    ) -> None:
        self.replay_only = replay_only
        self.log, self.run_id = log, log.run_id
        self.redact = Redactor() if redact is None else redact
        self.elapsed, self.flush = log.elapsed, log.flush
        self.repeated: list[str] = []
        self.decisions: dict[str, Mapping[str, Json]] = {}
        self.ended: list[tuple[str, Record]] = []
        self._records: dict[str, Record] = {}
        self._data: set[str] = set()
        self._lost: list[tuple[str, Cost]] = []
        for kind, key, body in rows:
            self._learn(kind, key, json.loads(body))

    def _learn(self, kind: str, key: str, body: dict[str, Json]) -> None:
        if kind == "data":
            self._data.add(key)
            return
        if kind == "note" and key.startswith(f"{IMPORTED}/"):
            self.decisions.clear()
        if kind == "note" and key.startswith(f"{APPROVAL}/"):
            self.decisions[Key.parse(key).subject] = body
        elif self.decisions:
            self.decisions.pop(key, None)
        if before := self._records.get(key):
            if before.kind == "intent" and kind != "outcome":
                self._lost.append((key, before.cost()))
            # The intent's row holds the request.
            request = ("asked", "effective")
            body = {name: before.body[name] for name in request if name in before.body} | body
        if kind == "note":  # renewed: ordered by its newest row
            self._records.pop(key, None)
            body = {**body}
        self._records[key] = record = Record(kind, body)
        if record.ended:
            self.ended.append((key, record))

    def _append(self, kind: str, key: str, body: dict[str, Json]) -> None:
        self.log.append(kind, key, canonical(body))
        self._learn(kind, key, body)

    def recorded(self, key: Key | str) -> bool:
        """Whether the effect under this key has ended."""
        record = self._records.get(str(key))
        return record is not None and record.ended

    def noted(self, key: Key | str) -> Mapping[str, Json] | None:
        """The note under a key, None when there is none."""
        known = self._records.get(str(key))
        return known.body if known is not None and known.kind == "note" else None

    def trace(self) -> TraceContext:
        """The trace context of the run."""
        return trace_of(self.run_id, self.noted(TRACEPARENT))

    def notes(self, under: Key | str = "") -> dict[str, Mapping[str, Json]]:
        """The notes under a key, by their own keys."""
        return {key: record.body for key, record in self.records(under) if record.kind == "note"}

    def records(self, under: Key | str = "") -> Iterator[tuple[str, Record]]:
        """Key and record of everything under a key, including the key itself; an empty key: all."""
        is_under = _make_filter(under)
        return ((key, record) for key, record in self._records.items() if is_under(key))

    def spent(self, under: Key | str = "") -> Cost:
        """What the recorded effects under a key cost.

        A call that was in flight at a crash, or whose reply was lost, counts at its worst case in
        addition to its repetition: it may have been billed.
        """
        is_under = _make_filter(under)
        lost = [cost for key, cost in self._lost if is_under(key)]
        return sum([*(record.cost() for _, record in self.records(under)), *lost], NO_COST)

    def unseen(self) -> Cost:
        """The part of what is spent that counts for calls whose outcome is unknown."""
        begun = (record.cost() for record in self._records.values() if record.kind == "intent")
        return sum((*begun, *(cost for _, cost in self._lost)), NO_COST)

    def begin_again(self, key: Key | str) -> None:
        """Record a further attempt at an effect in progress, whose first attempt was lost."""
        self._append("intent", str(key), dict(self._records[str(key)].body))

    def outcomes(self, under: Key | str = "") -> dict[str, Json]:
        """The values of the finished effects under a key, by their own keys."""
        return {
            key: record.body["value"]
            for key, record in self.records(under)
            if record.kind == "outcome" and "value" in record.body
        }

    def refusals(self, under: Key | str = "") -> dict[str, Refusal]:
        """Why the refused effects under a key were refused, by their own keys."""
        return {
            key: refusal
            for key, record in self.records(under)
            if record.kind == "refusal" and (refusal := record.refusal())
        }

    def put(self, value: Json) -> str:
        """Keep a value once by its digest, for requests that name it; returns the digest."""
        value = self.redact.json(value)
        encoded = canonical(value)
        name = sha256(encoded).hexdigest()
        if name not in self._data:
            self.log.append("data", name, b'{"value":%b}' % encoded)
            self._data.add(name)
        return name

    def note(self, key: Key | str, body: dict[str, Json]) -> None:
        """Record a fact that the controller computed, or compare it with the recorded one.

        Raises:
            ReplayMismatch: the recorded fact differs.
        """
        key = str(key)
        known, body = self._records.get(key), self.redact.json(body)
        if known is None:
            self._append("note", key, body)
        elif canonical(dict(known.body)) != canonical(body):
            raise ReplayMismatch(key, dict(known.body), body)

    def renew_note(self, key: Key | str, body: dict[str, Json]) -> None:
        """Record a note that replaces the recorded one under its key."""
        self._append("note", str(key), self.redact.json(body))

    def granted_after(self, key: Key | str) -> bool:
        """Whether a person has raised a limit of the run since something was recorded."""
        keys = list(self._records)
        later = keys[keys.index(str(key)) + 1 :]
        return any(Key.parse(key).part == GRANT and self.recorded(key) for key in later)

    def add_note(self, topic: str, body: dict[str, Json], subject: str = "") -> str:
        """Record a note under the topic's next number; returns its key.

        For what may happen again after a crash and is then recorded twice.
        """
        number = 1 + len(self.notes(topic))
        key = str(Key(topic, number=number, subject=subject))
        self.note(key, body)
        return key

    async def effect(
        self,
        key: Key | str,
        request: Json,
        perform: Callable[..., Awaitable[EffectResult]],
        *,
        admit: Admit | None = None,
        level: Level = Level.READ,
        durable: bool = True,
        undo: Undo | None = None,
    ) -> Json:
        """Perform an effect once, or return what is recorded: the only way to touch the world.

        Args:
            request: what is asked; it must equal the recorded one.
            perform: does it; takes what ``admit`` returned, if that is given.
            admit: decides whether and how it may be done, reserves its worst case, or raises
                ``Refused``.
            level: decides what happens after a crash in the middle, see below.
            durable: wait until the outcome is on disk. False for reading tools: only a model call
                uses their outcome, and that is durable itself.

        An intent without an outcome means a crash in between: READ is performed again, WRITE after
        it is undone, anything above is left to a person.

        Raises:
            ReplayMismatch, StoreError: the run cannot continue.
            Refused, ModelError, SandboxError: how it ended, both live and in replay.
        """
        key, request = str(key), self.redact.json(request)
        asked = {"asked": request, "level": level.name} if level else {"asked": request}
        known = self._records.get(key)
        if known is not None:
            if canonical(recorded := known.body.get("asked")) != canonical(request):
                raise ReplayMismatch(key, recorded, request)
            if known.ended:
                return known.value()
        if self.replay_only:
            raise StoreError(f"{key} is not in the run's journal, and a replay performs no effects")
        if known is not None:
            await self._recover(key, asked, level, undo)
        given, reservation = await self._admit(key, asked, admit)
        if known is not None:
            self.repeated.append(key)
        self._begin(key, asked, level, reservation)
        if level > Level.READ:
            await self.flush()
        token = PERFORMED.set((self.trace, key))
        try:
            outcome, error = await self._perform(perform, given, reservation)
        finally:
            PERFORMED.reset(token)
        self._append("outcome", key, outcome)
        if durable or level > Level.READ:
            await self.flush()
        if error:
            raise error
        return outcome["value"]

    async def _admit(
        self, key: str, asked: dict[str, Json], admit: Admit | None
    ) -> tuple[tuple[Any, ...], Reservation | None]:
        """The arguments of ``perform``, and what is reserved for it."""
        if admit is None:
            return (), None
        try:
            given, reservation = await admit()
        except Refused as refusal:
            shown = redact_error(refusal, self.redact)
            self._refuse(key, asked, shown)
            raise shown from None
        return (given,), reservation

    async def _perform(
        self,
        perform: Callable[..., Awaitable[EffectResult]],
        given: tuple[Any, ...],
        reservation: Reservation | None,
    ) -> tuple[dict[str, Json], DiffcourtError | None]:
        """Perform an effect and settle what was reserved; returns its outcome, and its error."""
        worst = reservation.worst if reservation else NO_COST
        try:
            result = await perform(*given)
            outcome, cost, error = {"value": self.redact.json(result.value)}, result.cost, None
        except RECORDED_ERRORS as raised:
            # A failed model call may have been billed, unless the provider rejected it.
            cost = NO_COST
            if isinstance(raised, ModelError):
                cost = worst if raised.billed else Cost(turns=worst.turns)
            if isinstance(raised, VendorDown):  # the turn is left to the vendor that replaces it
                cost = replace(cost, turns=0)
            error = redact_error(raised, self.redact)
            outcome = error_to_json(error)
        except BaseException:
            # Cancelled, or an internal error: what it did is unknown, so it counts at its worst
            # case and the intent stays open for a resumed run.
            if reservation:
                reservation.settle(worst)
            raise
        if used := reservation.settle(cost) if reservation else cost.to_json():
            outcome["cost"] = used
        return outcome, error

    def _begin(
        self, key: str, asked: dict[str, Json], level: Level, reservation: Reservation | None
    ) -> None:
        """Record the intent; signed before what cannot be undone."""
        body = asked
        if reservation and reservation.amounts:
            body = {**asked, "worst": reservation.amounts}
        if reservation and reservation.effective is not None:
            body["effective"] = self.redact.json(reservation.effective)
        self._append("intent", key, body)
        if level > Level.WRITE:
            self.log.sign_head()

    def _refuse(self, key: str, asked: dict[str, Json], refusal: Refused) -> None:
        self._append("refusal", key, {**asked, **error_to_json(refusal)})

    async def _recover(
        self, key: str, asked: dict[str, Json], level: Level, undo: Undo | None
    ) -> None:
        if level is Level.WRITE and undo is not None:
            await undo()
        elif level > Level.READ:
            refusal = ApprovalRequired(
                f"{key} was under way when the run was cut off and may have happened; "
                "see what it did, then start a new run"
            )
            self._refuse(key, asked, refusal)
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
    replay_only: bool = False,
) -> AsyncIterator[Journal]:
    """Become the only writer of a run, read its rows, and commit in the background.

    Args:
        key: signs the journal before each effect that cannot be undone and at the end.
        redact: removes our own secrets from what is recorded.
        replay_only: refuse an effect that is not recorded.

    Raises:
        StoreError: another process writes it, or the rows were altered.
    """
    fence = await store.acquire(run_id, holder, LEASE_SECONDS)
    try:
        rows = await store.rows(run_id)
        log = JournalLog(run_id, store, clock, fence, rows, key)
        bodies = [(row.kind, row.key, row.body) for row in rows]
        journal = Journal(log, bodies, redact, replay_only=replay_only)
        async with task_group() as group:
            group.start_soon(log.commit_until_closed)
            try:
                yield journal
                await log.flush()
            finally:
                with anyio.CancelScope(shield=True):
                    await log.close()
    finally:
        with anyio.CancelScope(shield=True):
            await store.release(run_id, fence)


def _make_filter(under: Key | str) -> Callable[[str], bool]:
    own, below = str(under), f"{under}/"
    return lambda key: not own or key == own or key.startswith(below)
