"""Whether a gain generalizes: to each rater, to later items, to other sites; and raters by chance.

Every check rests on an interval: a gain is refused only where the new rule is significantly worse.
A check that could not be made says why.
"""

from itertools import combinations
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.random import Generator

from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats, Ints
from orchestrator.tuning.fitting.rule_fitting import FitPlan, Sample, fit_rules
from orchestrator.tuning.rubric_decisions import Objective
from orchestrator.tuning.statistics import agreement
from orchestrator.tuning.statistics.confidence_intervals import (
    Interval,
    PairedComparison,
    compare_decisions,
    expected_disagreement,
    jackknife_interval,
    jackknife_variance,
    scaled_interval,
    t_interval,
    t_quantile,
)
from orchestrator.tuning.training_data import TrainingData

MIN_TRAIN_ITEMS, MIN_TEST_ITEMS, MIN_MINORITY_ITEMS = 60, 30, 8
EARLY_FRACTION = 0.6
MAX_SITES = 12
"""Sites, the largest first, that are listed one by one; all are checked together."""
MIN_RATER_LABELS, MIN_RATER_CLASS = 20, 4
"""Labels, and labels of the rarer kind, from which a rater can be named."""
MAX_MISTAKEN = 0.035
"""Level of the test of all raters. Each is looked at in two ways, so that in simulations one of
equally good raters is named in up to 5% of label sets."""

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
        kappa_gap: that minus the agreement of the others among themselves.
        at_chance: ``auc_gap`` or ``kappa_gap`` is below 0, corrected for the number of raters, and
            the interval of ``auc`` includes .5, or that of ``kappa`` includes 0.
    """

    name: str
    labels: int
    auc: Interval | None
    auc_gap: Interval | None
    kappa: Interval | None
    kappa_gap: Interval | None
    at_chance: bool


def check_generalization(
    data: TrainingData, plan: FitPlan, threshold: float, held_out_accept: Bools, rng: Generator
) -> tuple[GeneralizationCheck, ...]:
    """Check the gain on each rater's labels, on the later items, and on each site.

    On each rater's own labels, the held-out decisions are compared as they are; further, a rule is
    fitted on the other raters and on other groups (leave-one-rater-out), on the earlier groups (by
    the time of their first items, or else in the order of the files), and on the other sites
    (leave-one-site-out).

    Args:
        held_out_accept: (splits, n) held-out decisions of the new rule.
    """
    s = data.sample
    part = _Parts(s, plan, data.totals >= threshold, rng)
    early = s.group < np.unique(s.group).size * EARLY_FRACTION
    later = part.check_fitted("later items, fitted on the earlier ones", early, ~early)
    return *_check_raters(data, part, held_out_accept), later, *_check_sites(data, part)


class _Parts(Struct, frozen=True):
    """Compares the present rule with new ones on parts of the labels."""

    sample: Sample
    plan: FitPlan
    before: Bools
    rng: Generator

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
        out.append(part.check_fitted(f"rater {name!r}, fitted on groups of others", others, own))
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
        return f"{mass:.3g} of the {least:g} needed items"
    if min(positive, mass - positive) < MIN_MINORITY_ITEMS:
        side = "accepted" if positive < mass - positive else "rejected"
        few = min(positive, mass - positive)
        return f"{few:.3g} of the {MIN_MINORITY_ITEMS} needed {side} items"
    return ""


def measure_raters(data: TrainingData, score: Floats) -> tuple[RaterStatistics, ...]:
    """Each rater's labels against a score of the items and against the other raters.

    Args:
        score: (n,) held-out probabilities or totals of the sample's rows.
    """
    if len(data.raters) < 2:
        return ()
    by_people = _agree_with_others(data)
    found = [_measure_rater(data, score, k, by_people[k]) for k in range(len(data.raters))]
    tests = sorted(
        (
            (_sigmas_at_chance(one, groups), groups, place)
            for place, (one, groups) in enumerate(found)
        ),
        reverse=True,
    )
    named = set()
    for done, (sigmas, groups, place) in enumerate(tests):
        # Holm: one-sided, for all raters together.
        level = 1.0 - 2.0 * MAX_MISTAKEN / (len(tests) - done)
        if sigmas <= 0.0 or sigmas <= t_quantile(groups - 1, level):
            break
        named.add(place)
    return tuple(replace(one, at_chance=place in named) for place, (one, _) in enumerate(found))


def _sigmas_at_chance(one: RaterStatistics, groups: int) -> float:
    """By how many standard errors a rater who may be at chance is worse than the others."""
    found = [0.0]
    for value, chance, gap in ((one.auc, 0.5, one.auc_gap), (one.kappa, 0.0, one.kappa_gap)):
        if value is not None and gap is not None and value.low <= chance <= value.high:
            error = (gap.high - gap.low) / 2.0 / t_quantile(groups - 1)
            found += [-gap.value / error] if error > 0 else []
    return max(found)


def _measure_rater(
    data: TrainingData, score: Floats, k: int, by_people: tuple[Interval | None, Interval | None]
) -> tuple[RaterStatistics, int]:
    """A rater's statistics, not yet named, and the number of groups that the rater labeled."""
    s, own = data.sample, data.rater == k
    y: Bools = s.accept
    labels, accepted = int(own.sum()), int(y[own].sum())
    groups = int(np.unique(s.group[own]).size)
    found = RaterStatistics(data.raters[k], labels, None, None, None, None, at_chance=False)
    if (
        labels < MIN_RATER_LABELS
        or min(accepted, labels - accepted) < MIN_RATER_CLASS
        or groups < 3
    ):
        return found, groups
    others, one = ~own, np.ones(y.size)
    of_own, of_others = (
        agreement.roc_auc_by_weight(score[rows], y[rows]) for rows in (own, others)
    )
    auc = jackknife_interval(of_own, one[own], s.group[own])

    def differ(w: Floats) -> float | None:
        a, b = of_own(w[own]), of_others(w[others])
        return None if a is None or b is None else a - b

    gap = jackknife_interval(differ, one, s.group, None)
    kappa, kappa_gap = by_people
    return replace(found, auc=auc, auc_gap=gap, kappa=kappa, kappa_gap=kappa_gap), groups


def _agree_with_others(data: TrainingData) -> list[tuple[Interval | None, Interval | None]]:
    """Each rater's kappa with the others, and that minus their kappa among themselves."""
    accept = np.where(np.isnan(data.ratings), -1, data.ratings >= data.scale.cut).astype(np.int64)
    group = np.zeros(len(data.items), dtype=np.int64)
    group[data.sample.item] = data.sample.group
    pairs = list(combinations(range(len(data.raters)), 2))
    found = [_kappa_without_groups(accept[i], accept[j], group) for i, j in pairs]
    kappas, shared = (np.array(part) for part in zip(*found, strict=True))

    def mean(rows: list[int]) -> Floats:
        mass = shared[rows].sum(axis=0)
        out: Floats = (kappas[rows] * shared[rows]).sum(axis=0) / np.where(mass > 0, mass, np.nan)
        return out

    out: list[tuple[Interval | None, Interval | None]] = []
    for k in range(len(data.raters)):
        own = [n for n, pair in enumerate(pairs) if k in pair]
        rated = (accept[k] >= 0) & ((accept >= 0).sum(axis=0) >= 2)
        groups = int(np.unique(group[rated]).size)
        values, gaps = mean(own), mean(own) - mean([n for n, p in enumerate(pairs) if k not in p])
        if int(rated.sum()) < MIN_RATER_LABELS or groups < 3 or np.isnan(values).any():
            out.append((None, None))
            continue
        given = np.where(accept[:, rated] < 0, np.nan, accept[:, rated])
        width = 1.0 / expected_disagreement(given, 2)
        variance = jackknife_variance(values[1:])
        kappa = scaled_interval(float(values[0]), variance, groups, width=width)
        spread = jackknife_variance(gaps[1:])
        gap = None if np.isnan(gaps).any() else t_interval(float(gaps[0]), spread, groups)
        out.append((kappa, gap))
    return out


def _kappa_without_groups(a: Ints, b: Ints, group: Ints) -> tuple[Floats, Floats]:
    """Kappa of two raters and the items that they share: of all, then without each group.

    Args:
        a, b: (items,) 1 for accept, 0 for reject, -1 for no label.
    """
    both = (a >= 0) & (b >= 0)
    names = int(group.max()) + 1
    cell = np.bincount((2 * a + b)[both] * names + group[both], minlength=4 * names)
    counts = cell.reshape(4, names).astype(float)
    total = counts.sum(axis=1, keepdims=True)
    tn, fp, fn, tp = np.concatenate([total, total - counts], axis=1)
    items = tn + fp + fn + tp
    one_class = (tn == items) | (tp == items)  # kappa is undefined, and does not count
    return Objective().score_counts(tp, fp, fn, tn), np.where(one_class, 0.0, items)
