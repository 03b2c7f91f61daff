"""The judge's own noise, and whether it is swayed by length."""

from itertools import combinations

import numpy as np
from msgspec import Struct

from orchestrator.engine.types import Rubric
from orchestrator.tuning.decision_flips import accepts
from orchestrator.tuning.items import Item
from orchestrator.tuning.weight_fitting import Floats

SWAYED = 0.3
"""Rank correlation of total and length, label held fixed, from which length sways the judge."""
_LEAST = 10


class Repeats(Struct, frozen=True):
    """What scoring the same items again changes.

    Attributes:
        items: items scored more than once.
        flipped: share of pairs of scorings of one item that decide differently.
        total_sd: standard deviation of the total within an item.
        criteria_sd: the same per criterion.
        criteria_same: share of pairs of scorings of one item that give a judged criterion the same
            score; abstaining twice is the same, abstaining once is not.
    """

    items: int
    flipped: float
    total_sd: float
    criteria_sd: dict[str, float]
    criteria_same: dict[str, float]


def repeat_noise(rubric: Rubric, items: list[Item]) -> Repeats | None:
    """Measure noise on items that were scored repeatedly; None where none was."""
    by: dict[str, dict[int, Item]] = {}
    for item in items:
        by.setdefault(item.id, {})[item.repeat] = item
    again = [list(x.values()) for x in by.values() if len(x) > 1]
    if not again:
        return None
    pairs = flips = 0
    totals: list[float] = []
    spread: dict[str, list[float]] = {}
    same: dict[str, list[bool]] = {}
    for scorings in again:
        said = [accepts(rubric, s.scores) for s in scorings]
        for (a, _), (b, _) in combinations(said, 2):
            pairs += 1
            flips += a != b
        values = [t for _, t in said if t is not None]
        if len(values) > 1:
            totals.append(float(np.var(values, ddof=1)))
        for c in rubric.criteria:
            given = [s.scores[c.id] for s in scorings if c.id in s.scores]
            if c.kind == "judged":
                same.setdefault(c.id, []).extend(a == b for a, b in combinations(given, 2))
            got = [v for v in given if isinstance(v, float)]
            if len(got) > 1:
                spread.setdefault(c.id, []).append(float(np.var(got, ddof=1)))
    return Repeats(
        len(again),
        flips / pairs,
        float(np.sqrt(np.mean(totals))) if totals else 0.0,
        {name: float(np.sqrt(np.mean(v))) for name, v in spread.items()},
        {name: float(np.mean(v)) for name, v in same.items() if v},
    )


def length_sway(total: Floats, length: Floats, accepted: Floats) -> float | None:
    """Rank correlation of total and text length among items of the same label.

    People may prefer long texts for good reasons; what is left within a label is the judge's own.

    Args:
        total, length: (n,).
        accepted: (n,) 1 where people accept.

    Returns:
        The mean over both labels, None where lengths do not vary or items are few.
    """
    found, mass = 0.0, 0
    for side in (0.0, 1.0):
        rows = accepted == side
        if rows.sum() < _LEAST:
            continue
        a, b = _ranks(total[rows]), _ranks(length[rows])
        if a.std() > 0 and b.std() > 0:
            found += float(np.corrcoef(a, b)[0, 1]) * int(rows.sum())
            mass += int(rows.sum())
    return found / mass if mass else None


def _ranks(x: Floats) -> Floats:
    """Ranks with ties at their mean."""
    _, at, counts = np.unique(x, return_inverse=True, return_counts=True)
    mean: Floats = (np.cumsum(counts) - (counts - 1) / 2.0)[at]
    return mean
