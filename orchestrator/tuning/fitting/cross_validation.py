"""Nested cross-validation over groups, the learning curve, bootstrap refits, and penalties."""

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.tuning.fitting import rule_fitting
from orchestrator.tuning.fitting.calibration import fit_calibration
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats, Ints
from orchestrator.tuning.fitting.rule_fitting import FitPlan, FittedRules, Sample
from orchestrator.tuning.statistics.confidence_intervals import PairedComparison, compare_decisions

FOLDS, REPEATS = 5, 5
BOOTSTRAP_REFITS = 1_000
CURVE_FRACTIONS = (0.25, 0.4, 0.6, 0.8)
_CURVE_SPLITS = 20
_MAX_ROWS = 600_000
"""Rows of all resamples together: the more labels, the less a resample differs."""


def count_resamples(sample: Sample, most: int) -> int:
    """How many resamples to draw: ``most``, or a twentieth where there are many labels."""
    return max(min(most, _MAX_ROWS // sample.y.size), -(-most // 20))


class HeldOutPredictions(Struct, frozen=True):
    """Decisions and probabilities of items by rules that were not fitted on their group.

    Attributes:
        accept: (repeats, n) decisions.
        probability: (n,) calibrated probability of acceptance, from the first repeat.
        totals: (repeats * folds, n) of all rows, by the rule of each fold.
    """

    accept: Bools
    probability: Floats
    totals: Floats


def draw_folds(group: Ints, rng: np.random.Generator) -> Bools:
    """(REPEATS * FOLDS, n) the rows that each fold holds out."""
    fold = np.stack([rule_fitting.assign_group_folds(group, FOLDS, rng) for _ in range(REPEATS)])
    held_out = fold[:, None, :] == np.arange(FOLDS)[None, :, None]
    return np.reshape(held_out, (-1, group.size))


def combine_folds(accept: Bools, held_out: Bools) -> Bools:
    """(REPEATS, n) the decision on each row by the rule that was not fitted on its group."""
    return np.asarray((accept & held_out).reshape(REPEATS, FOLDS, -1).any(axis=1), dtype=bool)


def cross_validate(sample: Sample, plan: FitPlan, rng: np.random.Generator) -> HeldOutPredictions:
    """Nested cross-validation: every training part runs the whole procedure, penalty included."""
    held_out = draw_folds(sample.group, rng)
    rules = rule_fitting.fit_rules(sample, plan, sample.weight * ~held_out, rng)
    totals = sample.totals(rules.weights)
    accept = combine_folds(totals >= rules.thresholds[:, None], held_out)
    probability = np.zeros(sample.y.size)  # calibrated on the training part of each fold
    for total, test in zip(totals[:FOLDS], held_out[:FOLDS], strict=True):
        train = ~test
        fitted = fit_calibration(
            total[train], sample.accept[train], sample.weight[train], plan.use_isotonic
        )
        probability[test] = fitted.predict(total[test])
    return HeldOutPredictions(accept, probability, totals)


def refit_bootstrap(
    sample: Sample, plan: FitPlan, rng: np.random.Generator, times: int = BOOTSTRAP_REFITS
) -> FittedRules:
    """Run the whole procedure on bootstrap samples: whole groups drawn with replacement."""
    names, at = np.unique(sample.group, return_inverse=True)
    counts = rng.multinomial(names.size, np.full(names.size, 1.0 / names.size), times)
    weights = counts[:, at] * sample.weight
    y = sample.accept
    # Nothing can be fitted on a single class; the original sample takes such a resample's place.
    degenerate = ((weights * y).sum(axis=1) <= 0) | ((weights * ~y).sum(axis=1) <= 0)
    weights[degenerate] = sample.weight
    return rule_fitting.fit_rules(sample, plan, weights, rng)


class LearningCurvePoint(Struct, frozen=True):
    """One point of a learning curve.

    Attributes:
        labels: mean number of labeled items in training.
        value: mean held-out value of the objective.
        low: 5th percentile of that value over the splits.
    """

    labels: int
    value: float
    low: float


def compute_learning_curve(
    sample: Sample, plan: FitPlan, rng: np.random.Generator
) -> list[LearningCurvePoint]:
    """Held-out value by number of labels; every split holds out a fifth of the groups."""
    names, at = np.unique(sample.group, return_inverse=True)
    y = sample.accept
    weights, held_out, fractions = [], [], []
    for _ in range(count_resamples(sample, 10 * _CURVE_SPLITS) // 10):
        order = rng.permutation(names.size)
        test = np.isin(at, order[: max(1, names.size // 5)])
        for fraction in CURVE_FRACTIONS:
            used = np.isin(at, order[names.size - max(2, round(fraction * names.size)) :])
            weights.append(sample.weight * used)
            held_out.append(sample.weight * test)
            fractions.append(fraction)
    w, h = np.stack(weights), np.stack(held_out)
    both = ((w * y).sum(axis=1) > 0) & ((w * ~y).sum(axis=1) > 0)
    rules = rule_fitting.fit_rules(sample, plan, w[both], rng)
    value = plan.objective.score(rules.decide(sample), y, h[both])
    labels, at_fraction = w[both].sum(axis=1), np.array(fractions)[both]
    return [
        LearningCurvePoint(
            round(float(labels[at_fraction == fraction].mean())),
            float(value[at_fraction == fraction].mean()),
            float(np.quantile(value[at_fraction == fraction], 0.05)),
        )
        for fraction in CURVE_FRACTIONS
        if (at_fraction == fraction).any()
    ]


def extrapolate_learning_curve(curve: list[LearningCurvePoint], labels: int) -> float | None:
    """The expected value at another number of labels, by a fit of ``a - b / labels``.

    Returns:
        None when there are fewer than three points or they do not rise.
    """
    if len(curve) < 3:
        return None
    inverse = np.array([1.0 / p.labels for p in curve])
    value = np.array([p.value for p in curve])
    slope, ceiling = np.polyfit(inverse, value, 1)
    return float(ceiling + slope / labels) if slope < 0 else None


STABLE_SHARE = 0.975
"""Share of refits with a reversed sign from which a criterion surely acts against the labels."""
_REFITS = 200


class PenaltyAdvice(Struct, frozen=True):
    """Criteria that could be declared as penalties, by a negative weight.

    Attributes:
        names: whose sign the fit reverses, as do 97.5% of bootstrap refits.
        comparison: held-out decisions with the present signs and with free signs.
        proven: the gain is significant.
    """

    names: tuple[str, ...]
    comparison: PairedComparison
    proven: bool


def advise_penalties(
    sample: Sample, names: tuple[str, ...], plan: FitPlan, held_out: Bools, seed: int
) -> PenaltyAdvice | None:
    """Criteria that act against the labels: whether they would help as penalties, held out.

    A criterion with a positive weight whose scores, given the other criteria, speak against
    acceptance gets a weight of 0 when signs are kept. Fitted with free signs it becomes a penalty.
    Signs are fitted in the training part of each fold, so the gain is held out like any other.

    Args:
        names: of the free nodes.
        held_out: (splits, n) decisions with the present signs, from the same seed.

    Returns:
        None where no sign is surely reversed, or free signs do not agree better held out.
    """
    if not plan.fit_weights or plan.free_signs:
        return None
    free, rng = replace(plan, free_signs=True), np.random.default_rng(seed)
    fitted = rule_fitting.fit_rules(sample, free, sample.weight[None, :], rng).weights[0]
    reversed_ = fitted * np.sign(sample.units) < 0.0
    if not reversed_.any():
        return None
    accept = cross_validate(sample, free, np.random.default_rng(seed)).accept
    found = compare_decisions(
        plan.objective, held_out, accept, sample.accept, sample.weight, sample.group
    )
    if found.change.value <= 0.0:
        return None
    refits = refit_bootstrap(sample, free, rng, count_resamples(sample, _REFITS)).weights
    stable = (refits * np.sign(sample.units) < 0.0).mean(axis=0) >= STABLE_SHARE
    advised = tuple(n for n, yes in zip(names, reversed_ & stable, strict=True) if yes)
    if not advised:
        return None
    return PenaltyAdvice(advised, found, found.change.low > 0.0)
