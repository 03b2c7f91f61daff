"""What happens around the calls of a model: told by a provider, kept as notes in the journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from orchestrator.engine.budget import Account, Cost
from orchestrator.engine.events import Event, Observer
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.errors import BudgetExhausted

CALLS = "calls"
"""Topic of notes of what happened around model calls, in the order in which it did."""


class CallEvent(Struct, frozen=True):
    """What happened around a call that whoever keeps a record should know.

    Attributes:
        kind: ``retry``: a try failed and there will be another. ``lost``: the last one failed, and
            may have been billed. ``breaker``: it changed its state.
        provider, model, agent: whose call; no agent for what concerns all of them.
        detail: why, in words; for the breaker ``closed -> open: why``.
        number: which try failed, from 1.
        wait: seconds until the next try.
        lost: the failed try may have been answered, and billed, without our seeing it.
    """

    kind: Literal["retry", "lost", "breaker"]
    provider: str
    model: str
    agent: str
    detail: str
    number: int = 0
    wait: float = 0.0
    lost: bool = False

    def __str__(self) -> str:
        who = f"{self.agent + ', ' if self.agent else ''}{self.provider} {self.model}"
        if self.kind == "breaker":
            return f"the breaker of {self.provider} {self.model}: {self.detail}"
        if self.kind == "retry":
            billed = ", which may have been billed" if self.lost else ""
            failed = f"try {self.number} failed{billed} ({self.detail})"
            return f"{who}: {failed}; again in {self.wait:.2g} s"
        return f"{who}: {self.detail}"


CallListener = Callable[[CallEvent], None]


class EventForwarder:
    """Passes on what a provider tells, from the time that somebody listens."""

    def __init__(self) -> None:
        self._listener: CallListener | None = None

    def __call__(self, event: CallEvent) -> None:
        """Pass it on."""
        if self._listener is not None:
            self._listener(event)

    def listen(self, journal: Journal, observer: Observer) -> None:
        """Have all that follows noted in a journal, and told to whoever watches."""

        def keep(event: CallEvent) -> None:
            body = {**to_builtins(event), "said": str(event)}
            key = journal.add_note(CALLS, body, event.kind)
            observer(Event("note", journal.elapsed(), event.agent, key=key, detail=str(event)))

        self._listener = keep


def reserve_retry(journal: Journal, key: Key, account: Account, held: Cost) -> bool:
    """Book a try whose reply was lost at its worst case; what is held stays for the next one.

    Args:
        key: of the call that is under way.
        held: its reservation.

    Returns:
        False where both do not fit the budget: then there is no next one.
    """
    lost = replace(held, turns=0)
    try:
        account.reserve(lost).settle(lost)
    except BudgetExhausted:
        return False
    journal.begin_again(key)
    return True


def note_once(journal: Journal, sentence: str) -> None:
    """Note what a person should know of the models, unless an earlier session has."""
    if all(body["said"] != sentence for body in journal.notes(CALLS).values()):
        journal.add_note(CALLS, {"said": sentence}, "note")
