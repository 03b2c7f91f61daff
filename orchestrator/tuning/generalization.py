"""Does a gain carry over: to people who did not give the labels, and to work that came later?"""

import numpy as np

from orchestrator.tuning.confidence_intervals import Compared, compare, number
from orchestrator.tuning.decision_rule import totals
from orchestrator.tuning.penalty_selection import Plan, Sample, tune_many
from orchestrator.tuning.training_data import Labeled
from orchestrator.tuning.weight_fitting import Bools

LEAST_TRAIN, LEAST_TEST, LEAST_RARER = 60, 30, 8
EARLY = 0.6


def does_not_carry(
    data: Labeled, plan: Plan, threshold: float, out_of_fold: Bools, rng: np.random.Generator
) -> list[str]:
    """Where the gain does not carry over, in sentences.

    Three looks. Each rater's own labels, out of fold: the new rule may not be surely worse for
    one of them. Each rater, with the rule fitted on the others and on other groups: the gain may
    not be gone. The later part of the labels (in the order of their files), with the rule fitted
    on the earlier: the same.

    Args:
        threshold: the old rubric's.
        out_of_fold: (splits, n) decisions of the new rule.
    """
    s = data.sample
    was: Bools = totals(s.x, s.w0[None, :], s.blocked)[0] >= threshold
    out = []
    for k, name in enumerate(data.raters if len(data.raters) > 1 else ()):
        mine = data.rater == k
        others = ~mine & ~np.isin(s.group, s.group[mine])
        found = _compare(s, plan, was, out_of_fold, mine)
        if found is not None and found.delta.high < 0.0:
            out.append(_says(found, f"for rater {name!r} the tuned rubric is worse", plan))
            continue
        found = _fitted(s, plan, was, others, mine, rng)
        if found is not None and found.delta.value <= 0.0:
            out.append(_says(found, f"fitted on the others, it does not help rater {name!r}", plan))
    order = np.unique(s.group).size * EARLY
    early = s.group < order
    found = _fitted(s, plan, was, early, ~early, rng)
    if found is not None and found.delta.value <= 0.0:
        out.append(
            _says(found, "fitted on the earlier items, it does not help the later ones", plan)
        )
    return out


def _says(found: Compared, what: str, plan: Plan) -> str:
    sign = -1 if plan.aim.by_cost else 1
    unit = "cost" if plan.aim.by_cost else "kappa"
    before, after = number(sign * found.before.value), number(sign * found.after.value)
    return f"the gain does not carry over: {what} ({unit} {before} before, {after} after)"


def _fitted(
    s: Sample, plan: Plan, was: Bools, train: Bools, test: Bools, rng: np.random.Generator
) -> Compared | None:
    """Compare a rule fitted on some rows with the old one on others; None where either is small."""
    if not _enough(s, train, LEAST_TRAIN):
        return None
    rules = tune_many(s, plan, (s.weight * train)[None, :], rng)
    return _compare(s, plan, was, rules.accepts(s), test)


def _compare(s: Sample, plan: Plan, was: Bools, now: Bools, rows: Bools) -> Compared | None:
    if not _enough(s, rows, LEAST_TEST):
        return None
    return compare(plan.aim, was[rows], now[:, rows], s.accept[rows], s.weight[rows], s.group[rows])


def _enough(s: Sample, rows: Bools, least: float) -> bool:
    yes = float(s.weight[rows & s.accept].sum())
    mass = float(s.weight[rows].sum())
    return mass >= least and min(yes, mass - yes) >= LEAST_RARER
