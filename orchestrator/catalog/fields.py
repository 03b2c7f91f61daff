"""What data files, reports and verdicts share: their base, and the types of fields."""

from datetime import date
from typing import Annotated, Literal

from msgspec import Meta, Struct

Words = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(gt=0)]
Unit = Annotated[float, Meta(ge=0, le=1)]
Day = date
"""Written as 2027-06-30."""

Environment = Literal["ci", "local"]
"""Where a run takes place."""

OFFLINE = "offline"
"""The provider that needs no key, no network and no entry in ``config/models.yaml``."""

Severity = Literal["critical", "high", "medium", "low", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low", "info")
"""Gravest first."""

Outcome = Literal["merge", "needs_changes", "block"]
OUTCOMES: tuple[Outcome, ...] = ("merge", "needs_changes", "block")
"""Mildest first."""


class Strict(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of what comes from outside or is published: unknown keys are faults; frozen.

    What no type can say is held in ``__post_init__``, which raises ``ValueError``.
    """
