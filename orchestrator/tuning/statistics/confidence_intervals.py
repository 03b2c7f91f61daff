"""Confidence intervals of agreement, of rates and of their change, resampling whole groups.

Standard errors come from the leave-one-group-out jackknife, quantiles from Student's t with one
degree of freedom less than there are groups. Kappa's interval is drawn (``table_interval``); alpha,
AC1 and AUC are mapped to a rate from 0 to 1, whose interval is Wilson's. Both have an effective
number of items: of independent ones that would have the variance which the groups show (Korn and
Graubard 1998, Survey Methodology 24). They stay inside the scale and have a width where all items
agree, where the jackknife has none. For a rule that was not fitted on the data, nominal 95%
intervals of kappa cover 93 to 99% at 20 and 30 items, for kappas of 0 to .98.

For a *fitted* rule the decisions are held out: no item is decided by a rule that was fitted on its
group. Averaging them over repeated splits makes the estimate more stable than the rule that is
shipped, which comes from one fit. So there are two variances: that of the averaged decisions, which
omits the variance of refitting and covers too little (88 to 93% in simulations of noisy labels),
and that of the decisions of one split, which includes all of it and covers too much where the old
and the new rule are much alike. Their mean covers 94 to 98% with a gain, without one and on pure
noise. ``bench/tuning.py`` prints the coverage.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import NormalDist

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats, Ints
from orchestrator.tuning.rubric_decisions import Objective

CONFIDENCE_LEVEL = 0.95
MANY_GROUPS, BLOCKS = 1_000, 100
"""Groups beyond which the jackknife of any statistic leaves out blocks of them, for its time."""


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


def format_change(value: float) -> str:
    """A signed difference: ``+0.05``; ``n/a`` for NaN."""
    return "n/a" if math.isnan(value) else f"{round(value, 2) + 0.0:+.2f}"


def t_quantile(df: float, level: float = CONFIDENCE_LEVEL) -> float:
    """The two-sided quantile of Student's t; 3 and 4 degrees to 2e-2, 5 and more to 1e-3.

    One and two degrees have closed forms; for the rest see Abramowitz 26.7.5.
    """
    if df < 2:
        return math.tan(math.pi * level / 2)
    if df < 3:
        return level * math.sqrt(2 / (1 - level**2))
    z = NormalDist().inv_cdf(0.5 + level / 2)
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    g4 = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return float(z + g1 / df + g2 / df**2 + g3 / df**3 + g4 / df**4)


def number_groups(names: Iterable[str]) -> Ints:
    """(n,) a number for each name, in the order in which names first occur."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


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


def sum_without_groups(values: Floats, group: Ints) -> Floats:
    """(..., 1 + groups) sums of (..., n) values: of all, then without each group."""
    order = np.argsort(group, kind="stable")
    first_of_group = np.unique(group[order], return_index=True)[1]
    parts = np.add.reduceat(values[..., order], first_of_group, axis=-1)
    total = parts.sum(axis=-1, keepdims=True)
    return np.concatenate([total, total - parts], axis=-1)


def _cells(accept: Bools, y: Bools) -> tuple[Bools, Bools, Bools, Bools]:
    return accept & y, accept & ~y, ~accept & y, ~accept & ~y


def score_without_groups(
    objective: Objective, accept: Bools, y: Bools, weight: Floats, group: Ints
) -> tuple[Floats, Floats]:
    """Values of (s, n) decisions, and with each group left out.

    Returns:
        (s,) and (s, groups).
    """
    sums = [sum_without_groups(cell * weight, group) for cell in _cells(accept, y)]
    values = objective.score_counts(*sums)
    return values[:, 0], values[:, 1:]


def scaled_interval(
    value: float,
    variance: float,
    groups: int,
    top: float = 1.0,
    width: float = 1.0,
    rows: float = math.inf,
) -> Interval:
    """The interval of a statistic that is ``top`` minus ``width`` times a share of disagreement.

    Kappa, alpha and AC1 are 1 minus observed over expected disagreement, so ``width`` is one over
    the expected share (``expected_disagreement``); for AUC both are 1.
    """
    rate = 1.0 - (top - value) / width
    found = rate_interval(rate, variance / width**2, rows, groups)
    low, high = (top - (1.0 - bound) * width for bound in (found.low, found.high))
    return Interval(value, min(max(low, -abs(top)), value) if top else low, max(high, value))


def table_interval(
    statistic: Callable[[Floats, Floats, Floats, Floats], Floats],
    counts: Sequence[float],
    value: float,
    variance: float,
    groups: int,
    rows: float,
) -> Interval:
    """The interval of a coefficient of agreement, from draws of the 2 by 2 table of decisions.

    A Dirichlet prior of .6 for each cell of agreement and .3 for the others covers best of those
    that were tried. The table has as many items as would have the variance that the groups show.

    Args:
        statistic: of the counts both accept, two that differ, both reject; (n,) each.
        variance: by the jackknife.
        rows: the most items that it can be worth.
    """
    if groups < 3:
        return Interval(value, math.nan, math.nan)
    share = np.array(counts) / np.sum(counts)
    step = 1e-5
    near = statistic(*np.stack([share, *((1.0 - step) * share + step * np.eye(4))], axis=1))
    spread = float(share @ ((near[1:] - near[0]) / step) ** 2)
    alike = min(spread, variance) <= 1e-12  # how alike groups are is then unknown
    worth = min(float(groups) if alike else spread / variance * groups / (groups - 1), rows)
    if groups < rows:
        worth *= (NormalDist().inv_cdf(0.975) / t_quantile(groups - 1)) ** 2
    shape = worth * share + np.array([0.6, 0.3, 0.3, 0.6])
    drawn = statistic(*np.random.default_rng(0).standard_gamma(shape, (4_000, 4)).T)
    low, high = np.quantile(drawn, (0.025, 0.975)) + value - near[0]
    return Interval(value, min(float(low), value), min(max(float(high), value), 1.0))


def expected_disagreement(ratings: Floats, levels: int) -> float:
    """The share of items on which two ratings differ by chance.

    Args:
        ratings: (raters, items) categories, NaN for a missing rating. Each category has one item
            more, so that a single class is not certain.
    """
    given, items = ratings[~np.isnan(ratings)], ratings.shape[1]
    shares = np.bincount(given.astype(np.int64), minlength=levels) / max(given.size, 1)
    return 1.0 - float((((shares * items + 1.0) / (items + levels)) ** 2).sum())


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

    def to_provenance(self) -> dict[str, list[float | None]]:
        """Its values, each with its bounds, rounded; None where JSON has no number."""
        intervals = {"before": self.before, "after": self.after, "change": self.change}
        return {
            name: [None if math.isnan(x) else round(x, 6) for x in (one.value, one.low, one.high)]
            for name, one in intervals.items()
        }


def compare_decisions(
    objective: Objective, before: Bools, after: Bools, y: Bools, weight: Floats, group: Ints
) -> PairedComparison:
    """Compare the decisions of two rules on the same rows.

    Where hardly a decision differs, the change has the variance of one group more that does.

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
    widths = [_scale_width(objective, rows, y, weight) for rows in (old_rows, after)]
    one_more = max(widths) / (groups + 2)
    variance = max(split_variance(new_omitted - old_omitted), one_more**2)

    def side(value: float, omitted: Floats, rows: Bools, width: float) -> Interval:
        spread = split_variance(omitted)
        if objective.uses_costs:
            return scaled_interval(value, spread, groups, 0.0, width)
        cells = [(cell * weight).sum() / len(rows) for cell in _cells(rows, y)]
        worth = float(weight.sum() ** 2 / (weight**2).sum())
        return table_interval(objective.score_counts, cells, value, spread, groups, worth)

    return PairedComparison(
        before=side(old, old_omitted, old_rows, widths[0]),
        after=side(new, new_omitted, after, widths[1]),
        change=t_interval(new - old, variance, groups),
        standard_error=math.sqrt(variance),
        groups=groups,
    )


def measure_kappa(y: Bools, accept: Bools, w: Floats, group: Ints) -> Interval | None:
    """Cohen's kappa of two rows of decisions; None for a single class."""
    if not y.size or (y.all() and accept.all()) or not (y.any() or accept.any()):
        return None
    return compare_decisions(Objective(), accept, accept[None, :], y, w, group).after


def compare_fixed_rules(
    before: Bools, after: Bools, y: Bools, weight: Floats, group: Ints
) -> PairedComparison:
    """As ``compare_decisions`` by kappa, of two rules of which neither was fitted on these rows.

    The change has the further variance that bounds it as a score interval would where no decision
    differs: none changed in 30 items proves little of the next 30. The Agresti–Min addition, of one
    group, lets drops of .05 pass a margin of .05 in 6% of cases instead of 2.5%.
    """
    found = compare_decisions(Objective(), before, np.atleast_2d(after), y, weight, group)
    if found.groups < 3:
        return found
    t = t_quantile(found.groups - 1)
    sides = map(np.atleast_2d, (before, after))
    width = max(_scale_width(Objective(), rows, y, weight) for rows in sides)
    variance = found.standard_error**2 + (t * width / (found.groups + t * t)) ** 2
    return replace(
        found,
        change=t_interval(found.change.value, variance, found.groups),
        standard_error=math.sqrt(variance),
    )


def _scale_width(objective: Objective, accept: Bools, y: Bools, weight: Floats) -> float:
    """How far the objective falls from all right to all wrong: see ``scaled_interval``."""
    if objective.uses_costs:
        return max(objective.false_merge_cost, objective.false_block_cost)
    items = float(weight.sum())
    mean = float((weight * (accept.mean(axis=0) + y)).sum()) / 2.0
    share = (mean + 1.0) / (items + 2.0)
    return 0.5 / (share * (1.0 - share))


def split_variance(values: Floats) -> float:
    """Variance of a fitted rule's value from (splits, groups) leave-one-group-out values."""
    single = float(np.mean([jackknife_variance(split) for split in values]))
    return (single + jackknife_variance(values.mean(axis=0))) / 2.0


def jackknife_interval(
    statistic: Callable[[Floats], float | None],
    weight: Floats,
    group: Ints,
    chance: float | None = 1.0,
    ratings: Floats | None = None,
) -> Interval | None:
    """A confidence interval of any statistic of weighted rows; None where it is undefined.

    Args:
        statistic: takes (n,) weights, which are 0 for groups that are left out.
        chance: of a coefficient of agreement, the share of disagreement by chance; 1 for a rate or
            an AUC; None for a statistic without a scale, such as a difference.
        ratings: of kappa or alpha about accept (1) or reject (0), instead of ``chance``: (raters,
            n), NaN for a missing one. Few items leave it open how much is disagreed on by chance.
    """
    value = statistic(weight)
    if value is None:
        return None
    names, at = np.unique(group, return_inverse=True)
    group = at % BLOCKS if names.size > MANY_GROUPS else group
    omitted = [statistic(row) for row in leave_one_group_out(group, weight)]
    if ratings is not None or chance not in (1.0, None):
        # A single class remains without the only group of the other: as kappa, it counts 0.
        omitted = [0.0 if v is None else v for v in omitted]
    defined = np.array([v for v in omitted if v is not None])
    if defined.size < len(omitted) or defined.size < 3:
        return Interval(value, math.nan, math.nan)
    variance = jackknife_variance(defined)
    if ratings is not None:
        pairs, rows = _count_pairs(ratings, weight), float(weight.sum())
        return table_interval(_alpha_of_pairs, pairs, value, variance, defined.size, rows)
    if chance is None:
        return t_interval(value, variance, defined.size)
    return scaled_interval(value, variance, defined.size, 1.0, 1.0 / chance, float(weight.sum()))


def _count_pairs(ratings: Floats, weight: Floats) -> tuple[float, float, float, float]:
    """The counts for ``table_interval``; an item has as many pairs as raters."""
    yes, no = (np.nansum(each, axis=0) for each in (ratings, 1.0 - ratings))
    share = weight / np.maximum(yes + no - 1.0, 1.0)
    both, one, neither = (
        float((share * x).sum()) for x in (yes * (yes - 1.0), yes * no, no * (no - 1.0))
    )
    return both, one, one, neither


def _alpha_of_pairs(both: Floats, one: Floats, other: Floats, neither: Floats) -> Floats:
    """Krippendorff's alpha of many items."""
    differ = one + other
    pairs, yes, no = both + differ + neither, 2.0 * both + differ, 2.0 * neither + differ
    out: Floats = 1.0 - 2.0 * differ * pairs / (yes * no)
    return out


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
    effective = min(spread / variance, rows) if min(variance, spread) > 1e-12 else float(groups)
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
    found = mean_rate(values, np.ones(values.size), group)
    assert found is not None
    return found


def effective_items(values: Floats, group: Ints) -> float:
    """The number of independent items that the groups are worth, at most that of the values."""
    mean = float(values.mean())
    variance = cluster_variance(values, np.ones(values.size), group)
    spread = mean * (1.0 - mean)
    if math.isnan(variance) or min(variance, spread) <= 1e-12:
        return float(np.unique(group).size)
    return min(spread / variance, float(values.size))


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
