"""A frozen set that CI holds the judge to: agreement may not drop by more than its noise."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from msgspec import Struct

from orchestrator.engine.types import Json, Rubric
from orchestrator.errors import InputError
from orchestrator.tuning import decision_rule
from orchestrator.tuning.confidence_intervals import Compared, change, compare, number
from orchestrator.tuning.decision_flips import accepts
from orchestrator.tuning.labels import Label
from orchestrator.tuning.rubric_file import rule_digest
from orchestrator.tuning.training_data import Labeled
from orchestrator.tuning.tuning_provenance import labels_digest, seen_groups

FORMAT = 1


class Gate(Struct, frozen=True):
    """The answer of a gate.

    Attributes:
        passed: agreement did not drop by more than its noise.
        compared: frozen decisions against present ones, by kappa.
        changed: items decided otherwise than when the set was frozen.
        seen: groups of the frozen set that the rubric was tuned on.
    """

    passed: bool
    compared: Compared
    changed: tuple[str, ...]
    seen: int

    def line(self) -> str:
        """The outcome in a sentence."""
        c = self.compared
        how = "passed" if self.passed else "failed"
        return (
            f"gate {how}: kappa {number(c.before.value)} when frozen, {number(c.after.value)} now, "
            f"change {change(c.delta.value)} [{change(c.delta.low)}, {change(c.delta.high)}], "
            f"{len(self.changed)} decisions changed"
        )


def freeze(rubric: Rubric, data: Labeled, labels: list[Label]) -> dict[str, Json]:
    """A baseline document: what the rubric decides now on each labeled item."""
    return {
        "format": FORMAT,
        "rubric": {"name": rubric.name, "version": rubric.version, "rule": rule_digest(rubric)},
        "labels": labels_digest(labels),
        "decisions": {i.id: accepts(rubric, i.scores)[0] for i in data.items},
    }


def read_baseline(path: Path) -> Mapping[str, Json]:
    """Read a baseline document.

    Raises:
        InputError: it cannot be read, or is none.
    """
    try:
        doc = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror}; make it with rubric gate --freeze"
        ) from None
    except ValueError as error:
        raise InputError(f"{path}: is not a baseline: {error}") from None
    if not isinstance(doc, dict) or doc.get("format") != FORMAT:
        raise InputError(f"{path}: is not a baseline of format {FORMAT}; make a new one")
    return doc


def check(rubric: Rubric, data: Labeled, labels: list[Label], baseline: Mapping[str, Json]) -> Gate:
    """Hold the present rubric and scores against a baseline.

    Agreement has dropped by more than its noise when the whole 95% interval of the paired change in
    kappa lies below 0. Where there are too few groups to tell, any changed decision fails.

    Raises:
        InputError: the labels are not those of the baseline.
    """
    if baseline.get("labels") != labels_digest(labels):
        raise InputError("the frozen set's labels have changed; freeze it again and say why")
    decisions: Mapping[str, bool] = baseline["decisions"]
    s = data.sample
    before = np.array([decisions[i.id] for i in data.items])[s.item]
    now = {i.id: accepts(rubric, i.scores)[0] for i in data.items}
    after = np.array([now[i.id] for i in data.items])[s.item]
    compared = compare(decision_rule.Aim(), before, after[None, :], s.accept, s.weight, s.group)
    changed = tuple(i.id for i in data.items if now[i.id] != decisions[i.id])
    return Gate(
        passed=not changed or compared.delta.high >= 0.0,
        compared=compared,
        changed=changed,
        seen=seen_groups(rubric, data.items),
    )
