"""Nested, grouped cross-validation of the procedure, its learning curve, and its refits."""

import numpy as np
from msgspec import Struct

from orchestrator.tuning import decision_rule
from orchestrator.tuning.calibration import calibrate
from orchestrator.tuning.penalty_selection import Plan, Rules, Sample, group_folds, tune_many
from orchestrator.tuning.weight_fitting import Bools, Floats, Ints

FOLDS, REPEATS = 5, 5
REFITS = 1_000
CURVE = (0.25, 0.4, 0.6, 0.8)
_CURVE_SPLITS = 20


class OutOfFold(Struct, frozen=True):
    """What rules say of items whose group they never saw.

    Attributes:
        accept: (repeats, n) decisions.
        p: (n,) calibrated probability of accept, of the first repeat.
        rules: (repeats*folds) rules behind them.
    """

    accept: Bools
    p: Floats
    rules: Rules


def cross_validate(
    sample: Sample, plan: Plan, rng: np.random.Generator, folds: int = FOLDS, repeats: int = REPEATS
) -> OutOfFold:
    """Run the whole procedure, its own choice of penalty included, on each training part."""
    split = np.stack([group_folds(sample.group, folds, rng) for _ in range(repeats)])
    held = (split[:, None, :] == np.arange(folds)[None, :, None]).reshape(-1, sample.y.size)
    rules = tune_many(sample, plan, sample.weight * ~held, rng)
    said = rules.accepts(sample) & held
    accept = said.reshape(repeats, folds, -1).any(axis=1)
    return OutOfFold(accept, _probabilities(sample, plan, rules, held[:folds]), rules)


def _probabilities(sample: Sample, plan: Plan, rules: Rules, held: Bools) -> Floats:
    """(n,) each fold's totals through a calibration fitted on its own training part."""
    t = decision_rule.totals(sample.x, rules.w[: held.shape[0]], sample.blocked)
    out = np.zeros(sample.y.size)
    for total, test in zip(t, held, strict=True):
        train = ~test
        fitted = calibrate(total[train], sample.accept[train], sample.weight[train], plan.isotonic)
        out[test] = fitted.probability(total[test])
    return out


def resamples(group: Ints, weight: Floats, times: int, rng: np.random.Generator) -> Floats:
    """(times, n) bootstrap weights: whole groups drawn with replacement."""
    names, at = np.unique(group, return_inverse=True)
    counts = rng.multinomial(names.size, np.full(names.size, 1.0 / names.size), times)
    out: Floats = counts[:, at] * weight
    return out


def refit(sample: Sample, plan: Plan, rng: np.random.Generator, times: int = REFITS) -> Rules:
    """Run the whole procedure on bootstrap samples of groups."""
    weights = resamples(sample.group, sample.weight, times, rng)
    y = sample.accept
    # A resample of one class teaches nothing; the sample itself stands in for it.
    bad = ((weights * y).sum(axis=1) <= 0) | ((weights * ~y).sum(axis=1) <= 0)
    weights[bad] = sample.weight
    return tune_many(sample, plan, weights, rng)


class Point(Struct, frozen=True):
    """One point of a learning curve.

    Attributes:
        labels: mean number of labeled items trained on.
        value: mean held-out value of the aim.
        low: the worst 5% of splits begin below this.
    """

    labels: int
    value: float
    low: float


def learning_curve(sample: Sample, plan: Plan, rng: np.random.Generator) -> list[Point]:
    """Held-out value by number of labels; a fifth of the groups is held out of every split."""
    names, at = np.unique(sample.group, return_inverse=True)
    y = sample.accept
    weights, held, share = [], [], []
    for _ in range(_CURVE_SPLITS):
        order = rng.permutation(names.size)
        test = np.isin(at, order[: max(1, names.size // 5)])
        for part in CURVE:
            use = np.isin(at, order[names.size - max(2, round(part * names.size)) :])
            weights.append(sample.weight * use)
            held.append(sample.weight * test)
            share.append(part)
    w, h = np.stack(weights), np.stack(held)
    both = ((w * y).sum(axis=1) > 0) & ((w * ~y).sum(axis=1) > 0)
    rules = tune_many(sample, plan, w[both], rng)
    value = plan.aim.of(rules.accepts(sample), y, h[both])
    used, shares = w[both].sum(axis=1), np.array(share)[both]
    return [
        Point(
            round(float(used[shares == part].mean())),
            float(value[shares == part].mean()),
            float(np.quantile(value[shares == part], 0.05)),
        )
        for part in CURVE
        if (shares == part).any()
    ]


def expected_at(curve: list[Point], labels: int) -> float | None:
    """The curve, read off or carried on to another number of labels, as ``a - b / labels``.

    Returns:
        None when there are too few points or they do not rise.
    """
    if len(curve) < 3:
        return None
    inverse = np.array([1.0 / p.labels for p in curve])
    value = np.array([p.value for p in curve])
    slope, ceiling = np.polyfit(inverse, value, 1)
    return float(ceiling + slope / labels) if slope < 0 else None
