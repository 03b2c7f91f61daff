"""What one iteration of a review works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from orchestrator.engine.escalation import StageChange


class Focus(Struct):
    """What the present iteration works on. The flow sets it; the lead's tools read it.

    Attributes:
        number: 1 for the first iteration, 0 before it.
        retry: agent → paths to look at again; None in the first iteration: everything.
        wanted: evidence that the judge found missing.
        answers: a person's answers to the lead's questions, by question.
        stage_changes: agent → its next stage, where the judge scored its work too low.
    """

    number: int = 0
    retry: Mapping[str, Sequence[str]] | None = None
    wanted: Sequence[str] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    stage_changes: Mapping[str, StageChange] = field(default_factory=dict)
