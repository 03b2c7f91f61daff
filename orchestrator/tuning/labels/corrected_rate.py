"""The rate at which people would accept all items, from a judge of all and people's labels of some.

Two corrections of the judge's rate for its errors:

* PPI++ (Angelopoulos, Duchi and Zrnic 2023, arXiv:2311.01453) adds to the mean of the labels what
  the judge says of the unlabeled items beyond what it says of the labeled ones, times a factor that
  is 0 for a judge who knows nothing: it is no worse than the labels alone. It requires that the
  labeled items were drawn at random.
* Rogan and Gladen (1978) solve the judge's rate for the true one by sensitivity and specificity. It
  holds also where accepted items were labeled more often than rejected ones, and is wide for a weak
  judge.

Both intervals covered 94 to 97% in simulations of 40 to 250 labels, with alike groups of 1 to 10
items (``tests/tuning/test_rates_and_drift.py`` repeats some).
"""

import math

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.types import Rubric
from orchestrator.tuning.file_formats.item_files import Item, describe_seen_groups, unique_items
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats, Ints
from orchestrator.tuning.labels.disagreements import name_trust
from orchestrator.tuning.labels.label_files import Label, Scale
from orchestrator.tuning.rubric_decisions import decide_item
from orchestrator.tuning.statistics.confidence_intervals import (
    Interval,
    cluster_variance,
    effective_items,
    mean_rate,
    number_groups,
    rate_interval,
    simple_interval,
    t_interval,
    t_quantile,
)
from orchestrator.tuning.training_data import MIN_LABELS, build_training_data, require_scores

MAX_BIAS = 0.1
"""A judge's rate is trusted when the 95% interval of its error lies within this of 0."""


class CorrectedRate(Struct, frozen=True):
    """A rate that a judge reports, beside what people's labels of some items make of it.

    Attributes:
        judged: of all items, by the judge.
        labeled_only: of the labeled items, by people.
        corrected: of all items, by PPI++.
        rogan_gladen: of all items, by sensitivity and specificity; None where these tell nothing.
        bias: how much higher the judge's rate is than people's on the labeled items.
        sensitivity: share of what people accept that the judge accepts; None without such items.
        specificity: share of what people reject that the judge rejects.
        tuning: PPI++'s factor, 0 (the judge is ignored) to 1.
        worth: random labels that would give as narrow an interval without the judge.
        not_drawn: labeled items that are not known to be drawn at random, of which nothing follows
            for the others; 0 when every item is labeled.
        in_sample: a warning that the rubric was tuned on these items; empty where it was not.
    """

    items: int
    labeled: int
    groups: int
    judged: Interval
    labeled_only: Interval
    corrected: Interval
    rogan_gladen: Interval | None
    bias: Interval
    sensitivity: Interval | None
    specificity: Interval | None
    tuning: float
    worth: float
    not_drawn: int = 0
    in_sample: str = ""

    @property
    def is_trusted(self) -> bool | None:
        """Whether the judge's own rate can be believed; None when the labels cannot tell."""
        if self.not_drawn or self.labeled < MIN_LABELS:
            return None
        if self.bias.low >= -MAX_BIAS and self.bias.high <= MAX_BIAS:
            return True
        return False if self.bias.low > 0 or self.bias.high < 0 else None

    def plain_sentence(self) -> str:
        """The result for a reader who knows no statistics."""
        text = (
            f"{name_trust(self.is_trusted)}: the judge accepts {_percent(self.judged.value)} of "
            f"{self.items:,} items; people would accept {describe_share(self.corrected)}"
        )
        if self.labeled < MIN_LABELS:
            return f"{text}; {self.labeled} labeled items are too few, label at least {MIN_LABELS}"
        if self.not_drawn:
            text += (
                f", if the {self.not_drawn} labeled items that are not recorded as drawn at random "
                "are like the others (--assume-random)"
            )
        return text


def describe_share(found: Interval) -> str:
    """A rate in percent, with its bounds where these are known."""
    if math.isnan(found.low):
        return _percent(found.value)
    between = f"between {_percent(found.low)} and {_percent(found.high)}"
    return f"{_percent(found.value)}, {between}"


def _percent(share: float) -> str:
    """In percent, rounded as the tables round the share: .435 is .43 there, and here 43%."""
    return f"{round(share, 2):.0%}"


def estimate_rate(
    rubric: Rubric,
    items: list[Item],
    labels: list[Label],
    scale: Scale,
    assume_random: bool = False,
) -> CorrectedRate:
    """The rate at which people would accept the items.

    Args:
        assume_random: the labeled items are a random sample, although that is not recorded.

    Raises:
        InputError: a label of an unknown item or criterion, or a missing score.
    """
    data = build_training_data(rubric, items, labels, scale)
    every = unique_items(items)
    require_scores(rubric, every)
    accepted: dict[str, list[bool]] = {}
    for label in labels:
        accepted.setdefault(label.item, []).append(scale.accepts(label.label))
    found = correct_rate(
        np.array([decide_item(rubric, item).accepted for item in every]),
        np.array([np.mean(accepted.get(item.id, [np.nan])) for item in every]),
        number_groups(item.group for item in every),
    )
    return replace(
        found,
        not_drawn=0 if assume_random else data.not_drawn,
        in_sample=describe_seen_groups(rubric, data.items),
    )


def correct_rate(judge: Bools, people: Floats, group: Ints) -> CorrectedRate:
    """Correct the rate of a judge by people's labels.

    Args:
        judge: (n,) whether the judge accepts.
        people: (n,) share of an item's raters who accept it, NaN for an unlabeled item; at least
            one is labeled.
        group: (n,) unit of resampling.
    """
    labeled = ~np.isnan(people)
    f, y, own = judge.astype(float), people[labeled], group[labeled]
    fl, one = f[labeled], np.ones(int(labeled.sum()))
    groups = int(np.unique(own).size)
    alone = simple_interval(y, own)
    tuning = _tune_factor(fl, y, f[~labeled])
    value, variance = _predict(f, people, labeled, group, tuning)
    corrected = rate_interval(value, variance, f.size, groups)
    accepts, rejects = y >= 0.5, y < 0.5
    sensitivity = mean_rate(judge[labeled][accepts], one[accepts], own[accepts])
    specificity = mean_rate(~judge[labeled][rejects], one[rejects], own[rejects])
    bias, spread = float((fl - y).mean()), cluster_variance(fl - y, one, own)
    # Where the two hardly differ: one group more on each side.
    spread = max(spread, 2.0 / (groups + 2) ** 2)
    base = cluster_variance(y, one, own)  # NaN for a single group
    return CorrectedRate(
        items=f.size,
        labeled=int(labeled.sum()),
        groups=int(np.unique(group).size),
        judged=simple_interval(f, group),
        labeled_only=alone,
        corrected=corrected,
        rogan_gladen=_rogan_gladen(f[~labeled], group[~labeled], judge[labeled], accepts, own),
        bias=t_interval(bias, spread, groups),
        sensitivity=sensitivity,
        specificity=specificity,
        tuning=tuning,
        worth=float(labeled.sum() * (base / variance if variance > 0 and base > 0 else 1.0)),
    )


def _tune_factor(fl: Floats, y: Floats, unlabeled: Floats) -> float:
    """The factor of the judge that gives the least variance, were all items independent."""
    spread = float(np.var(np.concatenate([fl, unlabeled])))
    if unlabeled.size == 0 or spread == 0:
        return 0.0
    covariance = float(((fl - fl.mean()) * (y - y.mean())).mean())
    return min(max(covariance / ((1 + fl.size / unlabeled.size) * spread), 0.0), 1.0)


def _predict(
    f: Floats, people: Floats, labeled: Bools, group: Ints, tuning: float
) -> tuple[float, float]:
    """The estimate by PPI++ and its variance; rows of a group, labeled or not, are dependent."""
    part, rest = labeled.sum(), (~labeled).sum()
    residual = people[labeled] - tuning * f[labeled]
    value = float(residual.mean())
    influence = np.zeros(f.size)
    influence[labeled] = (residual - value) / part
    if rest:
        mean = float(f[~labeled].mean())
        influence[~labeled] = tuning * (f[~labeled] - mean) / rest
        value += tuning * mean
    _, at = np.unique(group, return_inverse=True)
    sums = np.bincount(at, weights=influence)
    g = np.unique(group[labeled]).size
    return value, float((sums**2).sum()) * g / max(g - 1, 1)


def _rogan_gladen(
    f: Floats, group: Ints, judged: Bools, accepts: Bools, own: Ints
) -> Interval | None:
    """The rate that sensitivity and specificity make of the judge's, with Fieller's interval.

    Args:
        f, group: of the unlabeled items.
        judged, accepts, own: decisions of judge and people, and the groups, of the labeled items.
    """
    if not f.size or accepts.all() or not accepts.any():
        return None
    hits, misses = judged[accepts].astype(float), (~judged[~accepts]).astype(float)
    a, b = float(f.mean() + misses.mean() - 1), float(hits.mean() + misses.mean() - 1)
    if b <= 0:
        return None
    t = t_quantile(max(np.unique(own).size - 1, 1))
    v, v_hits, v_misses = (
        _smooth_variance(x, at)
        for x, at in ((f, group), (hits, own[accepts]), (misses, own[~accepts]))
    )
    rate = np.linspace(0.0, 1.0, 2001)
    spread = v + (1 - rate) ** 2 * v_misses + rate**2 * v_hits
    inside = rate[(a - b * rate) ** 2 <= t * t * spread]
    value = min(max(a / b, 0.0), 1.0)
    if not inside.size:
        return None  # the labels contradict any rate
    low, high = inside.min(), inside.max()
    return Interval(value, min(float(low), value), max(float(high), value))


def _smooth_variance(values: Floats, group: Ints) -> float:
    """Variance of a mean, with a hit and a miss more, so that it is not 0 where all agree."""
    n = effective_items(values, group)
    mean = (n * values.mean() + 1) / (n + 2)
    return float(mean * (1 - mean) / (n + 2))
