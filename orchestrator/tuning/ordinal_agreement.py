"""Agreement with ordinal labels, such as 1 to 5, on the whole scale.

A rubric's total is read as a level by cut points. Each is the threshold from which people give at
least that level, learned on the training parts of the folds of
:func:`orchestrator.tuning.fitting.cross_validation.cross_validate`; the other parts are measured.
"""

import numpy as np
from msgspec import Struct

from orchestrator.tuning.fitting.cross_validation import (
    HeldOutPredictions,
    combine_folds,
    draw_folds,
)
from orchestrator.tuning.fitting.ordinal_regression import Floats, Ints
from orchestrator.tuning.fitting.rule_fitting import fit_thresholds
from orchestrator.tuning.rubric_decisions import Objective
from orchestrator.tuning.statistics.agreement import rank_correlation
from orchestrator.tuning.statistics.confidence_intervals import (
    Interval,
    jackknife_interval,
    rate_interval,
    scaled_interval,
    split_variance,
    sum_without_groups,
    t_interval,
)
from orchestrator.tuning.training_data import MIN_GROUPS, MIN_LABELS, TrainingData


class OrdinalAgreement(Struct, frozen=True):
    """Agreement of a rubric with ordinal labels; all but ``cut_points`` is held out.

    Attributes:
        values: the labels in ascending order; a step is from one to the next.
        cut_points: totals from which the second value, the third, ... is given, by all labels.
        weighted_kappa: quadratically weighted.
        rank_correlation: Spearman's, of the total (or probability) and the label.
        mean_error: mean distance from people's label, in steps.
        two_off: share of labels from which the rubric is two or more steps away.
        table: counts; rows are people's values, columns the rubric's.
    """

    values: tuple[str, ...]
    cut_points: tuple[float, ...]
    weighted_kappa: Interval
    rank_correlation: Interval | None
    mean_error: Interval
    two_off: Interval
    table: tuple[tuple[float, ...], ...]


class OrdinalComparison(Struct, frozen=True):
    """The present and the tuned rubric on the whole scale; ``change`` is of weighted kappa."""

    before: OrdinalAgreement
    after: OrdinalAgreement
    change: Interval


def measure_ordinal_agreement(
    data: TrainingData, totals: Floats, score: Floats, seed: int
) -> OrdinalAgreement | None:
    """Measure a rubric on the whole scale.

    Args:
        totals: (1, n), or (folds + 1, n): by the rule of each fold, then by that of all labels.
        score: (n,) what is ranked.
        seed: of the cross-validation.

    Returns:
        None for two levels, or where the labels are too few to learn cut points.
    """
    if not _suffices(data):
        return None
    return _measure(data, *_read_levels(data, totals, seed), score)


def _suffices(data: TrainingData) -> bool:
    groups = np.unique(data.sample.group).size
    return len(data.scale.values) > 2 and len(data.items) >= MIN_LABELS and groups >= MIN_GROUPS


def compare_ordinal_agreement(
    data: TrainingData, held_out: HeldOutPredictions, totals: Floats, seed: int
) -> OrdinalComparison | None:
    """As ``measure_ordinal_agreement``, of the present rubric and the tuned one.

    Args:
        totals: (n,) by the rule that was tuned on all labels.
    """
    if not _suffices(data):
        return None
    before = data.totals[None, :]
    after = np.concatenate([held_out.totals, totals[None, :]])
    old, new = (_read_levels(data, totals, seed) for totals in (before, after))
    (a, width_a), (b, width_b) = (_weighted_kappas(data, levels) for levels, _ in (old, new))
    groups = a.shape[1] - 1
    one_more = max(width_a, width_b) / (groups + 2)
    variance = max(split_variance(b[:, 1:] - a[:, 1:]), one_more**2)
    change = t_interval(float(b[:, 0].mean() - a[:, 0].mean()), variance, groups)
    sides = (_measure(data, *old, before[0]), _measure(data, *new, held_out.probability))
    return OrdinalComparison(*sides, change)


def _read_levels(data: TrainingData, totals: Floats, seed: int) -> tuple[Ints, Floats]:
    """Read totals as levels, those of each fold by the cut points of the other folds.

    Returns:
        A rubric's held-out levels, (splits, n), and its cut points.
    """
    s = data.sample
    people = data.levels
    held_out = draw_folds(s.group, np.random.default_rng(seed))
    weights = np.concatenate([s.weight * ~held_out, s.weight[None, :]])
    t = np.broadcast_to(totals, weights.shape)
    cuts = np.zeros((weights.shape[0], len(data.scale.values) - 1))
    for j in range(cuts.shape[1]):
        least = people > j
        found = fit_thresholds(s, t, weights, Objective(), least)
        share = (weights * least).sum(axis=1) / weights.sum(axis=1)
        cuts[:, j] = np.where(share <= 0.0, np.inf, np.where(share >= 1.0, -np.inf, found))
    cuts = np.maximum.accumulate(cuts, axis=1)
    above = [combine_folds((t >= cut[:, None])[:-1], held_out) for cut in cuts.T]
    return np.sum(above, axis=0).astype(np.int64), cuts[-1]


def _weighted_kappas(data: TrainingData, b: Ints) -> tuple[Floats, float]:
    """(splits, 1 + groups) weighted kappas, and the width as in ``scaled_interval``."""
    a, w = data.levels, data.sample.weight
    parts = np.stack([np.broadcast_to(x, b.shape) for x in (a * 1.0, a**2, b, b**2, (a - b) ** 2)])
    mass = sum_without_groups(w, data.sample.group)
    mean_a, square_a, mean_b, square_b, observed = (
        sum_without_groups(parts * w, data.sample.group) / mass
    )
    expected = square_a + square_b - 2.0 * mean_a * mean_b
    defined = expected > 1e-12
    kappas = np.where(defined, 1.0 - observed / np.where(defined, expected, 1.0), 0.0)
    # Labels yet to come may be one step further off than the worst of these, and no more.
    worst = (float(np.abs(a - b).max()) + 1.0) ** 2
    return kappas, worst / max(float(expected[:, 0].mean()), 1e-12)


def measure_weighted_kappa(data: TrainingData, levels: Ints) -> Interval:
    """Quadratically weighted kappa of people's levels and a rubric's, (splits, n)."""
    kappas, width = _weighted_kappas(data, levels)
    value, variance = float(kappas[:, 0].mean()), split_variance(kappas[:, 1:])
    return scaled_interval(value, variance, kappas.shape[1] - 1, width=width)


def _measure(
    data: TrainingData, levels: Ints, cut_points: Floats, score: Floats
) -> OrdinalAgreement:
    s, k = data.sample, len(data.scale.values)
    off = np.abs(levels - data.levels).astype(float)
    at = (data.levels * k + levels).ravel()
    counts = np.bincount(at, weights=np.tile(s.weight, off.shape[0]), minlength=k * k)
    table = (counts / off.shape[0]).reshape(k, k)
    return OrdinalAgreement(
        values=tuple(f"{v:g}" if isinstance(v, float) else v for v in data.scale.values),
        cut_points=tuple(float(x) for x in cut_points),
        weighted_kappa=measure_weighted_kappa(data, levels),
        rank_correlation=jackknife_interval(
            lambda w: rank_correlation(score, data.levels, w), s.weight, s.group, 0.5
        ),
        mean_error=_mean(data, off, max(float(off.max()), 1.0)),
        two_off=_mean(data, (off >= 2.0).astype(float), 1.0),
        table=tuple(tuple(row) for row in table.tolist()),
    )


def _mean(data: TrainingData, values: Floats, top: float) -> Interval:
    """The mean of (splits, n) values from 0 to ``top``, with its interval."""
    w, group = data.sample.weight, data.sample.group
    means = sum_without_groups(values * w, group) / sum_without_groups(w, group) / top
    spread = split_variance(means[:, 1:])
    found = rate_interval(float(means[:, 0].mean()), spread, np.inf, means.shape[1] - 1)
    return Interval(found.value * top, found.low * top, found.high * top)
