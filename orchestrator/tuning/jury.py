"""Several judges of the same items as raters: agreement, independence, majority and cascades.

A judge is a name in the items' ``judge``, and each repeated scoring is a further one.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from orchestrator.engine.types import Rubric
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.fitting.cross_validation import combine_folds, draw_folds
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats, Ints
from orchestrator.tuning.labels.label_files import Label, Scale
from orchestrator.tuning.rubric_comparison import MARGIN, LabeledRows, build_rows, compare_paired
from orchestrator.tuning.rubric_decisions import Objective, decide_item
from orchestrator.tuning.statistics.agreement import krippendorff_alpha
from orchestrator.tuning.statistics.confidence_intervals import (
    Interval,
    PairedComparison,
    compare_fixed_rules,
    jackknife_interval,
    measure_kappa,
)
from orchestrator.tuning.training_data import MIN_GROUPS, MIN_LABELS, require_scores

_SHARES = np.linspace(0.0, 1.0, 21)
_SLACK = 0.01  # kappa that a cascade may lose on the items on which its width is chosen
_SEED = 20260101


class JudgeFigures(Struct, frozen=True):
    """What one judge costs and how well it agrees with people.

    Attributes:
        usd: what an item costs; None where unknown.
        kappa: with people.
        majority_gain: kappa of the majority minus this judge's, on the same items.
    """

    name: str
    usd: float | None
    kappa: Interval | None
    majority_gain: Interval


class Cascade(Struct, frozen=True):
    """A dearer judge who is asked only where the cheap one is unsure, beside that judge alone.

    Attributes:
        within: the cheap judge is unsure where its total is this close to the threshold.
        asked: held-out share of items on which the dearer judge is asked.
        usd: per item; ``saved`` is the share of the dearer judge's cost that it saves.
        comparison: kappa of the dearer judge alone and of the cascade, held out.
        proven: it is cheaper, and surely no worse by ``MARGIN``.
    """

    cheap: str
    dear: str
    within: float
    asked: float
    usd: float
    saved: float
    comparison: PairedComparison
    proven: bool


class Jury(Struct, frozen=True):
    """What several judges amount to.

    Attributes:
        left_out: labeled items that not every judge scored.
        between: Krippendorff's alpha of the judges' decisions.
        independent: how many independent judges they are worth; None where none errs.
        majority: its kappa with people; a tie is decided by the mean distance from the threshold.
        cascades: from the cheapest judge to each dearer one; none without costs or few labels.
    """

    items: int
    labels: int
    groups: int
    left_out: int
    judges: tuple[JudgeFigures, ...]
    between: Interval | None
    independent: Interval | None
    majority: Interval | None
    cascades: tuple[Cascade, ...]


def measure_jury(
    rubric: Rubric,
    items: Sequence[Item],
    labels: Sequence[Label],
    scale: Scale,
    costs: Mapping[str, float],
) -> Jury:
    """Measure the judges of some items.

    Args:
        costs: per item, by a judge's name; they replace what the items say.

    Raises:
        InputError: fewer than two judges, a cost of an unknown one, or no item that all scored.
    """
    judged = _split_by_judge(items, costs)
    shared = set.intersection(*(set(rows) for rows in judged.values()))
    rated = {label.item for label in labels}
    first, *_ = judged.values()
    rows = build_rows([item for item in first.values() if item.id in shared], labels, scale)
    if not rows.items:
        raise InputError("no labeled item was scored by all judges; score the same items with each")
    distances = np.stack([_distances(rubric, one, rows) for one in judged.values()])
    accept: Bools = distances >= 0.0
    votes = accept.mean(axis=0) - 0.5
    majority = np.where(votes == 0.0, distances.mean(axis=0) >= 0.0, votes > 0.0)
    usd = [costs.get(name, _cost(one.values())) for name, one in judged.items()]
    judges = tuple(
        JudgeFigures(name, price, _kappa(rows, own), compare_paired(rows, own, majority).change)
        for name, price, own in zip(judged, usd, accept, strict=True)
    )
    given = accept.astype(float)
    one, item_group = np.ones(accept.shape[1]), np.zeros(accept.shape[1], dtype=np.int64)
    item_group[rows.item] = rows.group
    return Jury(
        items=len(rows.items),
        labels=int(rows.item.size),
        groups=int(np.unique(rows.group).size),
        left_out=len(rated & set().union(*judged.values()) - shared),
        judges=judges,
        between=jackknife_interval(
            lambda w: krippendorff_alpha(given, "nominal", w),
            one, item_group, ratings=given,
        ),
        independent=_count_independent(rows, accept),
        majority=_kappa(rows, majority),
        cascades=tuple(_build_cascades(rows, judges, distances)),
    )  # fmt: skip


def _split_by_judge(
    items: Sequence[Item], costs: Mapping[str, float]
) -> dict[str, dict[str, Item]]:
    """Each judge's items, by their ids."""
    out: dict[str, dict[str, Item]] = {}
    for item in items:
        name = item.judge + (f", repeat {item.repeat}" if item.repeat else "")
        known = out.setdefault(name, {}).setdefault(item.id, item)
        if known.scores != item.scores:
            raise InputError(
                f"{item.location}: judge {name!r} scored {item.id!r} differently at "
                f"{known.location}; give a repeated scoring its own number in 'repeat'"
            )
    if len(out) < 2:
        raise InputError(f"a jury has two judges or more; the items name {', '.join(out)}")
    for name in costs.keys() - out.keys():
        raise InputError(f"--cost: no judge {name!r}; there are {'; '.join(out)}")
    return out


def _distances(rubric: Rubric, judged: Mapping[str, Item], rows: LabeledRows) -> Floats:
    """(items,) totals minus the threshold: what is accepted is not below 0."""
    own = [judged[item.id] for item in rows.items]
    require_scores(rubric, own)
    return np.array([_distance(rubric, item) for item in own])


def _distance(rubric: Rubric, item: Item) -> float:
    """The total minus the threshold; what fails a blocker, or has no total, is surely rejected."""
    card = decide_item(rubric, item)
    is_sure = card.is_rejected or card.total is None
    return -1.0 if is_sure or card.total is None else card.total - rubric.threshold


def is_unsure(rubric: Rubric, item: Item, within: float) -> bool:
    """Whether a cascade asks the dearer judge too: the total is so close to the threshold."""
    return abs(_distance(rubric, item)) <= within


def _cost(items: Iterable[Item]) -> float | None:
    paid = [item.usd for item in items]
    return sum(paid) / len(paid) if any(paid) else None


def _kappa(rows: LabeledRows, accept: Bools) -> Interval | None:
    return measure_kappa(rows.accept, accept[rows.item], rows.weight, rows.group)


def _count_independent(rows: LabeledRows, accept: Bools) -> Interval | None:
    """Judges over the design effect of their errors' correlation, given what people say."""
    given, y = accept[:, rows.item].astype(float), rows.accept
    count = accept.shape[0]

    def independent(w: Floats) -> float | None:
        errors = np.zeros_like(given)
        for side in (y, ~y):
            if w[side].sum() > 0:
                mean = np.average(given[:, side], axis=1, weights=w[side])
                errors[:, side] = given[:, side] - mean[:, None]
        covariance = (errors * w) @ errors.T
        spread = np.sqrt(np.diag(covariance))
        pairs = np.outer(spread, spread)[np.triu_indices(count, 1)]
        shared = covariance[np.triu_indices(count, 1)]
        if not (pairs > 1e-12).any():
            return None
        alike = float(np.mean(shared[pairs > 1e-12] / pairs[pairs > 1e-12]))
        return float(count / (1.0 + (count - 1.0) * max(alike, 0.0)))

    found = jackknife_interval(independent, rows.weight, rows.group, None)
    if found is None:
        return None
    low, high = (min(max(bound, 1.0), count) for bound in (found.low, found.high))
    return Interval(found.value, low, high)


def _build_cascades(
    rows: LabeledRows, judges: Sequence[JudgeFigures], distances: Floats
) -> Sequence[Cascade]:
    prices = {k: judge.usd for k, judge in enumerate(judges) if judge.usd is not None}
    few = len(rows.items) < MIN_LABELS or np.unique(rows.group).size < MIN_GROUPS
    if few or len(prices) < len(judges):
        return []
    first, *dearer = sorted(prices, key=lambda k: prices[k])
    return [
        _build_cascade(rows, (judges[first], judges[k]), distances[[first, k]])
        for k in dearer
        if prices[k] > prices[first]
    ]


def _build_cascade(
    rows: LabeledRows, pair: tuple[JudgeFigures, JudgeFigures], distances: Floats
) -> Cascade:
    """The width is the least, of quantiles, that loses no agreement on the other folds."""
    held_out = draw_folds(rows.group, np.random.default_rng(_SEED))
    weights = np.concatenate([rows.weight * ~held_out, rows.weight[None, :]])
    unsure = np.abs(distances[0])
    widths = np.concatenate([[-1.0], np.quantile(unsure, _SHARES[1:])])
    asks = unsure <= widths[:, None]
    accept: Bools = (np.where(asks, distances[1], distances[0]) >= 0.0)[:, rows.item]
    score = Objective().score
    kappas = np.stack([score(one, rows.accept, weights) for one in accept])
    chosen: Ints = (kappas >= kappas[-1] - _SLACK).argmax(axis=0)  # the last one asks everywhere
    folds = chosen[:-1]
    decided = combine_folds(accept[folds], held_out)
    asked_rows = combine_folds(asks[:, rows.item][folds], held_out)
    asked = float(np.average(asked_rows.mean(axis=0), weights=rows.weight))
    dear_alone = (distances[1] >= 0.0)[rows.item]
    found = compare_fixed_rules(dear_alone, decided, rows.accept, rows.weight, rows.group)
    cheap, dear = pair
    assert cheap.usd is not None
    assert dear.usd is not None
    usd = cheap.usd + asked * dear.usd
    return Cascade(
        cheap=cheap.name,
        dear=dear.name,
        within=max(float(widths[chosen[-1]]), 0.0),
        asked=asked,
        usd=usd,
        saved=1.0 - usd / dear.usd,
        comparison=found,
        proven=usd < dear.usd and found.change.low > -MARGIN,
    )
