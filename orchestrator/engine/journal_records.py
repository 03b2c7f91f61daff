"""What the journal holds of an effect: what was asked, what came of it, what it cost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from orchestrator import errors
from orchestrator.engine.budget import NO_COST, Cost
from orchestrator.engine.redaction import Redactor
from orchestrator.engine.types import Json, Level
from orchestrator.errors import (
    DiffcourtError,
    ModelError,
    ProviderRefused,
    Refused,
    SandboxError,
)

ErrorT = TypeVar("ErrorT", bound=DiffcourtError)

RECORDED_ERRORS = (Refused, ModelError, SandboxError, ProviderRefused)
"""How an effect may end other than with a value, and be raised again at replay. Anything else is a
fault of ours: it is not recorded, the effect stays open and is tried again."""

RETRIED_ERROR = ProviderRefused.__name__
"""The one that is not raised again: a person changes a setting, and the effect is tried anew."""


class EffectResult(Struct, frozen=True):
    """What performing an effect gave: its value, and what it cost."""

    value: Json
    cost: Cost = NO_COST


Perform = Callable[[], Awaitable[EffectResult]]


class EffectRequest(Struct, frozen=True):
    """An effect's place and request, with the request's digest and what it can do."""

    key: str
    request: Json
    digest: str
    level: Level

    def body(self) -> dict[str, Json]:
        """How it stands in a row."""
        return {"request": self.digest, "asked": self.request, "level": self.level.name}


class Recorded(Struct, frozen=True):
    """The latest row of a key; ``kind`` is ``intent``, ``outcome``, ``refusal`` or ``note``."""

    kind: str
    body: Mapping[str, Any]

    @property
    def ended(self) -> bool:
        """Performing it again will not happen."""
        return self.kind in {"outcome", "refusal"} and self.body.get("error") != RETRIED_ERROR

    def cost(self) -> Cost:
        """What it used; for a call whose end nobody saw the most that it can have used."""
        if self.kind == "intent":
            # The turn itself is taken again: what is lost is what it may have cost.
            return replace(Cost.from_json(self.body["worst"]), turns=0)
        return Cost.from_json(self.body["cost"]) if self.kind == "outcome" else NO_COST

    def value(self) -> Json:
        """What came of it: its value, or its fault raised again."""
        if "error" in self.body:
            kind: type[DiffcourtError] = getattr(errors, self.body["error"], ModelError)
            raise kind(self.body["message"])
        return self.body["value"]


async def perform_effect(
    perform: Perform, worst: Cost, redact: Redactor
) -> tuple[dict[str, Json], Cost, DiffcourtError | None]:
    """Perform, and put how it ended in the form of a row: without our secrets."""
    try:
        done = await perform()
    except RECORDED_ERRORS as fault:
        cost = NO_COST
        if isinstance(fault, ModelError):
            # A failed call may have been billed all the same, unless it was turned away.
            cost = worst if fault.billed else Cost(turns=worst.turns)
        shown = redact_error(fault, redact)
        return {"error": type(fault).__name__, "message": str(shown)}, cost, shown
    return {"value": redact.json(done.value)}, done.cost, None


def redact_error(fault: ErrorT, redact: Redactor) -> ErrorT:
    """A fault as it is recorded; all that are consist of their message."""
    message = redact(str(fault))
    return fault if message == str(fault) else type(fault)(message)
