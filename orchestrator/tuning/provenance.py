"""Provenance of a tuned rubric: digests of its inputs, settings and held-out agreement."""

import hashlib
import math
from collections.abc import Iterable

import numpy as np
from msgspec import to_builtins
from msgspec.structs import replace

from orchestrator.engine.canonical_json import digest
from orchestrator.engine.types import Json, Rubric
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.file_formats.rubric_file import digest_criteria, digest_judge, digest_rule
from orchestrator.tuning.fitting.weight_tree import find_zeroed
from orchestrator.tuning.labels.label_files import Label
from orchestrator.tuning.statistics.confidence_intervals import Interval
from orchestrator.tuning.training_data import TrainingData
from orchestrator.tuning.tuning_result import TuningResult
from orchestrator.wording import count_noun

METHOD = "logistic regression, ridge towards present weights, averaged over penalties"
METHOD_THRESHOLD = "threshold only"


def digest_labels(labels: Iterable[Label]) -> str:
    """SHA-256 of item, rater and label, regardless of order, notes and times."""
    return digest(sorted([x.item, x.rater, x.label] for x in labels))


def hash_groups(items: Iterable[Item]) -> list[str]:
    """Short digests of the group names, to detect later that items were used for tuning."""
    names = {i.group for i in items}
    return sorted(hashlib.sha256(name.encode()).hexdigest()[:10] for name in names)


def list_judges(items: Iterable[Item]) -> list[str]:
    """The judges of the items, each once."""
    return sorted({i.judge for i in items if i.judge})


def count_seen_groups(rubric: Rubric, items: Iterable[Item]) -> int:
    """Number of the items' groups that the rubric was tuned on, or a criterion reworded from."""
    made = (rubric.provenance.get(how) for how in ("tuned", "rewritten"))
    lists = [found.get("groups") for found in made if isinstance(found, dict)]
    seen = {str(one) for found in lists if isinstance(found, list) for one in found}
    return len(seen & set(hash_groups(items)))


def describe_seen_groups(rubric: Rubric, items: Iterable[Item], name: str = "the rubric") -> str:
    """A warning that figures on these items are optimistic; empty where they are not."""
    used = list(items)
    seen, groups = count_seen_groups(rubric, used), len({item.group for item in used})
    if not seen:
        return ""
    return (
        f"{name} was tuned on {seen} of these {count_noun(groups, 'group')}, so its agreement here "
        "is optimistic; for held-out figures: diffcourt rubric show"
    )


def add_provenance(
    name: str, old: Rubric, data: TrainingData, labels: list[Label], result: TuningResult
) -> Rubric:
    """The tuned rubric with its name, next version and provenance.

    Raises:
        ValueError: nothing was fitted.
    """
    new, comparison, fitted = result.rubric, result.comparison, result.calibration
    if new is None or comparison is None or fitted is None:
        raise ValueError("nothing was fitted")
    s, objective = data.sample, result.plan.objective
    held_out = {
        "before": comparison.before, "after": comparison.after, "change": comparison.change
    }  # fmt: skip
    costs: dict[str, Json] = {
        "cost_false_merge": objective.false_merge_cost,
        "cost_false_block": objective.false_block_cost,
    }
    tuned: dict[str, Json] = {
        "method": METHOD if result.plan.fit_weights else METHOD_THRESHOLD,
        "objective": costs if objective.uses_costs else "kappa",
        "signs": "free" if result.plan.free_signs else "kept",
        "seed": result.seed,
        "penalty": "inf" if math.isinf(result.penalty) else result.penalty,
        "from": {"name": old.name, "version": old.version, "rule": digest_rule(old)},
        "labels": digest_labels(labels),
        "scores": digest(sorted([i.id, i.repeat, sorted(i.scores.items())] for i in data.items)),
        "criteria": digest_criteria(new),
        "judge": digest_judge(new),
        "judges": list_judges(data.items),
        "rule": digest_rule(new),
        "counts": {
            "items": len(data.items),
            "labels": int(s.y.size),
            "groups": int(np.unique(s.group).size),
            "raters": len(data.raters),
        },
        "scale": {"values": list(data.scale.values), "accept_from": data.scale.cut},
        "held_out": {k: _round_interval(v) for k, v in held_out.items()},
        "calibration_error": round(result.calibration_error, 6),
        "calibration": to_builtins(fitted),
        "groups": hash_groups(data.items),
        "zeroed": dict(find_zeroed(data.full_rubric, new)),
    }
    kept = {k: v for k, v in old.provenance.items() if k != "tuned"}
    return replace(new, name=name, version=old.version + 1, provenance={**kept, "tuned": tuned})


def _round_interval(x: Interval) -> list[Json]:
    """Value, low and high; null for NaN, which JSON lacks."""
    return [None if math.isnan(v) else round(v, 6) for v in (x.value, x.low, x.high)]
