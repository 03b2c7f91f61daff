"""Agreement statistics: Cohen's kappa, Krippendorff's alpha, Gwet's AC1 and the area under the ROC.

Categories are integers ``0..k-1`` in ascending order. A statistic that is undefined for a sample
(a single class, no item rated twice) is None, never 0: "unknown" is not "no agreement".
"""

from collections.abc import Callable
from itertools import combinations
from typing import Literal

import numpy as np

from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats, Ints

Scheme = Literal["nominal", "linear", "quadratic"]


def confusion_matrix(a: Ints, b: Ints, levels: int, weight: Floats | None = None) -> Floats:
    """Count pairs of categories.

    Args:
        a, b: (n,) categories.
        weight: (n,), 1 each when None.

    Returns:
        (levels, levels), rows by ``a``, columns by ``b``.
    """
    out = np.zeros((levels, levels))
    np.add.at(out, (a, b), 1.0 if weight is None else weight)
    return out


def disagreement_weights(levels: int, scheme: Scheme) -> Floats:
    """(levels, levels) weights of disagreement between categories, 0 on the diagonal."""
    gap = np.abs(np.subtract.outer(np.arange(levels), np.arange(levels))).astype(float)
    if scheme == "nominal":
        return (gap > 0).astype(float)
    return gap if scheme == "linear" else gap**2


def cohen_kappa(table: Floats, scheme: Scheme = "nominal") -> float | None:
    """Cohen's kappa of a confusion matrix, weighted unless nominal; None for a single class."""
    n = table.sum()
    if n <= 0:
        return None
    cost = disagreement_weights(table.shape[0], scheme)
    expected = float((np.outer(table.sum(axis=1), table.sum(axis=0)) / n * cost).sum())
    return None if expected <= 0 else 1.0 - float((table * cost).sum()) / expected


def mean_pairwise_kappa(ratings: Floats, levels: int, scheme: Scheme = "nominal") -> float | None:
    """Mean kappa over pairs of raters, weighted by the number of items they share.

    Args:
        ratings: (raters, items) categories, NaN for a missing rating.
    """
    total, mass = 0.0, 0.0
    for i, j in combinations(range(ratings.shape[0]), 2):
        both = ~np.isnan(ratings[i]) & ~np.isnan(ratings[j])
        if not both.any():
            continue
        table = confusion_matrix(ratings[i, both].astype(int), ratings[j, both].astype(int), levels)
        value = cohen_kappa(table, scheme)
        if value is not None:
            total += value * both.sum()
            mass += both.sum()
    return total / mass if mass else None


def krippendorff_alpha(
    ratings: Floats, scheme: Literal["nominal", "ordinal", "interval"], weight: Floats | None = None
) -> float | None:
    """Krippendorff's alpha.

    Args:
        ratings: (raters, items), NaN for a missing rating.
        scheme: level of measurement.
        weight: (items,), 1 each when None.

    Returns:
        None when no item has two ratings, or all ratings are equal.
    """
    values, counts = _count_ratings(ratings)
    m = counts.sum(axis=1)
    w = np.ones(m.size) if weight is None else weight
    used = (m >= 2) & (w > 0)
    counts, m, w = counts[used], m[used], w[used]
    if counts.size == 0:
        return None
    per_rating = counts * (w / (m - 1))[:, None]
    pairs = counts.T @ per_rating
    pairs -= np.diag(per_rating.sum(axis=0))
    mass = pairs.sum(axis=0)
    cost = _alpha_distances(values, mass, scheme)
    expected = float((np.outer(mass, mass) * cost).sum()) / (mass.sum() - 1)
    return None if expected <= 0 else 1.0 - float((pairs * cost).sum()) / expected


def gwet_ac1(ratings: Floats, levels: int, weight: Floats | None = None) -> float | None:
    """Gwet's AC1 for two or more raters, with missing ratings.

    Args:
        ratings: (raters, items) categories, NaN for a missing rating.
        levels: number of categories, unused ones included.
        weight: (items,), 1 each when None.

    Returns:
        None when no item has two ratings or there is a single category.
    """
    present = ~np.isnan(ratings)
    w = np.ones(ratings.shape[1]) if weight is None else weight
    rated = present.any(axis=0) & (w > 0)
    w = w[rated]
    m = present[:, rated].sum(axis=0).astype(float)
    counts = np.stack([(ratings[:, rated] == k).sum(axis=0) for k in range(levels)], axis=1)
    twice = m >= 2
    if levels < 2 or not twice.any():
        return None
    c, r = counts[twice], m[twice]
    agreeing = (c * (c - 1)).sum(axis=1) / (r * (r - 1))
    observed = float(np.average(agreeing, weights=w[twice]))
    share = np.average(counts / m[:, None], axis=0, weights=w)
    chance = float((share * (1 - share)).sum()) / (levels - 1)
    return (observed - chance) / (1 - chance)


def _count_ratings(ratings: Floats) -> tuple[Floats, Floats]:
    """The distinct values, and (items, values) counts of each value per item."""
    values = np.unique(ratings[~np.isnan(ratings)])
    counts = (
        np.stack([(ratings == v).sum(axis=0) for v in values], axis=1)
        if values.size
        else (np.zeros((ratings.shape[1], 0)))
    )
    return values, counts.astype(float)


def _alpha_distances(values: Floats, mass: Floats, scheme: str) -> Floats:
    """(values, values) squared differences of Krippendorff's alpha at a level of measurement."""
    if scheme == "nominal":
        return np.not_equal.outer(values, values).astype(float)
    if scheme == "interval":
        return np.subtract.outer(values, values) ** 2
    # Ordinal: the mass between two values, half of each end included.
    rank = np.cumsum(mass) - mass / 2.0
    return np.subtract.outer(rank, rank) ** 2


def roc_auc(score: Floats, y: Bools, weight: Floats | None = None) -> float | None:
    """Area under the ROC curve, ties counted half; None for a single class."""
    return roc_auc_by_weight(score, y)(np.ones(score.size) if weight is None else weight)


def roc_auc_by_weight(score: Floats, y: Bools) -> Callable[[Floats], float | None]:
    """``roc_auc`` as a function of the weights, which sorts the scores only once."""
    values, at = np.unique(score, return_inverse=True)
    sides = [(np.flatnonzero(rows), at[rows]) for rows in (y, ~y)]

    def auc(weight: Floats) -> float | None:
        positive, negative = (np.bincount(of, weight[rows], values.size) for rows, of in sides)
        if positive.sum() <= 0 or negative.sum() <= 0:
            return None
        below = np.cumsum(negative) - negative / 2.0
        return float((positive * below).sum() / (positive.sum() * negative.sum()))

    return auc


def rank_correlation(a: Floats | Ints, b: Floats | Ints, weight: Floats) -> float | None:
    """Spearman's rank correlation of weighted rows, ties at their mean; None without spread."""
    ranks = []
    for x in (a, b):
        _, at = np.unique(x, return_inverse=True)
        mass = np.bincount(at, weights=weight)
        ranks.append((np.cumsum(mass) - mass / 2.0)[at])
    covariance = np.cov(ranks, aweights=weight)
    spread = float(covariance[0, 0] * covariance[1, 1])
    return None if spread <= 1e-18 else float(covariance[0, 1]) / spread**0.5
