"""Whether a gain generalizes: to each rater, to later items, to other sites; and raters by chance.

Every check rests on an interval: a gain is refused only where the new rule is significantly worse.
A check that could not be made says why.
"""

from typing import Literal

import numpy as np
from msgspec import Struct

from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats, Ints
from orchestrator.tuning.fitting.rule_fitting import FitPlan, Sample, fit_rules
from orchestrator.tuning.statistics import agreement
from orchestrator.tuning.statistics.confidence_intervals import (
    Interval,
    PairedComparison,
    compare_decisions,
    jackknife_interval,
)
from orchestrator.tuning.training_data import TrainingData

MIN_TRAIN_ITEMS, MIN_TEST_ITEMS, MIN_MINORITY_ITEMS = 60, 30, 8
EARLY_FRACTION = 0.6
MAX_SITES = 12
"""Sites, the largest first, that are listed one by one; all are checked together."""
_MIN_RATER_LABELS = 15

Outcome = Literal["holds", "open", "fails", "not made"]


class GeneralizationCheck(Struct, frozen=True):
    """One check of the gain on a part of the labels.

    Attributes:
        name: the part, and what the rule was fitted on.
        outcome: ``holds``: the gain is significant there; ``fails``: the new rule is significantly
            worse; ``open``: neither; ``not made``: see ``reason``.
        comparison: present and new rule on that part; None where the check was not made.
        reason: why it was not made; else empty.
    """

    name: str
    outcome: Outcome
    comparison: PairedComparison | None = None
    reason: str = ""


class RaterStatistics(Struct, frozen=True):
    """How one rater's labels relate to the scores and to the other raters' labels.

    Attributes:
        auc: how well the held-out probability of acceptance (the present total, where nothing was
            fitted) ranks the items that this rater accepts above the others; .5 is chance.
        auc_gap: that minus the same of all other raters' labels.
        kappa: agreement with the other raters on the items that they share.
        at_chance: the interval of ``auc`` includes .5 and that of ``auc_gap`` lies below 0, or that
            of ``kappa`` includes 0 while the others agree among themselves.
    """

    name: str
    labels: int
    auc: Interval | None
    auc_gap: Interval | None
    kappa: Interval | None
    at_chance: bool


def check_generalization(
    data: TrainingData,
    plan: FitPlan,
    threshold: float,
    held_out_accept: Bools,
    rng: np.random.Generator,
) -> tuple[GeneralizationCheck, ...]:
    """Check the gain on each rater's labels, on the later items, and on each site.

    On each rater's own labels, the held-out decisions are compared as they are; further, a rule is
    fitted on the other raters and on other groups (leave-one-rater-out), on the earlier items (in
    the order of their files), and on the other sites (leave-one-site-out).

    Args:
        held_out_accept: (splits, n) held-out decisions of the new rule.
    """
    s = data.sample
    before: Bools = s.totals(s.w0[None, :])[0] >= threshold
    part = _Parts(s, plan, before, rng)
    early = s.group < np.unique(s.group).size * EARLY_FRACTION
    later = part.check_fitted("later items, fitted on the earlier ones", early, ~early)
    return *_check_raters(data, part, held_out_accept), later, *_check_sites(data, part)


class _Parts(Struct, frozen=True):
    """Compares the present rule with new ones on parts of the labels."""

    sample: Sample
    plan: FitPlan
    before: Bools
    rng: np.random.Generator

    def fit(self, train: Bools) -> Bools:
        """(r, n) decisions of rules, each fitted on some of the rows, (r, n)."""
        weights = self.sample.weight * train
        return fit_rules(self.sample, self.plan, weights, self.rng).decide(self.sample)

    def check_fitted(self, name: str, train: Bools, test: Bools) -> GeneralizationCheck:
        """Compare a rule fitted on some rows with the present one on others."""
        shortage = _find_shortage(self.sample, train, MIN_TRAIN_ITEMS)
        if shortage:
            return GeneralizationCheck(name, "not made", reason=f"to fit, {shortage}")
        if _find_shortage(self.sample, test, MIN_TEST_ITEMS):
            return self.check(name, self.before[None, :], test)
        return self.check(name, self.fit(train[None, :]), test)

    def check(self, name: str, after: Bools, rows: Bools) -> GeneralizationCheck:
        """Compare (splits, n) decisions with those of the present rule on some rows."""
        s = self.sample
        shortage = _find_shortage(s, rows, MIN_TEST_ITEMS)
        if shortage:
            return GeneralizationCheck(name, "not made", reason=f"to check, {shortage}")
        found = compare_decisions(
            self.plan.objective,
            self.before[rows],
            after[:, rows],
            s.accept[rows],
            s.weight[rows],
            s.group[rows],
        )
        outcome: Outcome = "open"
        if found.change.high < 0.0:
            outcome = "fails"
        elif found.change.low > 0.0:
            outcome = "holds"
        return GeneralizationCheck(name, outcome, found)


def _check_raters(data: TrainingData, part: _Parts, held_out: Bools) -> list[GeneralizationCheck]:
    s = data.sample
    if len(data.raters) < 2:
        return [GeneralizationCheck("other raters", "not made", reason="there is one rater")]
    out = []
    for k, name in enumerate(data.raters):
        own = data.rater == k
        others = ~own & ~np.isin(s.group, s.group[own])
        out.append(part.check(f"rater {name!r}", held_out, own))
        out.append(part.check_fitted(f"rater {name!r}, fitted on the others", others, own))
    return out


def _check_sites(data: TrainingData, part: _Parts) -> list[GeneralizationCheck]:
    """Check the gain on all sites together, each by a rule fitted on the others, and on each."""
    s = data.sample
    sites = np.array([i.site for i in data.items])[s.item]
    names, counts = np.unique(sites[sites != ""], return_counts=True)
    if names.size < 2:
        reason = "no item names its site" if names.size == 0 else "all items are of one site"
        return [GeneralizationCheck("other sites", "not made", reason=reason)]
    order = names[np.argsort(-counts, kind="stable")]
    own = sites[None, :] == order[:, None]
    train = np.stack([(sites != "") & ~rows & ~np.isin(s.group, s.group[rows]) for rows in own])
    shortages = [_find_shortage(s, rows, MIN_TRAIN_ITEMS) for rows in train]
    usable = np.array([not shortage for shortage in shortages])
    accept = np.zeros(s.y.size, dtype=bool)
    if usable.any():
        accept = (part.fit(train[usable]) & own[usable]).any(axis=0)
    single = []
    for site, rows, shortage in zip(order[:MAX_SITES], own, shortages, strict=False):
        name = f"site {str(site)!r}, fitted on the others"
        if shortage:
            single.append(GeneralizationCheck(name, "not made", reason=f"to fit, {shortage}"))
        else:
            single.append(part.check(name, accept[None, :], rows))
    together = own[usable].any(axis=0)
    name = f"all {int(usable.sum())} sites, each fitted on the others"
    return [part.check(name, accept[None, :], together), *single]


def _find_shortage(s: Sample, rows: Bools, least: float) -> str:
    """What is missing for a check on some rows; empty where they suffice."""
    mass = float(s.weight[rows].sum())
    positive = float(s.weight[rows & s.accept].sum())
    if mass < least:
        return f"{mass:.3g} of the {least:g} items that it takes"
    if min(positive, mass - positive) < MIN_MINORITY_ITEMS:
        side = "accepted" if positive < mass - positive else "rejected"
        few = min(positive, mass - positive)
        return f"{few:.3g} of the {MIN_MINORITY_ITEMS} {side} items that it takes"
    return ""


def measure_raters(data: TrainingData, score: Floats) -> tuple[RaterStatistics, ...]:
    """Each rater's labels against a score of the items and against the other raters.

    Args:
        score: (n,) held-out probabilities or totals of the sample's rows.
    """
    if len(data.raters) < 2:
        return ()
    found = [_measure_rater(data, score, k) for k in range(len(data.raters))]
    return tuple(found)


def _measure_rater(data: TrainingData, score: Floats, k: int) -> RaterStatistics:
    s, name = data.sample, data.raters[k]
    own = data.rater == k
    y: Bools = s.accept

    def auc(rows: Bools, weight: Floats) -> float | None:
        return agreement.roc_auc(score[rows], y[rows], weight[rows])

    def gap(weight: Floats) -> float | None:
        a, b = auc(own, weight), auc(~own, weight)
        return None if a is None or b is None else a - b

    ones = np.ones(y.size)
    enough = int(own.sum()) >= _MIN_RATER_LABELS
    own_auc = (
        jackknife_interval(agreement.roc_auc_by_weight(score[own], y[own]), ones[own], s.group[own])
        if enough
        else None
    )
    auc_gap = jackknife_interval(gap, ones, s.group) if enough else None
    kappa, others = _agreement_with_others(data, k)
    by_score = (
        own_auc is not None
        and auc_gap is not None
        and own_auc.low <= 0.5 <= own_auc.high
        and auc_gap.high < 0.0
    )
    by_people = (
        kappa is not None and kappa.low <= 0.0 <= kappa.high and others is not None
    ) and others.low > kappa.value
    return RaterStatistics(name, int(own.sum()), own_auc, auc_gap, kappa, by_score or by_people)


def _agreement_with_others(data: TrainingData, k: int) -> tuple[Interval | None, Interval | None]:
    """Kappa of a rater with the others, and of the others among themselves, on shared items."""
    accept = np.where(np.isnan(data.ratings), np.nan, data.ratings >= data.scale.cut)
    group = np.zeros(len(data.items), dtype=np.int64)
    group[data.sample.item] = data.sample.group
    others = [j for j in range(len(data.raters)) if j != k]
    pairs_of_rater = [(k, j) for j in others]
    pairs_of_others = [(i, j) for i in others for j in others if i < j]
    return (
        _pairwise_kappa(accept, group, pairs_of_rater),
        _pairwise_kappa(accept, group, pairs_of_others),
    )


def _pairwise_kappa(accept: Floats, group: Ints, pairs: list[tuple[int, int]]) -> Interval | None:
    """Mean kappa of pairs of raters; None where they share too few items."""
    shared = np.zeros(accept.shape[1], dtype=bool)
    for i, j in pairs:
        shared |= ~np.isnan(accept[i]) & ~np.isnan(accept[j])
    if int(shared.sum()) < _MIN_RATER_LABELS:
        return None
    given = accept[:, shared]
    return jackknife_interval(
        lambda w: agreement.mean_pairwise_kappa(given[:, w > 0], 2, pairs=pairs),
        np.ones(given.shape[1]),
        group[shared],
    )
