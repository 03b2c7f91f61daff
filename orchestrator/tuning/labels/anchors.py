"""Anchors: items whose labels and decisions are frozen, to tell a drifting judge from reviewers.

The judge scores the anchors again from time to time, and reviewers label some again. What changes
on anchors is the judge or the reviewers; what changes only on other items is the work.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from statistics import NormalDist

import numpy as np
from msgspec import Struct

from orchestrator.engine.types import Rubric
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import find_time
from orchestrator.tuning.file_formats.rubric_file import digest_rule
from orchestrator.tuning.file_formats.text_files import read_struct
from orchestrator.tuning.fitting.ordinal_regression import Floats, Ints
from orchestrator.tuning.rubric_decisions import decide_item
from orchestrator.tuning.statistics.confidence_intervals import Interval, cluster_variance
from orchestrator.tuning.training_data import TrainingData

FORMAT = 1
FALL = 0.1
"""The fall in sensitivity or specificity that must not be missed."""
POWER = 0.9
NOISE = 0.05
"""Share of anchors that a judge decides otherwise each way without drifting, where not measured."""
LEVEL = 0.975
"""Confidence level of each change, so that two changes together err in 5% of cases."""
_MAX_ANCHORS = 1_500


class AnchoredItem(Struct, frozen=True):
    """What was decided about an item when it was frozen: by the judge, and by people."""

    judge: bool
    people: bool


class AnchorSet(Struct, frozen=True):
    """Frozen anchors.

    Attributes:
        at: when they were frozen, ISO 8601.
        rule: digest of the rubric's weights and threshold, which must not change since.
        anchors: by the item's id.
    """

    format: int
    at: str
    rubric: str
    rule: str
    anchors: Mapping[str, AnchoredItem]

    def count(self, accepted: bool) -> int:
        """The anchors that people accept, or reject."""
        return sum(anchor.people == accepted for anchor in self.anchors.values())


def freeze_anchors(rubric: Rubric, data: TrainingData, at: str) -> AnchorSet:
    """All labeled items as anchors; people accept an item that at least half of its raters do."""
    s = data.sample
    votes = np.bincount(s.item, weights=s.weight * s.accept, minlength=len(data.items))
    anchors = {
        item.id: AnchoredItem(decide_item(rubric, item).accepted, bool(vote >= 0.5))
        for item, vote in zip(data.items, votes, strict=True)
    }
    return AnchorSet(FORMAT, at, rubric.name, digest_rule(rubric), anchors)


def read_anchors(path: Path, rubric: Rubric) -> AnchorSet:
    """Read frozen anchors.

    Raises:
        InputError: they cannot be read, or are those of another rubric.
    """
    found = read_struct(path, AnchorSet, "a file of anchors")
    if found.format != FORMAT or found.rule != digest_rule(rubric):
        raise InputError(
            f"{path}: anchors of {found.rubric!r} with other weights or another threshold: "
            "a changed rubric is not drift; freeze them again with --freeze"
        )
    parse_time(found.at, str(path))
    return found


def parse_time(text: str, location: str) -> datetime:
    """As ``find_time``.

    Raises:
        InputError: it is not ISO 8601.
    """
    found = find_time(text)
    if found is None:
        raise InputError(
            f"{location}: {text!r} is not a time; write 2026-11-23 or 2026-11-23T10:00:00+00:00"
        )
    return found


def paired_change(before: Floats, new: Floats, group: Ints) -> Interval | None:
    """The change of a rate on the same items, with a 97.5% interval; None for fewer than two.

    The interval is Bonett and Price's (2012), or wider where the groups show more variance.

    Args:
        before, now: (n,) 0 or 1.
        group: (n,).
    """
    n = before.size
    if n < 2:
        return None
    gained, lost = int(((new - before) > 0).sum()), int(((new - before) < 0).sum())
    center, variance = _smooth(np.array(gained), np.array(lost), n)
    by_group = cluster_variance(new - before, np.ones(n), group)
    spread = max(float(variance), 0.0 if math.isnan(by_group) else by_group)
    half = _quantile() * math.sqrt(spread)
    value, middle = (gained - lost) / n, float(center)
    return Interval(value, max(middle - half, -1.0), min(middle + half, 1.0))


def _smooth(gained: Floats | Ints, lost: Floats | Ints, n: int) -> tuple[Floats, Floats]:
    """Center and variance of Bonett and Price's interval."""
    up, down = (gained + 1) / (n + 2), (lost + 1) / (n + 2)
    return up - down, (up + down - (up - down) ** 2) / (n + 2)


def _quantile() -> float:
    return NormalDist().inv_cdf(0.5 + LEVEL / 2)


@cache
def find_power(n: int, noise: float = NOISE, fall: float = FALL) -> float:
    """The probability that ``n`` independent anchors show a fall of a rate, computed exactly.

    Args:
        noise: share of anchors that change each way without a fall.
    """
    lost, gained = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    same = n - lost - gained
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    down, up = min(fall + noise, 1.0), max(noise, 1e-9)
    rest = max(1.0 - down - up, 1e-9)
    there = same >= 0
    log_pmf = (
        logs[n] - logs[lost] - logs[gained] - logs[np.maximum(same, 0)]
        + lost * math.log(down) + gained * math.log(up) + same * math.log(rest)
    )  # fmt: skip
    center, variance = _smooth(gained, lost, n)
    shown = there & (center + _quantile() * np.sqrt(variance) < 0)
    return float(np.exp(log_pmf[shown]).sum())


@cache
def advise_anchors(noise: float = NOISE, fall: float = FALL) -> int:
    """The least number of anchors of one label that find a fall with a power of 90%."""
    low, high = 10, 20
    while find_power(high, noise, fall) < POWER and high < _MAX_ANCHORS:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if find_power(middle, noise, fall) >= POWER else (middle, high)
    return high
