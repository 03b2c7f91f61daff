"""Scoring by a rubric: marks per criterion → a total, and what evidence is missing.

Measured criteria are scored by code. Judged ones need a model or a person; where there is none they
are reported as not scored, and their weight is left out as the rubric says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from orchestrator.engine.rubric_scoring import Given, blocked_by, total
from orchestrator.engine.types import Criterion, Rubric


class Mark(Struct, frozen=True):
    """A criterion's score, 0 to 1.

    Attributes:
        score: None where it was not scored.
        missing: evidence that a further iteration should get.
        not_applicable: there is nothing here that the criterion speaks of.
        evidence: what a judge's score rests on.
    """

    score: float | None
    why: str
    missing: tuple[str, ...] = ()
    not_applicable: bool = False
    evidence: tuple[str, ...] = ()

    @property
    def given(self) -> Given:
        """The score as a rubric counts it."""
        return "na" if self.not_applicable else self.score


class Scorecard(Struct, frozen=True):
    """The score of a candidate under a rubric.

    Attributes:
        total: None when nothing could be scored.
        blocked_by: blockers that scored 0.
    """

    rubric: Rubric
    marks: Mapping[str, Mark]
    total: float | None
    blocked_by: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """At or above the threshold, and no blocker at 0."""
        return (
            self.total is not None and self.total >= self.rubric.threshold and not self.blocked_by
        )

    def missing_of(self, kind: Literal["measured", "judged"]) -> tuple[str, ...]:
        """The evidence that is missing by criteria of one kind, in their order, each once."""
        return tuple(
            dict.fromkeys(
                item
                for criterion in self.rubric.criteria
                if criterion.kind == kind
                for item in self.marks[criterion.id].missing
            )
        )


def judge(rubric: Rubric, marks: Mapping[str, Mark]) -> Scorecard:
    """Score a rubric. A criterion without a mark counts as not scored."""
    whole = {c.id: marks.get(c.id, _unscored(c)) for c in rubric.criteria}
    scores = {name: mark.given for name, mark in whole.items()}
    return Scorecard(rubric, whole, total(rubric, scores), blocked_by(rubric, scores))


def _unscored(criterion: Criterion) -> Mark:
    if criterion.kind == "judged":
        return Mark(None, "not scored: no model judged this review")
    return Mark(None, "not scored: nothing measured it")
