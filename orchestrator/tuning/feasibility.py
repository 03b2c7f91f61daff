"""Before anything is fitted: can these labels carry a change at all?"""

from itertools import combinations

import numpy as np
from msgspec import Struct

from orchestrator.tuning import agreement, decision_rule
from orchestrator.tuning.confidence_intervals import Interval, number, of_statistic
from orchestrator.tuning.penalty_selection import MIN_ITEMS, MIN_RARER, Sample
from orchestrator.tuning.training_data import Labeled
from orchestrator.tuning.weight_fitting import Bools, Floats

LEAST_ALPHA = 0.4
"""Krippendorff's alpha on accept or reject below which people do not agree enough."""
ENOUGH_TWICE = 20
_HOPELESS = 0.6
_FEW_TWICE = 5
_RATER_LABELS = 15


class Human(Struct, frozen=True):
    """Rater against rater: the ceiling for any judge. Each is None where it cannot be known.

    Attributes:
        twice: items with two raters or more.
        kappa, alpha, ac1: of accept or reject; kappa is the mean over pairs of raters.
        weighted: quadratically weighted kappa on the full scale.
        ordinal: Krippendorff's alpha on the full scale.
    """

    twice: int
    kappa: Interval | None
    alpha: Interval | None
    ac1: Interval | None
    weighted: Interval | None
    ordinal: Interval | None


class Advice(Struct, frozen=True):
    """What the labels allow.

    Attributes:
        refusals: why nothing may be fitted; empty when something may.
        notes: what a person should know all the same.
    """

    items: int
    labels: int
    groups: int
    raters: int
    accepted: float
    human: Human
    refusals: tuple[str, ...]
    notes: tuple[str, ...]


def human_agreement(data: Labeled) -> Human:
    """Agreement of raters on the items that several of them labeled."""
    ratings, cut = data.ratings, data.scale.cut
    twice = (~np.isnan(ratings)).sum(axis=0) >= 2
    binary = np.where(np.isnan(ratings), np.nan, ratings >= cut)
    at = np.zeros(len(data.items), dtype=np.int64)
    at[data.sample.item] = data.sample.group
    group, both, full = at[twice], binary[:, twice], ratings[:, twice]
    one = np.ones(int(twice.sum()))
    levels = len(data.scale.values)
    if not twice.any():
        return Human(0, None, None, None, None, None)
    return Human(
        twice=int(twice.sum()),
        kappa=of_statistic(lambda w: _pairs(both[:, w > 0], 2, "nominal"), one, group),
        alpha=of_statistic(
            lambda w: agreement.krippendorff_alpha(both[:, w > 0], "nominal"), one, group
        ),
        ac1=of_statistic(lambda w: agreement.gwet_ac1(both[:, w > 0], 2), one, group),
        weighted=of_statistic(lambda w: _pairs(full[:, w > 0], levels, "quadratic"), one, group),
        ordinal=of_statistic(
            lambda w: agreement.krippendorff_alpha(full[:, w > 0], "ordinal"), one, group
        ),
    )


def _pairs(ratings: Floats, levels: int, scheme: agreement.Scheme) -> float | None:
    """Mean kappa over pairs of raters, weighted by the items they share."""
    total, mass = 0.0, 0.0
    for a, b in combinations(ratings, 2):
        both = ~np.isnan(a) & ~np.isnan(b)
        if not both.any():
            continue
        table = agreement.confusion(a[both].astype(int), b[both].astype(int), levels)
        value = agreement.cohen_kappa(table, scheme)
        if value is not None:
            total += value * both.sum()
            mass += both.sum()
    return total / mass if mass else None


def advise(data: Labeled) -> Advice:
    """Judge the labels, not the rubric."""
    s, human = data.sample, human_agreement(data)
    refusals = [*_disagree(human), *_opposed(data)]
    return Advice(
        items=len(data.items),
        labels=int(s.y.size),
        groups=int(np.unique(s.group).size),
        raters=len(data.raters),
        accepted=float(s.weight[s.accept].sum()),
        human=human,
        refusals=tuple(refusals),
        notes=tuple(_notes(data, human)),
    )


def _disagree(human: Human) -> list[str]:
    alpha = human.alpha
    if alpha is None or human.twice < _FEW_TWICE:
        return []
    certain = human.twice >= ENOUGH_TWICE or alpha.high < _HOPELESS
    if alpha.value >= LEAST_ALPHA or not certain:
        return []
    return [
        (
            f"the raters disagree with each other: Krippendorff's alpha is {alpha.shown()} on the "
            f"{human.twice} items labeled twice, and {number(LEAST_ALPHA)} is the least to go by; "
            "agree on what accept means and label again"
        )
    ]


def _opposed(data: Labeled) -> list[str]:
    """Raters whose labels run against each other, even where they share no item."""
    s = data.sample
    t = decision_rule.totals(s.x, s.w0[None, :], s.blocked)[0]
    up: list[tuple[str, Interval]] = []
    down: list[tuple[str, Interval]] = []
    for k, name in enumerate(data.raters):
        mine = data.rater == k
        found = _rater_auc(s, t, mine) if int(mine.sum()) >= _RATER_LABELS else None
        if found is not None and found.low > 0.5:
            up.append((name, found))
        if found is not None and found.high < 0.5:
            down.append((name, found))
    if not (up and down):
        return []
    (a, with_), (b, against) = up[0], down[0]
    return [
        (
            f"the raters contradict each other: the present total orders {a!r}'s labels with an "
            f"AUC of {with_.shown()}, and {b!r}'s the other way round, {against.shown()}"
        )
    ]


def _rater_auc(s: Sample, t: Floats, mine: Bools) -> Interval | None:
    y: Bools = s.accept[mine]
    return of_statistic(lambda w: agreement.auc(t[mine], y, w), s.weight[mine], s.group[mine])


def _notes(data: Labeled, human: Human) -> list[str]:
    s, notes = data.sample, []
    if human.twice == 0:
        notes.append(
            "nobody labeled an item that somebody else labeled, so how far people agree is not "
            f"known; let two people label the same {ENOUGH_TWICE} items or more"
        )
    elif human.twice < ENOUGH_TWICE:
        notes.append(
            f"only {human.twice} items were labeled twice; how far people agree is hardly known "
            f"(alpha {human.alpha.shown() if human.alpha else 'n/a'})"
        )
    if s.items < MIN_ITEMS or s.rarer < MIN_RARER:
        notes.append(
            f"{s.items:g} items, {s.rarer:g} of the rarer class: below {MIN_ITEMS} and {MIN_RARER} "
            "only the threshold is fitted, and the weights stay"
        )
    left_out = np.isnan(s.x).mean(axis=0)
    notes += [
        f"{name!r} is not scored on {share:.0%} of the labeled items"
        for name, share in zip(data.free, left_out, strict=True)
        if share > 0.2
    ]
    # In simulations the standard error of a gain in kappa is about .6 over the root of n.
    least = number(1.96 * 0.6 / np.sqrt(s.items))
    notes.append(f"with {s.items:g} items a gain in kappa below about {least} drowns in noise")
    return notes
