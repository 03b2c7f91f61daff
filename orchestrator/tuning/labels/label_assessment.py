"""Assess labels: agreement of raters, also while they label, sample size, missing scores."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from orchestrator.data_directories import read_table
from orchestrator.tuning.file_formats.item_files import describe_run_groups
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats
from orchestrator.tuning.fitting.rule_fitting import MIN_ITEMS, MIN_MINORITY
from orchestrator.tuning.labels.label_files import Label, infer_scale
from orchestrator.tuning.statistics import agreement
from orchestrator.tuning.statistics.confidence_intervals import (
    Interval,
    expected_disagreement,
    format_statistic,
    jackknife_interval,
    measure_kappa,
    number_groups,
)
from orchestrator.tuning.training_data import TrainingData

_SENTENCES: Mapping[str, str] = read_table(__file__, "sentences.yaml")
MIN_ALPHA = 0.4
"""Raters do not agree enough to tune on when the 95% interval of Krippendorff's alpha, on accept or
reject, is below this."""
MIN_SHARED_ITEMS = 20
"""Items with two or more raters from which inter-rater agreement is estimated well enough."""
_MIN_ALPHA_ITEMS = 5
_MIN_RATER_LABELS = 15


class InterRaterAgreement(Struct, frozen=True):
    """Agreement between raters, the ceiling for any judge; a statistic is None where undefined.

    Attributes:
        kappa, alpha, ac1: of accept or reject; kappa is the mean over pairs of raters.
        weighted_kappa: quadratically weighted kappa on the full scale.
        ordinal_alpha: Krippendorff's alpha on the full scale.
        adjudicated: items on which a third rater's label decides; it is in no statistic.
    """

    shared_items: int
    kappa: Interval | None
    alpha: Interval | None
    ac1: Interval | None
    weighted_kappa: Interval | None
    ordinal_alpha: Interval | None
    adjudicated: int = 0


class LabelAssessment(Struct, frozen=True):
    """Whether a set of labels can be tuned on.

    Attributes:
        refusals: why nothing may be fitted; empty when something may.
        notes: limitations that a person should know.
    """

    items: int
    labels: int
    groups: int
    raters: int
    accepted: float
    inter_rater: InterRaterAgreement
    refusals: tuple[str, ...]
    notes: tuple[str, ...]


def measure_inter_rater_agreement(data: TrainingData) -> InterRaterAgreement:
    """Agreement of raters on the items that several of them labeled."""
    ratings, cut = data.ratings, data.scale.cut
    shared = (~np.isnan(ratings)).sum(axis=0) >= 2
    binary = np.where(np.isnan(ratings), np.nan, ratings >= cut)
    at = np.zeros(len(data.items), dtype=np.int64)
    at[data.sample.item] = data.sample.group
    group, accept, full = at[shared], binary[:, shared], ratings[:, shared]
    levels, one = len(data.scale.values), np.ones(int(shared.sum()))
    if not shared.any():
        return InterRaterAgreement(0, None, None, None, None, None)
    chance, of_levels = expected_disagreement(accept, 2), expected_disagreement(full, levels)

    def measure(
        statistic: Callable[[Bools], float | None],
        chance: float | None = None,
        ratings: Floats | None = None,
    ) -> Interval | None:
        return jackknife_interval(lambda w: statistic(w > 0), one, group, chance, ratings)

    return InterRaterAgreement(
        int(shared.sum()),
        kappa=measure(
            lambda kept: agreement.mean_pairwise_kappa(accept[:, kept], 2), ratings=accept
        ),
        alpha=measure(
            lambda kept: agreement.krippendorff_alpha(accept[:, kept], "nominal"), ratings=accept
        ),
        ac1=measure(lambda kept: agreement.gwet_ac1(accept[:, kept], 2), 1 - chance),
        weighted_kappa=measure(
            lambda kept: agreement.mean_pairwise_kappa(full[:, kept], levels, "quadratic"),
            of_levels,
        ),
        ordinal_alpha=measure(
            lambda kept: agreement.krippendorff_alpha(full[:, kept], "ordinal"), of_levels
        ),
        adjudicated=data.adjudicated,
    )


def assess_labels(data: TrainingData) -> LabelAssessment:
    """Assess the labels, not the rubric."""
    s, inter_rater = data.sample, measure_inter_rater_agreement(data)
    refusals = [*_find_low_agreement(inter_rater), *_find_opposed_raters(data)]
    return LabelAssessment(
        items=len(data.items),
        labels=int(s.y.size),
        groups=int(np.unique(s.group).size),
        raters=len(data.raters),
        accepted=float(s.weight[s.accept].sum()),
        inter_rater=inter_rater,
        refusals=tuple(refusals),
        notes=tuple(_find_limitations(data, inter_rater)),
    )


def _find_low_agreement(inter_rater: InterRaterAgreement) -> list[str]:
    alpha, shared = inter_rater.alpha, inter_rater.shared_items
    if alpha is None or shared < _MIN_ALPHA_ITEMS:
        return []
    if not alpha.high < MIN_ALPHA:  # the bound is NaN with too few groups
        return []
    least = format_statistic(MIN_ALPHA)
    return [_SENTENCES["disagree"].format(alpha=alpha.format(), shared=shared, least=least)]


def _find_opposed_raters(data: TrainingData) -> list[str]:
    """Raters whose labels the total ranks in opposite directions, even if they share no item."""
    s = data.sample
    t = s.totals(s.w0[None, :])[0]
    above: list[tuple[str, Interval]] = []
    below: list[tuple[str, Interval]] = []
    for k, name in enumerate(data.raters):
        own = data.rater == k
        if int(own.sum()) < _MIN_RATER_LABELS:
            continue
        statistic = agreement.roc_auc_by_weight(t[own], s.accept[own])
        found = jackknife_interval(statistic, s.weight[own], s.group[own])
        if found is not None and found.low > 0.5:
            above.append((name, found))
        if found is not None and found.high < 0.5:
            below.append((name, found))
    if not (above and below):
        return []
    (a, auc_a), (b, auc_b) = above[0], below[0]
    return [_SENTENCES["opposed"].format(a, auc_a.format(), b, auc_b.format())]


def _find_limitations(data: TrainingData, inter_rater: InterRaterAgreement) -> list[str]:
    s, notes, shared = data.sample, list[str](), inter_rater.shared_items
    if shared == 0:
        notes.append(_SENTENCES["none_shared"].format(least=MIN_SHARED_ITEMS))
    elif shared < MIN_SHARED_ITEMS:
        alpha = inter_rater.alpha.format() if inter_rater.alpha else "n/a"
        notes.append(_SENTENCES["few_shared"].format(shared=shared, alpha=alpha))
    if s.items < MIN_ITEMS or s.minority_items < MIN_MINORITY:
        few = _SENTENCES["few_items"].format(s=s, items=MIN_ITEMS, minority=MIN_MINORITY)
        notes.append(few)
    if grouped_by := describe_run_groups(data.items):
        notes.append(f"runs are held out in groups ({grouped_by})")
    if data.not_drawn:
        notes.append(_SENTENCES["not_drawn"].format(data.not_drawn, len(data.items)))
    missing = np.isnan(s.x).mean(axis=0)
    for name, share, held in zip(data.free_nodes, missing, s.held, strict=True):
        if held:
            what = "no score" if share == 1.0 else "the same score"
            notes.append(_SENTENCES["held"].format(name, what))
        elif share > 0.2:
            notes.append(f"{name!r} has no score on {share:.0%} of the labeled items")
    # In simulations the standard error of a gain in kappa is about .6 over the root of n.
    least = format_statistic(1.96 * 0.6 / np.sqrt(s.items))
    return [*notes, _SENTENCES["noise"].format(s.items, least)]


STEP = 5
"""Agreement is computed anew after so many shared items: after each, it would tell a rater what the
other one said of the last."""
TARGETS = (0.2, 0.1, 0.05)
"""Half-widths of the 95% interval of kappa that are worth naming."""


class RaterAgreement(Struct, frozen=True):
    """How far a rater agrees with another one on accept or reject.

    Attributes:
        shared: items that both labeled.
        counted: the first of them, a multiple of ``STEP``, on which ``agreed`` and ``kappa`` rest.
        agreed: share of these on which both say the same.
        kappa: None for a single class, or where nothing is counted.
        needed: (half-width, further shared items that would reach it), the widest first; empty
            where the interval has no width.
    """

    rater: str
    shared: int
    counted: int
    agreed: float
    kappa: Interval | None
    needed: tuple[tuple[float, int], ...]


def measure_rater_agreement(
    labels: Sequence[Label], groups: Mapping[str, str], rater: str
) -> list[RaterAgreement]:
    """Agreement of a rater with each other one, on the items that have a group.

    Args:
        groups: item id → its group.
    """
    known = [label for label in labels if label.item in groups and not label.adjudicates]
    if not known:
        return []
    scale = infer_scale(known, None)
    accepts = {
        (x.rater, x.item): scale.accepts(x.label)
        for x in known
    }  # fmt: skip
    own = [x.item for x in known if x.rater == rater]
    out = []
    for other in sorted({x.rater for x in known} - {rater}):
        shared = [item for item in own if (other, item) in accepts]
        counted = shared[: len(shared) // STEP * STEP]
        pairs = np.array(
            [[accepts[who, item] for item in counted] for who in (rater, other)], dtype=bool
        )
        group = number_groups(groups[item] for item in counted)
        kappa = measure_kappa(pairs[0], pairs[1], np.ones(len(counted)), group) if counted else None
        agreed = float((pairs[0] == pairs[1]).mean()) if counted else math.nan
        needed = _labels_needed(kappa, len(counted), len(shared))
        out.append(RaterAgreement(other, len(shared), len(counted), agreed, kappa, needed))
    return out


def _labels_needed(
    kappa: Interval | None, counted: int, shared: int
) -> tuple[tuple[float, int], ...]:
    """The interval narrows with the root of the number of items."""
    half = math.nan if kappa is None else (kappa.high - kappa.low) / 2.0
    if not half > 0.0:
        return ()
    total = {target: math.ceil(counted * (half / target) ** 2) for target in TARGETS}
    return tuple((target, count - shared) for target, count in total.items() if count > shared)
