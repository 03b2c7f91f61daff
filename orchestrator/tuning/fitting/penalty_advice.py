"""Criteria that act against the labels: whether they would help as penalties, proven held out.

A criterion with a positive weight whose scores, given the other criteria, speak against acceptance
gets a weight of 0 when signs are kept. Fitted with free signs it becomes a penalty. Signs are
fitted in the training part of each fold, so the gain is held out like any other.
"""

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.tuning.fitting.cross_validation import (
    count_resamples,
    cross_validate,
    refit_bootstrap,
)
from orchestrator.tuning.fitting.ordinal_regression import Bools
from orchestrator.tuning.fitting.rule_fitting import FitPlan, Sample, fit_rules
from orchestrator.tuning.statistics.confidence_intervals import PairedComparison, compare_decisions

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
    """Compare fits with the present signs and with free signs on held-out groups.

    Args:
        names: of the free nodes.
        held_out: (splits, n) decisions with the present signs, from the same seed.

    Returns:
        None where no sign is surely reversed, or free signs do not agree better held out.
    """
    if not plan.fit_weights or plan.free_signs:
        return None
    free, rng = replace(plan, free_signs=True), np.random.default_rng(seed)
    fitted = fit_rules(sample, free, sample.weight[None, :], rng).weights[0]
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
