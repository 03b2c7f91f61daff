"""Regression gate for CI: agreement with a baseline's labels must not drop significantly."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from msgspec import Struct

from orchestrator.engine.types import Json, Rubric
from orchestrator.errors import InputError
from orchestrator.tuning import rubric_decisions
from orchestrator.tuning.confidence_intervals import (
    PairedComparison,
    compare_decisions,
    format_change,
    format_statistic,
)
from orchestrator.tuning.labels import Label
from orchestrator.tuning.provenance import count_seen_groups, digest_labels
from orchestrator.tuning.rubric_decisions import decide_item
from orchestrator.tuning.rubric_file import digest_rule
from orchestrator.tuning.training_data import TrainingData

FORMAT = 1


class GateResult(Struct, frozen=True):
    """Outcome of a regression gate.

    Attributes:
        passed: agreement did not drop significantly.
        comparison: decisions of the baseline and present ones, by kappa.
        changed: ids of items that are decided differently than in the baseline.
        tuned_groups: number of the baseline's groups that the rubric was tuned on.
    """

    passed: bool
    comparison: PairedComparison
    changed: tuple[str, ...]
    tuned_groups: int

    def summary(self) -> str:
        """The outcome in one line."""
        outcome, found = "passed" if self.passed else "failed", self.comparison
        change = found.change
        return (
            f"gate {outcome}: kappa {format_statistic(found.before.value)} at baseline, "
            f"{format_statistic(found.after.value)} now, change {format_change(change.value)} "
            f"[{format_change(change.low)}, {format_change(change.high)}], "
            f"{len(self.changed)} decisions changed"
        )


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
        doc = json.loads(path.read_text(encoding="utf-8"))
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
    rubric: Rubric, data: TrainingData, labels: list[Label], baseline: Mapping[str, Json]
) -> GateResult:
    """Compare the present rubric and scores with a baseline.

    Agreement has dropped significantly when the whole 95% confidence interval of the paired change
    in kappa is below 0. With too few groups for an interval, any changed decision fails the gate.

    Raises:
        InputError: the labels are not those of the baseline.
    """
    if baseline.get("labels") != digest_labels(labels):
        raise InputError(
            "the labels differ from the baseline's; create a new baseline with --freeze"
        )
    decisions: Mapping[str, bool] = baseline["decisions"]
    s = data.sample
    before = np.array([decisions[i.id] for i in data.items])[s.item]
    now = {i.id: decide_item(rubric, i.scores)[0] for i in data.items}
    after = np.array([now[i.id] for i in data.items])[s.item]
    comparison = compare_decisions(
        rubric_decisions.Objective(), before, after[None, :], s.accept, s.weight, s.group
    )
    changed = tuple(i.id for i in data.items if now[i.id] != decisions[i.id])
    return GateResult(
        passed=not changed or comparison.change.high >= 0.0,
        comparison=comparison,
        changed=changed,
        tuned_groups=count_seen_groups(rubric, data.items),
    )
