"""Rates with 95% intervals where items of a group resemble each other.

The interval is Wilson's with an effective number of items: the number of independent ones that
would have the variance which the groups show (Korn and Graubard 1998, Survey Methodology 24). It
stays inside 0..1 and has a width where all items agree, where the jackknife has none.
"""

import math

import numpy as np

from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats, Ints
from orchestrator.tuning.statistics.confidence_intervals import Interval, t_quantile


def cluster_variance(values: Floats, weight: Floats, group: Ints) -> float:
    """Variance of a weighted mean whose rows are independent between groups only.

    Args:
        values, weight, group: (n,) with at least two groups; the variance is NaN for one.
    """
    names, at = np.unique(group, return_inverse=True)
    g = names.size
    if g < 2:
        return math.nan
    mean = float(np.average(values, weights=weight))
    sums = np.bincount(at, weights=weight * (values - mean), minlength=g)
    return float(g / (g - 1) * (sums**2).sum() / weight.sum() ** 2)


def rate_interval(value: float, variance: float, rows: float, groups: int) -> Interval:
    """A confidence interval of a rate from 0 to 1.

    Args:
        value: the estimate; one outside of 0..1 is clipped.
        variance: of the estimate.
        rows: the most items that it can be worth.
        groups: number of independent groups; below three the bounds are NaN.
    """
    value = min(max(value, 0.0), 1.0)
    if groups < 3 or math.isnan(variance):
        return Interval(value, math.nan, math.nan)
    spread = value * (1.0 - value)
    # Where all items agree the groups show no variance: how alike they are is then unknown.
    effective = min(spread / variance, rows) if variance > 0 < spread else float(groups)
    t = t_quantile(groups - 1)
    shrink = t * t / effective
    center = (value + shrink / 2.0) / (1.0 + shrink)
    half = t / (1.0 + shrink) * math.sqrt(spread / effective + shrink / (4.0 * effective))
    return Interval(value, max(center - half, 0.0), min(center + half, 1.0))


def mean_rate(hits: Bools | Floats, weight: Floats, group: Ints) -> Interval | None:
    """The weighted share of hits, with its interval; None without rows."""
    if not hits.size or weight.sum() <= 0:
        return None
    values = hits.astype(float)
    return rate_interval(
        float(np.average(values, weights=weight)),
        cluster_variance(values, weight, group),
        float(weight.sum()),
        int(np.unique(group).size),
    )


def simple_interval(values: Floats, group: Ints) -> Interval:
    """The interval of a plain mean of at least one value from 0 to 1."""
    one = np.ones(values.size)
    groups = int(np.unique(group).size)
    return rate_interval(
        float(values.mean()), cluster_variance(values, one, group), values.size, groups
    )


def effective_items(values: Floats, group: Ints) -> float:
    """The number of independent items that the groups are worth, at most that of the values."""
    mean = float(values.mean())
    variance = cluster_variance(values, np.ones(values.size), group)
    spread = mean * (1.0 - mean)
    if math.isnan(variance) or variance <= 0 or spread <= 0:
        return float(np.unique(group).size)
    return min(spread / variance, float(values.size))
