"""How far two or more judges agree: the field's statistics, each checked against an oracle.

Categories are whole numbers ``0..k-1`` in order. A statistic that a sample cannot give (one class
only, nobody rated twice) is None, never 0: "not known" and "no agreement" are different news.
"""

from typing import Literal

import numpy as np
from msgspec import Struct

from orchestrator.tuning.weight_fitting import Bools, Floats, Ints

Scheme = Literal["nominal", "linear", "quadratic"]
BINS = 10


def confusion(a: Ints, b: Ints, levels: int, weight: Floats | None = None) -> Floats:
    """Counts of pairs.

    Args:
        a, b: (n,) categories.
        weight: (n,), 1 each when None.

    Returns:
        (levels, levels), rows by ``a``, columns by ``b``.
    """
    out = np.zeros((levels, levels))
    np.add.at(out, (a, b), 1.0 if weight is None else weight)
    return out


def distances(levels: int, scheme: Scheme) -> Floats:
    """(levels, levels) disagreement between categories, 0 on the diagonal."""
    gap = np.abs(np.subtract.outer(np.arange(levels), np.arange(levels))).astype(float)
    if scheme == "nominal":
        return (gap > 0).astype(float)
    return gap if scheme == "linear" else gap**2


def cohen_kappa(table: Floats, scheme: Scheme = "nominal") -> float | None:
    """Cohen's kappa of a confusion table, weighted unless nominal; None for one class only."""
    n = table.sum()
    if n <= 0:
        return None
    cost = distances(table.shape[0], scheme)
    expected = float((np.outer(table.sum(axis=1), table.sum(axis=0)) / n * cost).sum())
    return None if expected <= 0 else 1.0 - float((table * cost).sum()) / expected


def krippendorff_alpha(
    ratings: Floats, scheme: Literal["nominal", "ordinal", "interval"]
) -> float | None:
    """Krippendorff's alpha.

    Args:
        ratings: (raters, items), NaN where a rater did not rate.
        scheme: how values differ.

    Returns:
        None when no item has two ratings, or all ratings are one value.
    """
    values, counts = _by_item(ratings)
    m = counts.sum(axis=1)
    counts = counts[m >= 2]
    m = m[m >= 2]
    if counts.size == 0:
        return None
    pairs = counts.T @ (counts / (m - 1)[:, None])
    pairs -= np.diag((counts / (m - 1)[:, None]).sum(axis=0))
    mass = pairs.sum(axis=0)
    cost = _alpha_distance(values, mass, scheme)
    expected = float((np.outer(mass, mass) * cost).sum()) / (mass.sum() - 1)
    return None if expected <= 0 else 1.0 - float((pairs * cost).sum()) / expected


def gwet_ac1(ratings: Floats, levels: int) -> float | None:
    """Gwet's AC1 for two or more raters, with missing ratings.

    Args:
        ratings: (raters, items) categories, NaN where a rater did not rate.
        levels: number of categories, also those that nobody used.

    Returns:
        None when no item has two ratings or there is one category only.
    """
    held = ~np.isnan(ratings)
    rated = held.any(axis=0)
    m = held[:, rated].sum(axis=0).astype(float)
    counts = np.stack([(ratings[:, rated] == k).sum(axis=0) for k in range(levels)], axis=1)
    twice = m >= 2
    if levels < 2 or not twice.any():
        return None
    c, r = counts[twice], m[twice]
    same = float(((c * (c - 1)).sum(axis=1) / (r * (r - 1))).mean())
    share = (counts / m[:, None]).mean(axis=0)
    chance = float((share * (1 - share)).sum()) / (levels - 1)
    return (same - chance) / (1 - chance)


def _by_item(ratings: Floats) -> tuple[Floats, Floats]:
    """The values used, and (items, values) how often each item got each."""
    values = np.unique(ratings[~np.isnan(ratings)])
    counts = (
        np.stack([(ratings == v).sum(axis=0) for v in values], axis=1)
        if values.size
        else (np.zeros((ratings.shape[1], 0)))
    )
    return values, counts.astype(float)


def _alpha_distance(values: Floats, mass: Floats, scheme: str) -> Floats:
    if scheme == "nominal":
        return np.not_equal.outer(values, values).astype(float)
    if scheme == "interval":
        gaps: Floats = np.subtract.outer(values, values) ** 2
        return gaps
    # Ordinal: the mass between two values, each end by half.
    rank = np.cumsum(mass) - mass / 2.0
    ranks: Floats = np.subtract.outer(rank, rank) ** 2
    return ranks


def auc(score: Floats, y: Bools, weight: Floats | None = None) -> float | None:
    """Area under the ROC curve, ties by half; None for one class only."""
    w = np.ones(score.size) if weight is None else weight
    values, at = np.unique(score, return_inverse=True)
    yes = np.bincount(at, weights=w * y, minlength=values.size)
    no = np.bincount(at, weights=w * ~y, minlength=values.size)
    if yes.sum() <= 0 or no.sum() <= 0:
        return None
    beaten = np.cumsum(no) - no / 2.0
    return float((yes * beaten).sum() / (yes.sum() * no.sum()))


class Bin(Struct, frozen=True):
    """One step of a reliability curve.

    Attributes:
        said: mean predicted probability.
        was: share that people accept.
        weight: items in it.
    """

    said: float
    was: float
    weight: float


def reliability(p: Floats, y: Bools, weight: Floats | None = None, bins: int = BINS) -> list[Bin]:
    """The reliability curve over equally wide bins of probability; empty bins are left out."""
    w = np.ones(p.size) if weight is None else weight
    at = np.minimum((p * bins).astype(np.int64), bins - 1)
    mass = np.bincount(at, weights=w, minlength=bins)
    said = np.bincount(at, weights=w * p, minlength=bins)
    was = np.bincount(at, weights=w * y, minlength=bins)
    return [
        Bin(float(said[i] / mass[i]), float(was[i] / mass[i]), float(mass[i]))
        for i in range(bins)
        if mass[i] > 0
    ]


def ece(curve: list[Bin]) -> float:
    """Expected calibration error: mean distance of a reliability curve from the diagonal."""
    total = sum(b.weight for b in curve)
    return sum(b.weight * abs(b.said - b.was) for b in curve) / total if total else 0.0
