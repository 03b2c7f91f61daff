"""What the journal holds of an effect: what was asked, what came of it, what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from orchestrator import errors
from orchestrator.engine.limits import NOTHING, Cost
from orchestrator.engine.types import Json, Level
from orchestrator.errors import DiffcourtError, ModelError


@dataclass(frozen=True, slots=True)
class Done:
    """What performing an effect gave: its value, and what it cost."""

    value: Json
    cost: Cost = NOTHING


@dataclass(frozen=True, slots=True)
class Ask:
    """An effect's place and request, with the request's digest and what it can do."""

    key: str
    request: Json
    digest: str
    level: Level

    def body(self) -> dict[str, Json]:
        """How it stands in a row."""
        return {"request": self.digest, "asked": self.request, "level": self.level.name}


@dataclass(frozen=True, slots=True)
class Recorded:
    """The latest row of a key; ``kind`` is ``intent``, ``outcome``, ``refusal`` or ``note``."""

    kind: str
    body: Mapping[str, Any]

    @property
    def ended(self) -> bool:
        """Performing it again will not happen."""
        return self.kind in {"outcome", "refusal"}

    def cost(self) -> Cost:
        """What it used; for a call whose end nobody saw the most that it can have used."""
        if self.kind == "intent":
            # The turn itself is taken again: what is lost is what it may have cost.
            return replace(Cost.from_json(self.body["worst"]), turns=0)
        return Cost.from_json(self.body["cost"]) if self.kind == "outcome" else NOTHING

    def value(self) -> Json:
        """What came of it: its value, or its fault raised again."""
        if "error" in self.body:
            kind: type[DiffcourtError] = getattr(errors, self.body["error"], ModelError)
            raise kind(self.body["message"])
        return self.body["value"]
