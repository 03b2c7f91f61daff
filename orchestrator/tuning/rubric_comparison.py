"""Compare two rubrics, wordings, prompts or models on the same labeled items.

Both sides decide each labeled item; the paired change of Cohen's kappa has a 95% interval by group.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.rubric_scoring import Given, Scorecard
from orchestrator.engine.types import Rubric
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import Item, describe_seen_groups, unique_items
from orchestrator.tuning.file_formats.rubric_file import digest_rule
from orchestrator.tuning.file_formats.text_files import read_struct
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats, Ints
from orchestrator.tuning.fitting.rule_fitting import Sample
from orchestrator.tuning.labels.label_files import Label, Scale, Value
from orchestrator.tuning.rubric_decisions import Flip, Objective, decide_item
from orchestrator.tuning.statistics.confidence_intervals import (
    POWER,
    PairedComparison,
    compare_decisions,
    compare_fixed_rules,
    estimate_labels_needed,
    jackknife_variance,
    number_groups,
    score_without_groups,
    smallest_detectable_change,
    t_interval,
)
from orchestrator.tuning.training_data import (
    TrainingData,
    build_training_data,
    require_scores,
    summarize_labels,
)

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


FORMAT = 2
_SIMULATIONS, _BISECTIONS, _SEED = 200, 7, 20260101
_MAX_ROWS = 400_000
"""Rows of all simulations together: with many labels the drop hardly varies between them."""

GateOutcome = Literal["passed", "failed", "unknown"]


class Baseline(Struct, frozen=True):
    """A rubric's decisions on labeled items, and the labels: item, rater, label."""

    format: int
    rubric: Mapping[str, Any]
    labels: tuple[tuple[str, str, Value], ...]
    decisions: Mapping[str, bool]


class GateResult(Struct, frozen=True):
    """Outcome of a regression gate.

    Attributes:
        outcome: ``unknown`` where the labels are too few to tell.
        margin: the largest drop in kappa that is allowed; None asks for no significant drop.
        comparison: decisions of the baseline and present ones, by kappa.
        detectable_drop: smallest drop in kappa that this gate finds with a probability of 80%; None
            where it finds none.
        labels_needed: labeled items with which a rubric that agrees as well would pass with a
            probability of 80%, where the outcome is unknown.
        items: number of items that were compared.
        changed: items that are decided differently than in the baseline; ``before`` is unknown.
        not_compared: labels that only the baseline or only the present files have, in words.
        in_sample: a warning that the rubric was tuned on these items; empty where it was not.
    """

    outcome: GateOutcome
    margin: float | None
    comparison: PairedComparison
    detectable_drop: float | None
    labels_needed: int | None
    items: int
    changed: tuple[Flip, ...]
    not_compared: str
    in_sample: str


def freeze_decisions(rubric: Rubric, data: TrainingData, labels: list[Label]) -> Baseline:
    """A baseline: the rubric's present decision on each labeled item."""
    about = {"name": rubric.name, "version": rubric.version, "rule": digest_rule(rubric)}
    decisions = {i.id: bool(v) for i, v in zip(data.items, data.accepted, strict=True)}
    labeled = tuple(sorted((x.item, x.rater, x.label) for x in labels))
    return Baseline(FORMAT, about, labeled, decisions)


def read_baseline(path: Path) -> Baseline:
    """Read a baseline.

    Raises:
        InputError: it cannot be read, or is not a baseline.
    """
    found = read_struct(path, Baseline, "a baseline")
    if found.format != FORMAT:
        raise InputError(
            f"{path}: is not a baseline of format {FORMAT}; create a new one: --freeze"
        )
    undecided = {item for item, _, _ in found.labels} - found.decisions.keys()
    if undecided:
        raise InputError(
            f"{path}: is not a baseline: it has no decision of {min(undecided)!r}; create a new "
            "one: --freeze"
        )
    return found


def check_against_baseline(
    rubric: Rubric,
    items: list[Item],
    labels: list[Label],
    data: TrainingData,
    baseline: Baseline,
    margin: float | None = None,
) -> GateResult:
    """Compare the present rubric and scores with a baseline, on the labels that both have.

    Agreement has dropped significantly when the whole 95% confidence interval of the paired change
    in kappa is below 0. With a margin, the gate passes only when that interval lies above minus the
    margin (non-inferiority).

    Raises:
        InputError: no label is that of the baseline, or a score is missing.
    """
    frozen = set(baseline.labels)
    both = [x for x in labels if (x.item, x.rater, x.label) in frozen]
    if not both:
        raise InputError("no label is as in the baseline; create a new one with --freeze --force")
    if len(both) < len(labels):
        data = build_training_data(rubric, items, both, data.scale)
    s, decisions = data.sample, baseline.decisions
    before: Bools = np.array([decisions[i.id] for i in data.items])[s.item]
    after = data.accepted[s.item]
    rows = (s.accept, s.weight, s.group)
    if margin is None:
        comparison = compare_decisions(Objective(), before, after[None, :], *rows)
    else:
        comparison = compare_fixed_rules(before, after, *rows)
    votes = summarize_labels(data)
    changed = tuple(
        Flip(i.id, i.url, decisions[i.id], None, decide_item(rubric, i).total, votes[i.id])
        for i, accepted in zip(data.items, data.accepted.tolist(), strict=True)
        if accepted != decisions[i.id]
    )
    outcome = _judge(comparison, margin) if changed or margin is not None else "passed"
    needed = None
    if outcome == "unknown" and margin is not None and comparison.groups >= 3:
        error, groups = comparison.standard_error, comparison.groups
        needed = estimate_labels_needed(len(data.items), error, groups, margin)
    return GateResult(
        outcome=outcome,
        margin=margin,
        comparison=comparison,
        detectable_drop=find_detectable_drop(s, before),
        labels_needed=needed,
        items=len(data.items),
        changed=changed,
        not_compared=_describe_other_labels(labels, baseline),
        in_sample=describe_seen_groups(rubric, data.items),
    )


def _describe_other_labels(labels: list[Label], baseline: Baseline) -> str:
    """How many labels are new, changed or gone since the baseline, in words."""
    old = {(item, rater): label for item, rater, label in baseline.labels}
    new = {(x.item, x.rater): x.label for x in labels}
    counts = {
        "new": len(new.keys() - old.keys()),
        "changed": sum(new[key] != old[key] for key in new.keys() & old.keys()),
        "gone": len(old.keys() - new.keys()),
    }
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


def _judge(comparison: PairedComparison, margin: float | None) -> GateOutcome:
    change = comparison.change
    if math.isnan(change.low):
        return "unknown"
    if margin is None:
        return "failed" if change.high < 0.0 else "passed"
    if change.low >= -margin:
        return "passed"
    return "failed" if change.high < 0.0 else "unknown"


def find_detectable_drop(s: Sample, before: Bools) -> float | None:
    """The smallest drop in kappa that is significant with a probability of 80%.

    Simulated: a share of the items, chosen at random, is decided the other way; the share is found
    by bisection. The drop is the mean over the simulations.
    """
    rng = np.random.default_rng(_SEED)
    times = min(_SIMULATIONS, max(_MAX_ROWS // s.y.size, 40))
    order = rng.random((times, int(s.item.max()) + 1))[:, s.item]
    low, high, found = 0.0, 0.5, None
    for _ in range(_BISECTIONS):
        share = (low + high) / 2.0
        power, drop = _simulate_flips(s, before, order < share)
        if power >= POWER:
            high, found = share, drop
        else:
            low = share
    return found


def _simulate_flips(s: Sample, before: Bools, flipped: Bools) -> tuple[float, float]:
    """Share of simulations with a significant drop, and the mean drop."""
    decisions = np.concatenate([before[None, :], before ^ flipped])
    values, omitted = score_without_groups(Objective(), decisions, s.accept, s.weight, s.group)
    change = values[1:] - values[0]
    found = (
        t_interval(float(value), jackknife_variance(without), without.size)
        for value, without in zip(change, omitted[1:] - omitted[0], strict=True)
    )
    return float(np.mean([one.high < 0.0 for one in found])), float(-change.mean())
