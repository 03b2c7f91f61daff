"""Simple rules beside a rubric: accept all, equal weights, and the best single criterion.

Each learns its threshold, and which criterion is best, on the training parts of the folds of
:func:`orchestrator.tuning.fitting.cross_validation.cross_validate`, and decides the other parts.
"""

import math

import numpy as np
from msgspec import Struct

from orchestrator.tuning.fitting.cross_validation import combine_folds, draw_folds
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats, Ints
from orchestrator.tuning.fitting.rule_fitting import Sample, fit_thresholds
from orchestrator.tuning.rubric_decisions import BLOCKED, Objective
from orchestrator.tuning.statistics.confidence_intervals import (
    Interval,
    compare_decisions,
    format_statistic,
)

MARGIN = 0.05
"""Kappa by which the rubric must be better than a simple rule to be worth its criteria."""
_BINS = 64


class SimpleRule(Struct, frozen=True):
    """A simple rule, by the objective, and the rubric's advantage over it.

    Attributes:
        value: held out; ``fixed`` policies have nothing to learn.
        difference: the rubric minus this rule, on the same items.
        suffices: the rule agrees above chance, and the rubric is not better by ``MARGIN``, or not
            better at all.
        use: how a rubric becomes this rule; empty for ``accept all`` and ``reject all``.
    """

    name: str
    value: Interval
    difference: Interval
    suffices: bool
    use: str = ""


def measure_simple_rules(
    sample: Sample, names: tuple[str, ...], objective: Objective, decided: Bools, seed: int
) -> tuple[SimpleRule, ...]:
    """Compare simple rules with a rubric.

    Args:
        names: of the free nodes.
        decided: (splits, n) decisions of the rubric, held out if it was fitted.
        seed: of the cross-validation of the rubric.
    """
    held_out = draw_folds(sample.group, np.random.default_rng(seed))
    weights = np.concatenate([sample.weight * ~held_out, sample.weight[None, :]])
    columns = _single_criteria(sample)
    best = _choose_columns(sample, columns, weights, objective)
    equal = sample.equal_weights.totals(sample.equal_weights.w0[None, :])
    learned = []
    for t in (np.repeat(equal, weights.shape[0], axis=0), columns[best]):
        thresholds = fit_thresholds(sample, t, weights, objective)
        accept = combine_folds((t >= thresholds[:, None])[:-1], held_out)
        learned.append((accept, float(thresholds[-1])))
    everything = np.ones((1, sample.y.size), dtype=bool)
    (of_equal, at), (of_single, above) = learned
    p = len(names)
    name, reverse = names[best[-1] % p], best[-1] >= p
    if reverse != bool(sample.units[best[-1] % p] < 0.0):
        bound, use = f"{name} at most {1.0 - above:.4g}", f"reword {name} so that more is better"
    else:
        bound = f"{name} from {above:.4g}"
        use = f"weight 0 for all but {name}, threshold {above:.4g}"
    rules = [
        ("accept all", everything, ""),
        ("reject all", ~everything, ""),
        (f"equal weights from {at:.4g}", of_equal, f"equal weights, threshold {at:.4g}"),
        (f"best criterion, {bound}", of_single, use),
    ]
    return tuple(_compare(sample, objective, decided, *rule) for rule in rules)


def _compare(
    sample: Sample, objective: Objective, decided: Bools, name: str, accept: Bools, use: str
) -> SimpleRule:
    found = compare_decisions(
        objective, accept, decided, sample.accept, sample.weight, sample.group
    )
    change, value = found.change, found.before
    if not use and not objective.uses_costs:
        value = Interval(0.0, math.nan, math.nan)  # kappa of a constant, whatever the labels
    small = change.value <= 0.0 or (not objective.uses_costs and change.high < MARGIN)
    useful = objective.uses_costs or value.low > 0.0
    return SimpleRule(name, value, change, bool(use) and small and useful, use)


def _single_criteria(sample: Sample) -> Floats:
    """(2p, n) totals of each criterion alone, by its sign, then of each reversed.

    An item on which a criterion does not count is rejected, as it is by a rubric of this criterion.
    """
    x = np.where(sample.blocked[:, None], np.nan, sample.x).T
    positive = sample.units[:, None] > 0.0
    both = np.concatenate([np.where(positive, x, 1.0 - x), np.where(positive, 1.0 - x, x)])
    return np.where(np.isnan(both), BLOCKED, both)


def _choose_columns(sample: Sample, columns: Floats, weights: Floats, objective: Objective) -> Ints:
    """(r,) the column that decides best by one threshold under each of (r, n) weights."""
    classes = [weights * sample.accept, weights * ~sample.accept]
    p, n = (mass.sum(axis=1, keepdims=True) for mass in classes)
    best = np.empty((columns.shape[0], weights.shape[0]))
    for j, t in enumerate(columns[: columns.shape[0] // 2]):
        order = np.argsort(-t, kind="stable")
        ranks = np.linspace(0, t.size - 1, _BINS + 1).astype(np.int64)
        cuts = np.unique(np.searchsorted(-t[order], -t[order][ranks]))
        cuts = np.append(cuts[t[order][cuts] > BLOCKED], int((t > BLOCKED).sum()))
        above = [np.zeros((p.size, cuts.size)) for _ in classes]
        for mass, sums in zip(classes, above, strict=True):
            counted = mass[:, order[: cuts[-1]]]
            sums[:, 1:] = np.cumsum(np.add.reduceat(counted, cuts[:-1], axis=1), axis=1)
        # Reversed, the rest of those on which the criterion counts is accepted.
        for row, (tp, fp) in ((j, above), (j + sample.w0.size, [m[:, -1:] - m for m in above])):
            best[row] = objective.score_counts(tp, fp, p - tp, n - fp).max(axis=1)
    out: Ints = best.argmax(axis=0)
    return out


def describe_simple_rules(rules: tuple[SimpleRule, ...], objective: Objective) -> list[str]:
    """The best simple rule that suffices, and how to use it, in a sentence."""
    enough = sorted((r for r in rules if r.suffices), key=lambda rule: -rule.value.value)
    sign, what = (-1, "cost per decision") if objective.uses_costs else (1, "kappa")
    return [
        f"{rule.name} {'does better' if rule.difference.high < 0.0 else 'would do'}: held-out "
        f"{what} {format_statistic(sign * rule.value.value)}; to use it: {rule.use}"
        for rule in enough[:1]
    ]
