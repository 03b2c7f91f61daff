"""Decisions of a rubric: totals, objectives, thresholds, and decisions that a new rubric changes.

Array functions take many weightings at once. Shapes: ``r`` rules or replicates, ``n`` rows (one
person's label of one item), ``p`` free criteria.
"""

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from orchestrator.engine.rubric_scoring import CriterionMark, Scorecard, score_rubric
from orchestrator.engine.types import Rubric
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats
from orchestrator.tuning.fitting.weight_tree import WeightTree, score_groups

BLOCKED = -1.0
"""The total of an item that fails a blocker: below every threshold."""


class Objective(Struct, frozen=True):
    """What a threshold maximizes: Cohen's kappa, or minus the expected cost when costs are given.

    Attributes:
        false_merge_cost: cost of accepting what people reject.
        false_block_cost: cost of rejecting what people accept.
    """

    false_merge_cost: float = 0.0
    false_block_cost: float = 0.0

    @property
    def uses_costs(self) -> bool:
        """Whether costs were given."""
        return self.false_merge_cost > 0.0 or self.false_block_cost > 0.0

    def score_counts(self, tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
        """The objective from confusion counts; higher is better. Kappa of a single class is 0."""
        rows = tp + fp + fn + tn
        n = np.where(rows > 0.0, rows, 1.0)  # leaving out the only group leaves no rows
        if self.uses_costs:
            return -(self.false_merge_cost * fp + self.false_block_cost * fn) / n
        observed = (tp + tn) / n
        chance = ((tp + fp) * (tp + fn) + (fn + tn) * (fp + tn)) / n**2
        defined = chance < 1.0 - 1e-12
        return np.where(defined, (observed - chance) / np.where(defined, 1.0 - chance, 1.0), 0.0)

    def score(self, accept: Bools, y: Bools, weights: Floats) -> Floats:
        """The objective's value of decisions.

        Args:
            accept: (..., n) decisions.
            y: (n,) whether a person accepts.
            weights: (..., n) or (n,).
        """
        tp = (weights * (accept & y)).sum(axis=-1)
        fp = (weights * (accept & ~y)).sum(axis=-1)
        fn = (weights * (~accept & y)).sum(axis=-1)
        tn = (weights * (~accept & ~y)).sum(axis=-1)
        return self.score_counts(tp, fp, fn, tn)


def compute_totals(tree: WeightTree, x: Floats, w: Floats, blocked: Bools) -> Floats:
    """Totals as :func:`orchestrator.engine.rubric_scoring.total`, for many weightings at once.

    Args:
        x: (n, p), NaN where a criterion does not count for an item.
        w: (r, p) effective weights, negative for penalties.
        blocked: (n,) items that fail a blocker.

    Returns:
        (r, n) in 0..1, ``BLOCKED`` for blocked items, 0 where nothing positive counts.
    """
    out = score_groups(tree, x, w)[-1][0]
    out[:, blocked] = BLOCKED
    return out


def choose_threshold(t: Floats, q: Floats, weights: Floats, objective: Objective) -> Floats:
    """The threshold with the best expected objective, halfway between adjacent totals.

    Args:
        t: (r, n) totals.
        q: (r, n) or (n,), the probability (or the fact) that a person accepts.
        weights: (r, n).

    Returns:
        (r,) thresholds up to 1; above every total when rejecting everything is best, unless a
        total is 1, which no threshold rejects.
    """
    order = np.argsort(-t, axis=1, kind="stable")
    t = np.take_along_axis(t, order, axis=1)
    w = np.take_along_axis(weights, order, axis=1)
    positive = w * np.take_along_axis(np.broadcast_to(q, weights.shape), order, axis=1)
    tp, fp = np.cumsum(positive, axis=1), np.cumsum(w - positive, axis=1)
    zero = np.zeros((t.shape[0], 1))
    tp, fp = np.concatenate([zero, tp], axis=1), np.concatenate([zero, fp], axis=1)
    value = objective.score_counts(tp, fp, tp[:, -1:] - tp, fp[:, -1:] - fp)
    edge = np.concatenate([np.ones((t.shape[0], 1)), t, np.zeros((t.shape[0], 1))], 1)
    # No threshold separates equal totals, none is below 0, and none rejects a total of 1.
    cut = (edge[:, :-1] - edge[:, 1:] > 1e-12) | (np.arange(t.shape[1] + 1) == t.shape[1])
    cut &= edge[:, :-1] > BLOCKED
    value = np.where(cut, value, -np.inf)
    at = value.argmax(axis=1)[:, None]
    high = np.take_along_axis(edge, at, axis=1)
    low = np.take_along_axis(edge, at + 1, axis=1)
    out: Floats = ((high + np.maximum(low, 0.0)) / 2.0)[:, 0]
    return out


def decide_item(rubric: Rubric, item: Item) -> Scorecard:
    """The decision about an item, as about a review; one that names no judge was not judged."""
    marks = {
        name: CriterionMark(None if given == "na" else given, "", not_applicable=given == "na")
        for name, given in item.scores.items()
    }
    asked = bool(item.judge) and any(c.kind == "judged" for c in rubric.criteria)
    return score_rubric(rubric, marks, asked=asked)


class Flip(Struct, frozen=True):
    """A decision that a new rubric reverses.

    Attributes:
        before, after: totals; None where nothing counts.
        label: people's label, empty for an unlabeled item.
    """

    id: str
    url: str
    accepted_before: bool
    before: float | None
    after: float | None
    label: str


def find_flips(
    old: Rubric, new: Rubric, items: list[Item], labels: Mapping[str, str]
) -> list[Flip]:
    """Decisions that differ between two rubrics, each item once, in the items' order."""
    out = []
    for item in {i.id: i for i in reversed(items) if not i.repeat}.values():
        before, after = decide_item(old, item), decide_item(new, item)
        if before.accepted != after.accepted:
            flip = before.accepted, before.total, after.total, labels.get(item.id, "")
            out.append(Flip(item.id, item.url, *flip))
    return out[::-1]
