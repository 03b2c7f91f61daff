"""Events of a run for observers such as progress displays. The journal is the record."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from orchestrator.engine.types import Json

EventKind = Literal[
    "run_started",  # detail: the run's id
    "state",  # detail: the state that is entered
    "agent_started",
    "agent_finished",  # detail: ok, failed, timeout, budget, skipped; data: its report
    "model_started",
    "model_finished",  # data: usage as a dict
    "tool_started",  # tool
    "tool_finished",  # tool; detail: ok or the refusal's code; data: what the tool gave
    "budget",  # data: {"used": {...}, "limits": {...}}
    "note",  # detail: a sentence for a person
    "run_finished",  # detail: the stop reason
]


class Event(Struct, frozen=True):
    """One event of a run.

    Attributes:
        at: seconds since the run (or its resumption) began.
        key: the journal's key of the effect, where there is one.
        replayed: it was read from the journal and not performed again.
    """

    kind: EventKind
    at: float
    agent: str = ""
    tool: str = ""
    key: str = ""
    detail: str = ""
    data: Json = None
    replayed: bool = False


Observer = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """An observer that ignores every event."""
