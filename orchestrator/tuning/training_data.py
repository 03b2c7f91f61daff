"""Rubric, items and labels → arrays; what cannot be tuned on is refused here, by name."""

import numpy as np
from msgspec import Struct

from orchestrator.engine.rubric_scoring import blocked_by, node_scores
from orchestrator.engine.types import Rubric
from orchestrator.errors import InputError
from orchestrator.tuning.items import Item
from orchestrator.tuning.labels import Label, Scale
from orchestrator.tuning.penalty_selection import Sample
from orchestrator.tuning.weight_fitting import Floats, Ints

MIN_LABELS = 30
"""Labeled items below which not even a threshold is fitted."""
MIN_EACH = 5
"""Labeled items of the rarer class below which nothing is fitted."""


class Labeled(Struct, frozen=True):
    """A sample with the names that arrays lack.

    Attributes:
        free: ids of the nodes whose weights can move: the root's children.
        items: labeled items, in the order of their files.
        raters: names; ``rater`` (n,) points into it.
        ratings: (raters, items) categories on the full scale, NaN where a rater did not rate.
    """

    sample: Sample
    free: tuple[str, ...]
    items: tuple[Item, ...]
    raters: tuple[str, ...]
    rater: Ints
    ratings: Floats
    scale: Scale


def free_nodes(rubric: Rubric) -> tuple[str, ...]:
    """The nodes whose weights a tuning moves.

    These are the children of the root (of the only group, when the root has a single child) that
    have a weight: the total is linear in exactly those, and what lies below keeps its proportions.
    """
    parent: str | None = None
    while True:
        groups = [g.id for g in rubric.groups if g.parent == parent]
        lines = [c.id for c in rubric.criteria if c.parent == parent]
        if lines or len(groups) != 1:
            break
        parent = groups[0]
    weight = _weights(rubric)
    return tuple(n for n in (*lines, *groups) if weight[n] != 0.0)


def _weights(rubric: Rubric) -> dict[str, float]:
    groups = {g.id: g.weight for g in rubric.groups}
    return groups | {c.id: c.weight for c in rubric.criteria}


def weights_of(rubric: Rubric, nodes: tuple[str, ...]) -> Floats:
    """(p,) weights of nodes, in their order."""
    weight = _weights(rubric)
    return np.array([weight[n] for n in nodes], dtype=np.float64)


def check_scored(rubric: Rubric, items: list[Item]) -> None:
    """See that every criterion that counts has a score in every item.

    Raises:
        InputError: the first score that is missing.
    """
    for item in items:
        for criterion in rubric.criteria:
            if criterion.weight != 0.0 and criterion.id not in item.scores:
                raise InputError(
                    f"{item.place}: {item.id!r} has no score for {criterion.id!r}; score it, or "
                    'write null where the judge abstained or "na" where it does not apply'
                )


def matrix(rubric: Rubric, items: list[Item], nodes: tuple[str, ...]) -> Floats:
    """(n, p) scores of nodes, NaN where one does not count."""
    out = np.full((len(items), len(nodes)), np.nan)
    for i, item in enumerate(items):
        found = node_scores(rubric, item.scores)
        out[i] = [np.nan if found[n] is None else found[n] for n in nodes]
    return out


def build(rubric: Rubric, items: list[Item], labels: list[Label], scale: Scale) -> Labeled:
    """Join items and labels.

    Raises:
        InputError: no label, a label of an unknown item, a missing score, a rubric with no weight.
    """
    first = {item.id: item for item in items if not item.repeat}
    for label in labels:
        if label.item not in first:
            raise InputError(f"{label.place}: there is no item {label.item!r} in the items given")
    if not labels:
        raise InputError("there are no labels; label some items first: diffcourt label ITEMS")
    rated = {x.item for x in labels}
    used = [item for item in first.values() if item.id in rated]
    check_scored(rubric, used)
    free = free_nodes(rubric)
    w0 = weights_of(rubric, free)
    if not (w0 > 0.0).any():
        raise InputError(f"the rubric {rubric.name!r} has no weight that could be moved")
    raters = tuple(sorted({x.rater for x in labels}))
    at = {item.id: i for i, item in enumerate(used)}
    item = np.array([at[x.item] for x in labels], dtype=np.int64)
    level = np.array([scale.of(x.label) for x in labels], dtype=np.int64)
    rater = np.array([raters.index(x.rater) for x in labels], dtype=np.int64)
    ratings = np.full((len(raters), len(used)), np.nan)
    ratings[rater, item] = level
    x = matrix(rubric, used, free)
    _counted(used, x, w0)
    names = {g: i for i, g in enumerate(dict.fromkeys(i.group for i in used))}
    group = np.array([names[i.group] for i in used], dtype=np.int64)
    weight = 1.0 / np.bincount(item)[item]
    y, levels, cut = merge_levels(level, weight, len(scale.values), scale.cut)
    blocked = np.array([bool(blocked_by(rubric, i.scores)) for i in used])
    sample = Sample(
        x=x[item],
        w0=w0,
        y=y,
        levels=levels,
        cut=cut,
        group=group[item],
        weight=weight,
        blocked=blocked[item],
        item=item,
    )
    return Labeled(
        sample=sample,
        free=free,
        items=tuple(used),
        raters=raters,
        rater=rater,
        ratings=ratings,
        scale=scale,
    )


def _counted(used: list[Item], x: Floats, w0: Floats) -> None:
    empty = np.flatnonzero(~(~np.isnan(x) & (w0 > 0.0)).any(axis=1))
    if empty.size:
        item = used[int(empty[0])]
        raise InputError(f"{item.place}: nothing counts in {item.id!r}: every score is left out")


def merge_levels(y: Ints, weight: Floats, levels: int, cut: int) -> tuple[Ints, int, int]:
    """Merge rare categories into a neighbor on the same side of the cut.

    A cut between categories that hardly occur cannot be placed by resamples that miss them.

    Returns:
        New categories, how many, and the new cut.
    """
    mass = np.bincount(y, weights=weight, minlength=levels)
    least = max(5.0, 0.04 * float(weight.sum()))
    name = list(range(levels))
    sides = (list(range(cut)), list(range(cut, levels)))
    for side in sides:
        while len(side) > 1:
            rare = min(side, key=lambda k: float(mass[k]))
            if mass[rare] >= least:
                break
            i = side.index(rare)
            into = side[i - 1] if i else side[1]
            mass[into] += mass[rare]
            name = [into if k == rare else k for k in name]
            side.remove(rare)
    kept = sorted(sides[0] + sides[1])
    new = np.array([kept.index(name[k]) for k in range(levels)], dtype=np.int64)
    return new[y], len(kept), len(sides[0])


def refuse_unfit(data: Labeled, rubric: Rubric) -> None:
    """Refuse what no procedure could tune on.

    Raises:
        InputError: one class only, too few labels, a criterion that never varies, no free weight.
    """
    s = data.sample
    n = len(data.items)
    yes = float(s.weight[s.accept].sum())
    if min(yes, n - yes) <= 0.0:
        side = "accept" if yes else "reject"
        raise InputError(f"all {n} labels {side}; label some that people would not {side}")
    if n < MIN_LABELS:
        raise InputError(f"{n} labeled items are too few; label at least {MIN_LABELS}")
    if s.rarer < MIN_EACH:
        raise InputError(
            f"only {s.rarer:g} of {n} items are of the rarer class; label at least {MIN_EACH}"
        )
    if len(data.free) < 2:
        raise InputError(
            f"the rubric {rubric.name!r} has no free weight: only {data.free[0]!r} counts, so "
            "there is nothing to weigh it against"
        )
    if np.unique(s.group).size < 10:
        raise InputError(
            f"the labels come from {np.unique(s.group).size} groups; label items of at least 10"
        )
    for j, name in enumerate(data.free):
        values = s.x[:, j][~np.isnan(s.x[:, j])]
        if values.size == 0 or float(np.ptp(values)) < 1e-12:
            what = f"the same score ({values[0]:g})" if values.size else "no score"
            raise InputError(
                f"the criterion {name!r} has {what} in all {n} labeled items; "
                "remove it or set its weight to 0"
            )
