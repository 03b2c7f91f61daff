"""Events around model calls (retries, lost replies, circuit breaker), noted in the journal."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from orchestrator.engine.budget import Account, Cost
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.observer_events import Event, Observer
from orchestrator.errors import BudgetExhausted

CALLS = "calls"
"""Topic of notes of what happened around model calls, in the order in which it did."""


class CallEvent(Struct, frozen=True):
    """An event around a model call: a retry, a lost reply, or a change of the circuit breaker.

    Attributes:
        kind: ``retry``: an attempt failed and another follows. ``lost``: the last one failed, and
            may have been billed. ``breaker``: it changed its state.
            ``usage``: the tokens that the server reported cannot be right.
            ``down``: the provider is given up for this run, and another one replaces it.
        provider, model, agent: whose call; the agent is empty for events of all agents.
        detail: why, in words; for the breaker ``closed -> open: why``.
        number: which attempt failed, from 1.
        wait: seconds until the next attempt.
        lost: the failed attempt may have been answered and billed, though no answer arrived.
    """

    kind: Literal["retry", "lost", "breaker", "usage", "down"]
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
            who = f"the breaker of {who}"
        if self.kind == "retry":
            billed = ", which may have been billed" if self.lost else ""
            failed = f"attempt {self.number} failed{billed} ({self.detail})"
            return f"{who}: {failed}; again in {self.wait:.2g} s"
        if self.kind == "down":
            who = f"{self.provider} is asked no more in this run"
        return f"{who}: {self.detail}"


CallListener = Callable[[CallEvent], None]


def call_listener(journal: Journal, observer: Observer) -> CallListener:
    """A listener that notes events in a journal, and reports them to the observer."""

    def keep(event: CallEvent) -> None:
        body = {**to_builtins(event), "message": str(event)}
        key = journal.add_note(CALLS, body, event.kind)
        observer(Event("note", journal.elapsed(), event.agent, key=key, detail=str(event)))

    return keep


def reserve_retry(journal: Journal, key: Key | str, account: Account, held: Cost) -> bool:
    """Book an attempt whose reply was lost at its worst case, so that it can be repeated.

    Returns:
        False if both attempts do not fit the budget, so that there is no further one.
    """
    lost = replace(held, turns=0)
    try:
        account.reserve(lost).settle(lost)
    except BudgetExhausted:
        return False
    journal.begin_again(key)
    return True


def note_once(journal: Journal, sentence: str) -> None:
    """Note a sentence about the models for the reader, unless an earlier session did."""
    if all(body["message"] != sentence for body in journal.notes(CALLS).values()):
        journal.add_note(CALLS, {"message": sentence}, "note")
