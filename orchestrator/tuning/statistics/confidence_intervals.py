"""Confidence intervals of agreement and of its gain, resampling whole groups.

Standard errors come from the leave-one-group-out jackknife, quantiles from Student's t with one
degree of freedom less than there are groups, and kappa is transformed to Fisher's z scale first.
For a rule that was not fitted on the data, nominal 95% intervals cover 94 to 97%, with 12 groups as
with 250.

For a *fitted* rule the decisions are held out: no item is decided by a rule that was fitted on its
group. Averaging them over repeated splits makes the estimate more stable than the rule that is
shipped, which comes from one fit. So there are two variances: that of the averaged decisions, which
omits the variance of refitting and covers too little (88 to 93% in simulations of noisy labels),
and that of the decisions of one split, which includes all of it and covers too much where the old
and the new rule are much alike. Their mean covers 94 to 98% with a gain, without one and on pure
noise. ``bench/tuning.py`` prints the coverage.
"""

import math
from collections.abc import Callable, Iterator
from statistics import NormalDist

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats, Ints
from orchestrator.tuning.rubric_decisions import Objective

CONFIDENCE_LEVEL = 0.95
_MAX_KAPPA = 0.999


class Interval(Struct, frozen=True):
    """An estimate with a two-sided 95% interval; the bounds are NaN where it is undefined."""

    value: float
    low: float
    high: float

    def format(self, digits: int = 2) -> str:
        """The estimate and its bounds: ``.41 [.33, .48]``."""
        if math.isnan(self.low):
            return format_statistic(self.value, digits)
        value, low, high = (format_statistic(x, digits) for x in (self.value, self.low, self.high))
        return f"{value} [{low}, {high}]"


def format_interval(value: Interval | None) -> str:
    """A statistic with its interval, ``n/a`` for None."""
    return "n/a" if value is None else value.format()


def format_statistic(value: float | None, digits: int = 2) -> str:
    """A statistic without its leading zero: ``.41``, ``-.05``, ``1.00``; ``n/a`` for None."""
    if value is None or math.isnan(value):
        return "n/a"
    text = f"{round(value, digits) + 0.0:.{digits}f}"  # adding 0 turns -0 into 0
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 else text


def format_change(value: float, digits: int = 2) -> str:
    """A signed difference: ``+0.05``; ``n/a`` for NaN."""
    if math.isnan(value):
        return "n/a"
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def t_quantile(df: float, level: float = CONFIDENCE_LEVEL) -> float:
    """The two-sided quantile of Student's t, to 1e-3 from 5 degrees on (Abramowitz 26.7.5)."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    g4 = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return float(z + g1 / df + g2 / df**2 + g3 / df**3 + g4 / df**4)


def leave_one_group_out(group: Ints, weight: Floats) -> Iterator[Floats]:
    """(n,) weights for each group in turn, which are 0 for its rows."""
    order = np.argsort(group, kind="stable")
    starts = np.unique(group[order], return_index=True)[1]
    for rows in np.split(order, starts[1:]):
        without = weight.copy()
        without[rows] = 0.0
        yield without


def jackknife_variance(values: Floats) -> float:
    """Variance of a statistic from its values without each group, (groups,)."""
    g = values.size
    return float((g - 1) / g * ((values - values.mean()) ** 2).sum())


def score_without_groups(
    objective: Objective, accept: Bools, y: Bools, weight: Floats, group: Ints
) -> tuple[Floats, Floats]:
    """Values of (s, n) decisions, and with each group left out.

    Returns:
        (s,) and (s, groups).
    """
    order = np.argsort(group, kind="stable")
    first_of_group = np.unique(group[order], return_index=True)[1]
    cells = [accept & y, accept & ~y, ~accept & y, ~accept & ~y]
    parts = [
        np.add.reduceat(cell[:, order] * weight[order], first_of_group, axis=1) for cell in cells
    ]
    sums = [part.sum(axis=1) for part in parts]
    rest = [total[:, None] - part for total, part in zip(sums, parts, strict=True)]
    return objective.score_counts(*sums), objective.score_counts(*rest)


def kappa_interval(value: float, variance: float, groups: int) -> Interval:
    """A confidence interval of kappa, computed on Fisher's z scale."""
    if groups < 3:
        return Interval(value, math.nan, math.nan)
    clipped = min(max(value, -_MAX_KAPPA), _MAX_KAPPA)
    half = t_quantile(groups - 1) * math.sqrt(variance) / (1 - clipped**2)
    z = math.atanh(clipped)
    return Interval(value, math.tanh(z - half), math.tanh(z + half))


def t_interval(value: float, variance: float, groups: int) -> Interval:
    """A confidence interval from Student's t, for a statistic that is not bounded like kappa."""
    if groups < 3:
        return Interval(value, math.nan, math.nan)
    half = t_quantile(groups - 1) * math.sqrt(variance)
    return Interval(value, value - half, value + half)


class PairedComparison(Struct, frozen=True):
    """Two rules compared on the same rows.

    Attributes:
        before, after, change: values of the objective; ``change`` from paired differences.
        standard_error: of ``change``.
        groups: number of independent groups.
    """

    before: Interval
    after: Interval
    change: Interval
    standard_error: float
    groups: int


def compare_decisions(
    objective: Objective, before: Bools, after: Bools, y: Bools, weight: Floats, group: Ints
) -> PairedComparison:
    """Compare the decisions of two rules on the same rows.

    Args:
        before: (n,) decisions of a rule that was not fitted on these rows, or (s, n) as ``after``.
        after: (s, n) decisions, one row per split (a single row for a rule that was not fitted).
        y: (n,) people's decisions.
        weight, group: (n,).
    """
    old_rows = np.atleast_2d(before)
    values, omitted = score_without_groups(
        objective, np.concatenate([old_rows, after]), y, weight, group
    )
    k = old_rows.shape[0]
    old, new = float(values[:k].mean()), float(values[k:].mean())
    old_omitted, new_omitted = omitted[:k], omitted[k:]
    groups = omitted.shape[1]
    interval = t_interval if objective.uses_costs else kappa_interval
    variance = _split_variance(new_omitted - old_omitted)
    return PairedComparison(
        before=interval(old, _split_variance(old_omitted), groups),
        after=interval(new, _split_variance(new_omitted), groups),
        change=t_interval(new - old, variance, groups),
        standard_error=math.sqrt(variance),
        groups=groups,
    )


def _split_variance(values: Floats) -> float:
    """Variance of a fitted rule's value from (splits, groups) leave-one-group-out values."""
    single = float(np.mean([jackknife_variance(split) for split in values]))
    return (single + jackknife_variance(values.mean(axis=0))) / 2.0


def jackknife_interval(
    statistic: Callable[[Floats], float | None], weight: Floats, group: Ints
) -> Interval | None:
    """A confidence interval of any statistic of weighted rows; None where it is undefined.

    Args:
        statistic: takes (n,) weights, which are 0 for groups that are left out.
    """
    value = statistic(weight)
    if value is None:
        return None
    omitted = [statistic(row) for row in leave_one_group_out(group, weight)]
    defined = np.array([v for v in omitted if v is not None])
    if defined.size < len(omitted) or defined.size < 3:
        return Interval(value, math.nan, math.nan)
    found = t_interval(value, jackknife_variance(defined), defined.size)
    return replace(found, high=min(found.high, 1.0))  # agreement and AUC are at most 1
