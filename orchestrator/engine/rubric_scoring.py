"""Scoring by a rubric: the scores of its criteria → the total, blockers and missing evidence."""

import math
from collections.abc import Mapping
from itertools import chain
from typing import Literal

from msgspec import Struct

from orchestrator.engine.types import Criterion, Rubric

Given = float | Literal["na"] | None
"""A criterion's score 0..1, ``"na"`` where it does not apply, None where it was not scored."""


def node_scores(rubric: Rubric, scores: Mapping[str, Given]) -> dict[str | None, float | None]:
    """The score, 0 to 1, of every criterion, of every group, and under None of the whole.

    A node's score is the weighted mean of those children that count: sum of weight times score
    over the sum of the positive weights, at least 0; or what its group's ``combine`` says.

    Args:
        scores: by criterion id; a criterion that is not there was not scored.

    Returns:
        None for a node that does not count: left out by ``na`` or ``abstain``, or a group in which
        nothing with a positive weight counts.

    Raises:
        ValueError: a score that is not a number from 0 to 1.
    """
    combine = {group.id: group.combine for group in rubric.groups if group.combine != "mean"}
    out: dict[str | None, float | None] = {}
    for c in rubric.criteria:
        given = scores.get(c.id)
        is_worst = given is None and c.parent in combine
        out[c.id] = _counted(c, rubric.worst_scores[c.id] if is_worst else given)
    for group, children in rubric.below.items():
        found = [(node.weight, out[node.id]) for node in children]
        if group in combine:
            counted = [score for _, score in found if score is not None]
            choose = min if combine[group] == "all_of" else max
            out[group] = choose(counted, default=None)
        else:
            out[group] = _mean(found)
    return out


def _counted(criterion: Criterion, given: Given) -> float | None:
    if isinstance(given, (int, float)) and 0.0 <= given <= 1.0:
        return float(given)
    if given is None:
        return None if criterion.abstain == "exclude" else 0.0
    if given == "na":
        return {"exclude": None, "zero": 0.0, "full": 1.0}[criterion.na]
    raise ValueError(f"the score of {criterion.id!r} is {given!r}; allowed: a number 0 to 1")


def _mean(children: list[tuple[float, float | None]]) -> float | None:
    there = [(weight, score) for weight, score in children if score is not None]
    positive = math.fsum(weight for weight, _ in there if weight > 0)
    if positive <= 0:
        return None
    return max(math.fsum(weight * score for weight, score in there) / positive, 0.0)


class CriterionMark(Struct, frozen=True):
    """A criterion's score, 0 to 1.

    Attributes:
        score: None where it was not scored.
        missing: evidence that a further iteration should collect.
        not_applicable: the criterion does not apply to the candidate.
        evidence: what a judge's score is based on.
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


_UNSCORED = {
    "judged": CriterionMark(None, "not scored: no model judged this review"),
    "measured": CriterionMark(None, "not scored: nothing measured it"),
}


class Scorecard(Struct, frozen=True):
    """The score of a candidate under a rubric.

    Attributes:
        total: None when nothing could be scored.
        blocked_by: blockers that scored 0, in the rubric's order.
        asked: a judge was asked, so without a score of its the candidate is not accepted.
    """

    rubric: Rubric
    marks: Mapping[str, CriterionMark]
    total: float | None
    blocked_by: tuple[str, ...] = ()
    asked: bool = False

    @property
    def accepted(self) -> bool:
        """Whether the total reaches the threshold and no blocker scored 0."""
        reached = self.total is not None and self.total >= self.rubric.threshold
        return reached and not self.is_rejected

    @property
    def is_rejected(self) -> bool:
        """Whether it is not accepted whatever the total is: a blocker, or no score of the judge."""
        return bool(self.blocked_by) or (self.asked and not self.is_judged)

    @property
    def is_judged(self) -> bool:
        """Whether a judge scored more than a penalty, where the rubric asks it for more."""
        judged = [c for c in self.rubric.criteria if c.kind == "judged"]
        decisive = [c for c in judged if c.weight > 0] or judged
        return any(self.marks[c.id].score is not None for c in decisive)

    def missing_of(self, kind: Literal["measured", "judged"]) -> tuple[str, ...]:
        """The missing evidence of all criteria of one kind, in order, without duplicates."""
        own = [self.marks[c.id].missing for c in self.rubric.criteria if c.kind == kind]
        return tuple(dict.fromkeys(chain.from_iterable(own)))


def score_rubric(
    rubric: Rubric, marks: Mapping[str, CriterionMark], *, asked: bool = False
) -> Scorecard:
    """Score a rubric. A criterion without a mark counts as not scored.

    Args:
        asked: a judge was asked. What it left out counts as its worst score, and blocks if it is a
            blocker, so that less evidence never raises the total nor accepts.
    """
    whole = {c.id: marks.get(c.id, _UNSCORED[c.kind]) for c in rubric.criteria}
    scores = {name: mark.given for name, mark in whole.items()}
    left = worst_of_unscored(rubric, scores) if asked else {}
    least = scores | dict.fromkeys(left, 0.0)
    blockers = tuple(c.id for c in rubric.criteria if c.blocker and least.get(c.id) == 0)
    return Scorecard(rubric, whole, node_scores(rubric, scores | left)[None], blockers, asked)


def worst_of_unscored(rubric: Rubric, scores: Mapping[str, Given]) -> dict[str, float]:
    """The worst score of each judged criterion that has none."""
    judged = [c.id for c in rubric.criteria if c.kind == "judged"]
    return {name: rubric.worst_scores[name] for name in judged if scores.get(name) is None}
