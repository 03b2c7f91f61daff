"""How small a difference a comparison can prove, and how many labels a given one takes."""

import math
from statistics import NormalDist

from orchestrator.tuning.statistics.confidence_intervals import t_quantile

POWER = 0.8
"""Probability with which a true difference of the stated size is proven."""

_Z_POWER = NormalDist().inv_cdf(POWER)


def smallest_detectable_change(standard_error: float, groups: int) -> float:
    """The true change whose 95% interval lies above 0 with a probability of ``POWER``.

    Args:
        standard_error: of the change.
        groups: independent groups; with fewer than 3 nothing can be proven (infinity).
    """
    if groups < 3:
        return math.inf
    return (t_quantile(groups - 1) + _Z_POWER) * standard_error


def estimate_labels_needed(labels: int, standard_error: float, groups: int, change: float) -> int:
    """Labeled items that prove a true change of this size with a probability of ``POWER``.

    The standard error falls with the square root of the number of labels.

    Args:
        labels: labeled items that gave the standard error, of ``groups`` groups (at least 3).
        change: above 0.
    """
    least = smallest_detectable_change(standard_error, groups)
    return math.ceil(labels * (least / change) ** 2 / 10) * 10
