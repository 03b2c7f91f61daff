"""Regression gate for CI: agreement with a baseline's labels must not drop."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from orchestrator.engine.types import Rubric
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.file_formats.rubric_file import digest_rule
from orchestrator.tuning.file_formats.text_files import read_struct
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats
from orchestrator.tuning.fitting.rule_fitting import Sample
from orchestrator.tuning.labels.label_files import Label, Scale, Value
from orchestrator.tuning.provenance import describe_seen_groups
from orchestrator.tuning.rubric_decisions import Flip, Objective, decide_item
from orchestrator.tuning.statistics.confidence_intervals import (
    POWER,
    PairedComparison,
    compare_decisions,
    compare_fixed_rules,
    estimate_labels_needed,
    score_without_groups,
    t_quantile,
)
from orchestrator.tuning.training_data import TrainingData, build_training_data, summarize_labels

FORMAT = 2
_SIMULATIONS, _BISECTIONS, _SEED = 200, 7, 20260101
_MAX_ROWS = 400_000
"""Rows of all simulations together: with many labels the drop hardly varies between them."""


Outcome = Literal["passed", "failed", "unknown"]


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

    outcome: Outcome
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
    decisions = {i.id: decide_item(rubric, i).accepted for i in data.items}
    said = tuple(sorted((x.item, x.rater, x.label) for x in labels))
    return Baseline(FORMAT, about, said, decisions)


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
    scale: Scale,
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
    data = build_training_data(rubric, items, both, scale)
    s, decisions = data.sample, baseline.decisions
    before: Bools = np.array([decisions[i.id] for i in data.items])[s.item]
    current = {i.id: decide_item(rubric, i) for i in data.items}
    after: Bools = np.array([current[i.id].accepted for i in data.items])[s.item]
    rows = (s.accept, s.weight, s.group)
    if margin is None:
        comparison = compare_decisions(Objective(), before, after[None, :], *rows)
    else:
        comparison = compare_fixed_rules(before, after, *rows)
    said = summarize_labels(data)
    changed = tuple(
        Flip(i.id, i.url, decisions[i.id], None, current[i.id].total, said[i.id])
        for i in data.items
        if current[i.id].accepted != decisions[i.id]
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


def _judge(comparison: PairedComparison, margin: float | None) -> Outcome:
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
    high = change + _half_widths(omitted[1:] - omitted[0])
    return float((high < 0.0).mean()), float(-change.mean())


def _half_widths(omitted: Floats) -> Floats:
    """Half of the 95% interval of each row of (s, groups) leave-one-group-out values."""
    groups = omitted.shape[1]
    if groups < 3:
        return np.full(omitted.shape[0], np.inf)
    variance = (groups - 1) / groups * ((omitted - omitted.mean(axis=1, keepdims=True)) ** 2).sum(1)
    half: Floats = t_quantile(groups - 1) * np.sqrt(variance)
    return half
