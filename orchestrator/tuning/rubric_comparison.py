"""Compare two rubrics, wordings, prompts or models on the same labeled items.

Both sides decide each labeled item; the paired change of Cohen's kappa has a 95% interval by group.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.rubric_scoring import Given, Scorecard
from orchestrator.engine.types import Rubric
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import Item, unique_items
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats, Ints
from orchestrator.tuning.labels.label_files import Label, Scale
from orchestrator.tuning.provenance import describe_seen_groups
from orchestrator.tuning.rubric_decisions import decide_item
from orchestrator.tuning.statistics.confidence_intervals import (
    PairedComparison,
    compare_fixed_rules,
    estimate_labels_needed,
    number_groups,
    smallest_detectable_change,
)
from orchestrator.tuning.training_data import require_scores

MARGIN = 0.05
"""Kappa: a drop that is smaller does not matter."""

Outcome = Literal["better", "no worse", "worse", "unknown"]


class ComparedRubric(Struct, frozen=True):
    """One of the two that are compared.

    Attributes:
        name: for people.
        scores: item id → its scores by this side's judge.
        judge: who gave them; empty where unknown.
        usd: what scoring cost; None where unknown.
    """

    name: str
    rubric: Rubric
    scores: Mapping[str, Mapping[str, Given]]
    judge: str = ""
    usd: float | None = None


class ChangedDecision(Struct, frozen=True):
    """An item that the two sides decide differently.

    Attributes:
        label: accept, reject, or disputed where people disagree.
        total_a, total_b: None where nothing counts.
        changed_scores: criterion id → its two scores, where they differ.
    """

    id: str
    url: str
    text: str
    label: str
    accepted_a: bool
    accepted_b: bool
    total_a: float | None
    total_b: float | None
    changed_scores: Mapping[str, tuple[Given, Given]]

    @property
    def verdict(self) -> str:
        """``corrected``: B is right where A is wrong; ``broken``: the reverse; or ``disputed``."""
        if self.label == "disputed":
            return "disputed"
        return "corrected" if (self.label == "accept") == self.accepted_b else "broken"


class RubricComparison(Struct, frozen=True):
    """What a comparison found; all agreement is Cohen's kappa of accept or reject.

    Attributes:
        outcome: of B against A: ``better`` where the interval of the change lies above 0, ``worse``
            where it lies below 0, ``no worse`` where it lies above minus the margin.
        comparison: A as ``before``, B as ``after``.
        items: labeled items that both sides decide.
        left_out: labeled items without scores of both.
        smallest_detectable: change of kappa that these labels prove with 80% power.
        labels_needed: labels that show with 80% power that B is no worse by the margin, if both
            are equally good; None where they are shown.
        labels_for_change: labels that prove a change of the estimated size with 80% power; None
            where one is proven or none is estimated.
        usd: what each side's scores cost; None where unknown.
        in_sample: warnings that a side was tuned on these items.
    """

    a: str
    b: str
    judges: tuple[str, str]
    outcome: Outcome
    comparison: PairedComparison
    margin: float
    items: int
    labels: int
    groups: int
    left_out: tuple[str, ...]
    changed: tuple[ChangedDecision, ...]
    smallest_detectable: float
    labels_needed: int | None
    labels_for_change: int | None
    usd: tuple[float | None, float | None]
    in_sample: tuple[str, ...]


class LabeledRows(Struct, frozen=True):
    """Labels as rows of arrays, each (n,).

    Attributes:
        item: index into ``items``.
        accept: whether the person accepts.
        weight: one over the number of labels of the item.
        group: number of the item's group.
    """

    items: tuple[Item, ...]
    item: Ints
    accept: Bools
    weight: Floats
    group: Ints

    def label_of(self, index: int) -> str:
        """An item's label: accept, reject or disputed."""
        given = set(self.accept[self.item == index].tolist())
        return "disputed" if len(given) > 1 else ("accept" if True in given else "reject")


def build_rows(items: Sequence[Item], labels: Sequence[Label], scale: Scale) -> LabeledRows:
    """Labels of these items as arrays; labels of other items are left out."""
    rated = {label.item for label in labels}
    used = tuple(item for item in unique_items(items) if item.id in rated)
    at = {item.id: i for i, item in enumerate(used)}
    own = [label for label in labels if label.item in at]
    item = np.array([at[label.item] for label in own], dtype=np.int64)
    return LabeledRows(
        used,
        item,
        np.array([scale.accepts(label.label) for label in own], dtype=bool),
        1.0 / np.bincount(item)[item] if own else np.zeros(0),
        number_groups(item.group for item in used)[item],
    )


def compare_paired(rows: LabeledRows, a: Bools, b: Bools) -> PairedComparison:
    """Compare the decisions of two sides on each item, (items,) or (splits, items)."""
    sides = (a[..., rows.item], b[..., rows.item])
    return compare_fixed_rules(*sides, rows.accept, rows.weight, rows.group)


def compare_sides(
    a: ComparedRubric,
    b: ComparedRubric,
    items: Sequence[Item],
    labels: Sequence[Label],
    scale: Scale,
    margin: float = MARGIN,
) -> RubricComparison:
    """Compare two sides on the labeled items that both have scored.

    Raises:
        InputError: no labeled item has scores of both; a score is missing; one class of labels.
    """
    known = a.scores.keys() & b.scores.keys()
    rated = {label.item for label in labels}
    both = [item for item in unique_items(items) if item.id in known]
    rows = build_rows(both, labels, scale)
    if not rows.items:
        raise InputError(
            f"no labeled item was scored by both {a.name} and {b.name}; score the same items: "
            "diffcourt rubric score"
        )
    if rows.accept.all() or not rows.accept.any():
        side = "accept" if rows.accept.any() else "reject"
        raise InputError(
            f"all labels of the {len(rows.items)} items are {side!r}; label items of both classes"
        )
    decided = [_decide(side, rows.items) for side in (a, b)]
    accept = [np.array([card.accepted for card in found], dtype=bool) for found in decided]
    paired = compare_paired(rows, *accept)
    outcome = judge_change(paired, margin)
    seen = [
        describe_seen_groups(side.rubric, rows.items, letter)
        for letter, side in (("A", a), ("B", b))
    ]
    needed, for_change = _labels_needed(len(rows.items), paired, outcome, margin)
    return RubricComparison(
        a=a.name,
        b=b.name,
        judges=(a.judge, b.judge),
        outcome=outcome,
        comparison=paired,
        margin=margin,
        items=len(rows.items),
        labels=int(rows.item.size),
        groups=paired.groups,
        left_out=tuple(sorted(rated - {item.id for item in rows.items})),
        changed=tuple(_list_changed(a, b, rows, decided)),
        smallest_detectable=smallest_detectable_change(paired.standard_error, paired.groups),
        labels_needed=needed,
        labels_for_change=for_change,
        usd=(a.usd, b.usd),
        in_sample=tuple(filter(None, seen)),
    )


def judge_change(paired: PairedComparison, margin: float = MARGIN) -> Outcome:
    """What an interval of the change proves. NaN bounds (under 3 groups) prove nothing."""
    if paired.change.low > 0.0:
        return "better"
    if paired.change.high < 0.0:
        return "worse"
    return "no worse" if paired.change.low > -margin else "unknown"


def _labels_needed(
    items: int, paired: PairedComparison, outcome: Outcome, margin: float
) -> tuple[int | None, int | None]:
    if paired.groups < 3:
        return None, None
    se, groups, change = paired.standard_error, paired.groups, abs(paired.change.value)
    unknown = outcome == "unknown" and margin > 0.0
    needed = estimate_labels_needed(items, se, groups, margin) if unknown else None
    open_ = outcome in {"unknown", "no worse"} and change > 0.0
    return needed, estimate_labels_needed(items, se, groups, change) if open_ else None


def _decide(side: ComparedRubric, items: Sequence[Item]) -> list[Scorecard]:
    scored = [replace(item, scores=side.scores[item.id]) for item in items]
    require_scores(side.rubric, scored)
    return [decide_item(side.rubric, item) for item in scored]


def _list_changed(
    a: ComparedRubric, b: ComparedRubric, rows: LabeledRows, decided: list[list[Scorecard]]
) -> Iterator[ChangedDecision]:
    for i, (item, old, new) in enumerate(zip(rows.items, *decided, strict=True)):
        if old.accepted == new.accepted:
            continue
        before, after = a.scores[item.id], b.scores[item.id]
        pairs = {n: (before.get(n), after.get(n)) for n in (*before, *after)}
        scores = {name: (one, other) for name, (one, other) in pairs.items() if one != other}
        yield ChangedDecision(
            item.id, item.url, item.text, rows.label_of(i), old.accepted, new.accepted,
            old.total, new.total, scores,
        )  # fmt: skip
