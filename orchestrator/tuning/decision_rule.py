"""A rule: weights, a threshold, and what they are worth. Every function takes many rules at once.

Shapes: ``r`` rules or replicates, ``n`` rows (one person's label of one item), ``p`` free criteria.
"""

import numpy as np
from msgspec import Struct

from orchestrator.tuning.weight_fitting import Bools, Floats

BLOCKED = -1.0
"""The total of an item that a blocker fails: below every threshold."""


class Aim(Struct, frozen=True):
    """What a threshold is chosen for.

    Attributes:
        merge, block: cost of accepting what people reject, and of rejecting what they accept;
        both 0
            means that agreement (Cohen's kappa) is the aim.
    """

    merge: float = 0.0
    block: float = 0.0

    @property
    def by_cost(self) -> bool:
        """Whether costs were given."""
        return self.merge > 0.0 or self.block > 0.0

    def value(self, tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
        """Cohen's kappa, or minus the mean cost; higher is better. Kappa of one class only is 0."""
        rows = tp + fp + fn + tn
        n = np.where(rows > 0.0, rows, 1.0)  # none are left without the only group
        if self.by_cost:
            loss: Floats = -(self.merge * fp + self.block * fn) / n
            return loss
        same = (tp + tn) / n
        chance = ((tp + fp) * (tp + fn) + (fn + tn) * (fp + tn)) / n**2
        open_ = chance < 1.0 - 1e-12
        out: Floats = np.where(open_, (same - chance) / np.where(open_, 1.0 - chance, 1.0), 0.0)
        return out

    def of(self, accept: Bools, y: Bools, weights: Floats) -> Floats:
        """Value of decisions.

        Args:
            accept: (..., n) decisions.
            y: (n,) whether a person accepts.
            weights: (..., n) or (n,).
        """
        tp = (weights * (accept & y)).sum(axis=-1)
        fp = (weights * (accept & ~y)).sum(axis=-1)
        fn = (weights * (~accept & y)).sum(axis=-1)
        tn = (weights * (~accept & ~y)).sum(axis=-1)
        return self.value(tp, fp, fn, tn)


def totals(x: Floats, w: Floats, blocked: Bools) -> Floats:
    """Totals as :func:`orchestrator.engine.rubric_scoring.total` gives them, for many weightings.

    Args:
        x: (n, p), NaN where a criterion does not count for an item.
        w: (r, p), negative for penalties.
        blocked: (n,) items that a blocker fails.

    Returns:
        (r, n) in 0..1, ``BLOCKED`` for blocked items, 0 where nothing positive counts.
    """
    there = ~np.isnan(x)
    top = w @ np.where(there, x, 0.0).T
    bottom = np.maximum(w, 0.0) @ there.T.astype(float)
    out = np.clip(top / np.where(bottom > 0.0, bottom, np.inf), 0.0, 1.0)
    out[:, blocked] = BLOCKED
    return out


def platt(t: Floats, y: Bools, weights: Floats, steps: int = 12) -> Floats:
    """Sigmoid calibration with a rising slope and Platt's smoothed targets.

    Args:
        t: (r, n) totals.
        y: (n,) labels.
        weights: (r, n).

    Returns:
        (r, 2): intercept and slope of the logit in ``t``.
    """
    total = weights.sum(axis=1)
    share = weights / total[:, None]
    yes = weights @ y
    target = np.where(y, ((yes + 1.0) / (yes + 2.0))[:, None], (1.0 / (total - yes + 2.0))[:, None])
    mean = (share * t).sum(axis=1, keepdims=True)
    spread = np.sqrt((share * (t - mean) ** 2).sum(axis=1, keepdims=True))
    u = (t - mean) / np.maximum(spread, 1e-9)
    a, b = np.zeros(t.shape[0]), np.zeros(t.shape[0])
    for _ in range(steps):
        p = 1.0 / (1.0 + np.exp(-np.clip(a[:, None] + b[:, None] * u, -30.0, 30.0)))
        miss = share * (p - target)
        bend = share * p * (1.0 - p)
        ga, gb = miss.sum(axis=1), (miss * u).sum(axis=1)
        haa = bend.sum(axis=1) + 1e-9
        hab = (bend * u).sum(axis=1)
        hbb = (bend * u * u).sum(axis=1) + 1e-9
        det = haa * hbb - hab**2
        a = np.clip(a - (hbb * ga - hab * gb) / det, -30.0, 30.0)
        b = np.clip(b - (haa * gb - hab * ga) / det, 0.0, 30.0)
    slope = b / np.maximum(spread[:, 0], 1e-9)
    return np.stack([a - slope * mean[:, 0], slope], axis=1)


def sigmoid(t: Floats, ab: Floats) -> Floats:
    """Calibrated probabilities, (r, n) from (r, n) totals and (r, 2) parameters."""
    out: Floats = 1.0 / (1.0 + np.exp(-np.clip(ab[:, :1] + ab[:, 1:] * t, -30.0, 30.0)))
    return out


def best_threshold(t: Floats, q: Floats, weights: Floats, aim: Aim) -> Floats:
    """The threshold of highest expected value, halfway between the totals it parts.

    Args:
        t: (r, n) totals.
        q: (r, n) or (n,), the probability (or the fact) that a person accepts.
        weights: (r, n).

    Returns:
        (r,) thresholds; above every total when rejecting all is best.
    """
    order = np.argsort(-t, axis=1, kind="stable")
    t = np.take_along_axis(t, order, axis=1)
    w = np.take_along_axis(weights, order, axis=1)
    yes = w * np.take_along_axis(np.broadcast_to(q, weights.shape), order, axis=1)
    tp, fp = np.cumsum(yes, axis=1), np.cumsum(w - yes, axis=1)
    zero = np.zeros((t.shape[0], 1))
    tp, fp = np.concatenate([zero, tp], axis=1), np.concatenate([zero, fp], axis=1)
    value = aim.value(tp, fp, tp[:, -1:] - tp, fp[:, -1:] - fp)
    edge = np.concatenate([np.full((t.shape[0], 1), 1.0 + 1e-6), t, np.zeros((t.shape[0], 1))], 1)
    # A cut between equal totals is no cut, and nothing below 0 can be a threshold.
    cut = (edge[:, :-1] - edge[:, 1:] > 1e-12) | (np.arange(t.shape[1] + 1) == t.shape[1])
    cut &= edge[:, :-1] > BLOCKED
    value = np.where(cut, value, -np.inf)
    at = value.argmax(axis=1)[:, None]
    high = np.take_along_axis(edge, at, axis=1)
    low = np.take_along_axis(edge, at + 1, axis=1)
    out: Floats = ((high + np.maximum(low, 0.0)) / 2.0)[:, 0]
    return out
