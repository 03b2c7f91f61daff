"""Regression gate for CI: agreement with a baseline's labels must not drop."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec import Struct

from orchestrator.engine.types import Json, Rubric
from orchestrator.errors import InputError
from orchestrator.foreign_json import parse_json
from orchestrator.tuning.file_formats.rubric_file import digest_rule
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats
from orchestrator.tuning.fitting.rule_fitting import Sample
from orchestrator.tuning.labels.label_files import Label
from orchestrator.tuning.provenance import count_seen_groups, digest_labels
from orchestrator.tuning.rubric_decisions import Flip, Objective, decide_item
from orchestrator.tuning.statistics.confidence_intervals import (
    PairedComparison,
    compare_decisions,
    score_without_groups,
    t_quantile,
)
from orchestrator.tuning.statistics.power import POWER, estimate_labels_needed
from orchestrator.tuning.training_data import TrainingData, summarize_labels

FORMAT = 1
_SIMULATIONS, _BISECTIONS, _SEED = 200, 7, 20260101


Outcome = Literal["passed", "failed", "unknown"]


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
        items: number of items of the baseline.
        changed: items that are decided differently than in the baseline; ``before`` is unknown.
        tuned_groups: number of the baseline's groups that the rubric was tuned on.
    """

    outcome: Outcome
    margin: float | None
    comparison: PairedComparison
    detectable_drop: float | None
    labels_needed: int | None
    items: int
    changed: tuple[Flip, ...]
    tuned_groups: int


def freeze_decisions(rubric: Rubric, data: TrainingData, labels: list[Label]) -> dict[str, Json]:
    """A baseline document: the rubric's present decision on each labeled item."""
    return {
        "format": FORMAT,
        "rubric": {"name": rubric.name, "version": rubric.version, "rule": digest_rule(rubric)},
        "labels": digest_labels(labels),
        "decisions": {i.id: decide_item(rubric, i.scores)[0] for i in data.items},
    }


def read_baseline(path: Path) -> Mapping[str, Json]:
    """Read a baseline document.

    Raises:
        InputError: it cannot be read, or is not a baseline.
    """
    try:
        doc = parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror}; create it with --freeze"
        ) from None
    except ValueError as error:
        raise InputError(f"{path}: is not a baseline: {error}") from None
    if not isinstance(doc, dict) or doc.get("format") != FORMAT:
        raise InputError(
            f"{path}: is not a baseline of format {FORMAT}; create a new one with --freeze"
        )
    return doc


def check_against_baseline(
    rubric: Rubric,
    data: TrainingData,
    labels: list[Label],
    baseline: Mapping[str, Json],
    margin: float | None = None,
) -> GateResult:
    """Compare the present rubric and scores with a baseline.

    Agreement has dropped significantly when the whole 95% confidence interval of the paired change
    in kappa is below 0. With a margin, the gate passes only when that interval lies above minus the
    margin (non-inferiority).

    Raises:
        InputError: the labels are not those of the baseline.
    """
    if baseline.get("labels") != digest_labels(labels):
        raise InputError(
            "the labels differ from the baseline's; create a new baseline with --freeze"
        )
    decisions: Mapping[str, bool] = baseline["decisions"]
    s = data.sample
    before: Bools = np.array([decisions[i.id] for i in data.items])[s.item]
    now = {i.id: decide_item(rubric, i.scores) for i in data.items}
    after = np.array([now[i.id][0] for i in data.items])[s.item]
    comparison = compare_decisions(Objective(), before, after[None, :], s.accept, s.weight, s.group)
    said = summarize_labels(data)
    changed = tuple(
        Flip(i.id, i.url, decisions[i.id], None, now[i.id][1], said[i.id])
        for i in data.items
        if now[i.id][0] != decisions[i.id]
    )
    outcome = _judge(comparison, margin) if changed else "passed"
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
        tuned_groups=count_seen_groups(rubric, data.items),
    )


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
    order = rng.random((_SIMULATIONS, int(s.item.max()) + 1))[:, s.item]
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
