"""Training data of a tuning: rubric, items and labels joined into arrays, and validated."""

from datetime import datetime
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.rubric_scoring import node_scores, worst_of_unscored
from orchestrator.engine.types import Rubric
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import Item, find_time, unique_items
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats, Ints
from orchestrator.tuning.fitting.rule_fitting import Sample
from orchestrator.tuning.fitting.weight_tree import build_tree, find_free_nodes, restore_zeroed
from orchestrator.tuning.labels.label_files import Label, Scale, require_known_criteria
from orchestrator.tuning.rubric_decisions import decide_item
from orchestrator.wording import count_noun

MIN_LABELS = 30
"""Labeled items below which not even a threshold is fitted."""
MIN_CLASS_ITEMS = 5
"""Items in the minority class below which nothing is fitted."""
MIN_GROUPS = 10
"""Groups of labeled items below which nothing is fitted: cross-validation splits by group."""


class TrainingData(Struct, frozen=True):
    """A sample with the names that its arrays lack.

    Attributes:
        free_nodes: ids of the nodes whose weights are tuned, see
            :func:`orchestrator.tuning.fitting.weight_tree.find_free_nodes`.
        full_rubric: the rubric with the weights that tuning set to 0 as they were before.
        items: labeled items, in the order of their files.
        raters: names; ``rater`` (n,) holds indices into it.
        levels: (n,) categories on the full scale.
        ratings: (raters, items) the same of all labels but those that adjudicate, NaN for none.
        totals: (n,) of the present rubric.
        accepted: (items,) its decisions.
        not_drawn: labeled items that were not drawn at random; 0 when every item is labeled.
        adjudicated: items with a label that adjudicates.
        order: what the groups are numbered by: ``time``, or else the order of the files, and why.
    """

    sample: Sample
    free_nodes: tuple[str, ...]
    full_rubric: Rubric
    items: tuple[Item, ...]
    raters: tuple[str, ...]
    rater: Ints
    levels: Ints
    ratings: Floats
    totals: Floats
    accepted: Bools
    scale: Scale
    not_drawn: int = 0
    adjudicated: int = 0
    order: str = "time"

    def restructure(self, rubric: Rubric) -> "TrainingData":
        """The data for another tree of the same criteria; ``totals`` stay the present rubric's."""
        used = list(self.items)
        full, free, tree = _read_tree(rubric, used)
        x = score_matrix(rubric, used, free)[self.sample.item]
        sample = replace(self.sample, x=x, **tree)
        return replace(self, sample=sample, free_nodes=free, full_rubric=full)


def require_scores(rubric: Rubric, items: list[Item]) -> None:
    """Require a score of every weighted criterion in every item."""
    for item in items:
        for criterion in rubric.criteria:
            if criterion.weight != 0.0 and criterion.id not in item.scores:
                raise InputError(
                    f"{item.location}: {item.id!r} has no score for {criterion.id!r}; score it, or "
                    'write null where the judge abstained or "na" where it does not apply'
                )


def score_matrix(rubric: Rubric, items: list[Item], nodes: tuple[str | None, ...]) -> Floats:
    """(n, p) scores of nodes, NaN where one does not count."""
    out = np.full((len(items), len(nodes)), np.nan)
    for i, item in enumerate(items):
        found = node_scores(rubric, item.scores)
        out[i] = [np.nan if found[n] is None else found[n] for n in nodes]
    return out


def _score_usable(
    rubric: Rubric, full: Rubric, items: list[Item], nodes: tuple[str, ...]
) -> Floats:
    """``score_matrix`` of items of which each has a score that counts towards the total."""
    # What a judge abstained on counts as the worst, as in a review. Only ``full`` has every sign.
    worst = [worst_of_unscored(full, i.scores) if i.judge else {} for i in items]
    counted = [replace(i, scores={**i.scores, **w}) for i, w in zip(items, worst, strict=True)]
    found = score_matrix(rubric, counted, (*nodes, None))
    unusable = np.isnan(found[:, -1])
    if unusable.any():
        bad = items[int(unusable.argmax())]
        raise InputError(f'{bad.location}: {bad.id!r} has no usable score: all are null or "na"')
    return found[:, :-1]


def build_training_data(
    rubric: Rubric, items: list[Item], labels: list[Label], scale: Scale
) -> TrainingData:
    """Join items and labels into arrays.

    Raises:
        InputError: no labels, a label of an unknown item or criterion, a missing score, no
            positive weight.
    """
    first = {item.id: item for item in unique_items(items)}
    for label in labels:
        if label.item not in first:
            raise InputError(f"{label.location}: no item {label.item!r}")
    require_known_criteria(labels, [c.id for c in rubric.criteria])
    rated = {x.item for x in labels}
    used = [item for item in first.values() if item.id in rated]
    require_scores(rubric, used)
    full, free, tree = _read_tree(rubric, used)
    every = [y for x in labels for y in (*x.overruled, x)]
    raters = tuple(sorted({x.rater for x in every}))
    at = {item.id: i for i, item in enumerate(used)}
    item = np.array([at[x.item] for x in labels], dtype=np.int64)
    level = np.array([scale.category(x.label) for x in labels], dtype=np.int64)
    rater = np.array([raters.index(x.rater) for x in labels], dtype=np.int64)
    ratings = np.full((len(raters), len(used)), np.nan)
    for label in every:
        if not label.adjudicates:
            ratings[raters.index(label.rater), at[label.item]] = scale.category(label.label)
    names, order = _number_groups(used)
    weight = 1.0 / np.bincount(item)[item]
    cards = (decide_item(rubric, i) for i in used)
    decided = np.array([(card.accepted, card.is_rejected) for card in cards])
    y, levels, cut = merge_rare_levels(level, weight, len(scale.values), scale.cut)
    sample = Sample(
        x=_score_usable(rubric, full, used, free)[item],
        y=y,
        levels=levels,
        cut=cut,
        group=np.array([names[i.group] for i in used], dtype=np.int64)[item],
        weight=weight,
        blocked=decided[item, 1],
        item=item,
        **tree,
    )
    return TrainingData(
        sample=sample,
        free_nodes=free,
        full_rubric=full,
        items=tuple(used),
        raters=raters,
        rater=rater,
        levels=level,
        ratings=ratings,
        totals=sample.totals(sample.w0[None, :])[0],
        accepted=decided[:, 0],
        scale=scale,
        not_drawn=len({x.item for x in labels if not x.drawn}) if len(used) < len(first) else 0,
        adjudicated=sum(x.adjudicates for x in labels),
        order=order,
    )


def _read_tree(rubric: Rubric, used: list[Item]) -> tuple[Rubric, tuple[str, ...], dict[str, Any]]:
    """``full_rubric``, ``free_nodes``, and the ``nodes``, ``unit`` and ``w0`` of the sample."""
    full = _restore_scored(rubric, used)
    free = find_free_nodes(full)
    nodes, unit = build_tree(full, free)
    w0 = build_tree(rubric, free)[1]
    if not (w0 > 0.0).any():
        raise InputError(f"the rubric {rubric.name!r} has no positive weight to tune")
    return full, free, {"nodes": nodes, "unit": unit, "w0": w0}


def _number_groups(items: list[Item]) -> tuple[dict[str, int], str]:
    """The groups, numbered by the time of their first items, and what they are numbered by."""
    first: dict[str, datetime] = {}
    untimed = 0
    for item in items:
        time = find_time(item.at)
        untimed += time is None
        if time is not None:
            first[item.group] = min(first.get(item.group, time), time)
    names, order = dict.fromkeys(item.group for item in items), "time"
    if untimed:
        order = f"the order of the files, since {count_noun(untimed, 'item')} without a time 'at'"
    elif len(set(first.values())) < 2:
        order = "the order of the files, since all times 'at' are the same"
    ordered = sorted(names, key=lambda name: first[name]) if order == "time" else names
    return {name: number for number, name in enumerate(ordered)}, order


def _restore_scored(rubric: Rubric, used: list[Item]) -> Rubric:
    """The rubric with the weights that tuning set to 0 as before, where all items have scores."""
    full = restore_zeroed(rubric)
    unscored = {c.id for c in full.criteria if any(c.id not in item.scores for item in used)}
    restored = tuple(
        old if new.id in unscored else new
        for old, new in zip(rubric.criteria, full.criteria, strict=True)
    )
    return replace(full, criteria=restored)


def merge_rare_levels(y: Ints, weight: Floats, levels: int, cut: int) -> tuple[Ints, int, int]:
    """Merge rare categories into an adjacent one on the same side of the cut.

    Resamples that miss a rare category cannot estimate its cut points.

    Returns:
        New categories, their number, and the new cut.
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
    remaining = sorted(sides[0] + sides[1])
    new = np.array([remaining.index(name[k]) for k in range(levels)], dtype=np.int64)
    return new[y], len(remaining), len(sides[0])


def require_trainable(data: TrainingData, rubric: Rubric) -> None:
    """Require labels and scores that a rule can be fitted to.

    Raises:
        InputError: a single class, too few labels or groups, constant scores, no free weight.
    """
    s = data.sample
    n = len(data.items)
    accepted = float(s.weight[s.accept].sum())
    if min(accepted, n - accepted) <= 0.0:
        side = "accept" if accepted else "reject"
        raise InputError(f"all {n} labels are {side!r}; label items of both classes")
    if n < MIN_LABELS:
        raise InputError(f"{n} labeled items are too few; label at least {MIN_LABELS}")
    if s.minority_items < MIN_CLASS_ITEMS:
        raise InputError(
            f"only {s.minority_items:g} of {n} items are in the minority class; "
            f"label at least {MIN_CLASS_ITEMS}"
        )
    if len(data.free_nodes) < 2:
        raise InputError(
            f"the rubric {rubric.name!r} has no free weight: {data.free_nodes[0]!r} is the only "
            "criterion with a weight, and tuning needs at least two"
        )
    groups = np.unique(s.group).size
    if groups < MIN_GROUPS:
        raise InputError(
            f"too few groups: the labeled items come from {groups}; label items of at least "
            f"{MIN_GROUPS}"
        )
    if s.held.all():
        raise InputError(f"no criterion's score varies over the {n} labeled items")


def summarize_labels(data: TrainingData) -> dict[str, str]:
    """Item id → ``accept``, ``reject``, or ``disputed`` where raters disagree."""
    s, words = data.sample, ("reject", "disputed", "accept")
    share = np.bincount(s.item, s.weight * s.accept, len(data.items))
    decided = np.where(share < 1e-9, 0, np.where(share > 1 - 1e-9, 2, 1))
    return {item.id: words[k] for item, k in zip(data.items, decided, strict=True)}
