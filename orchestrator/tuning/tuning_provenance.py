"""What a tuned rubric carries: everything its weights were fitted on, so that it can be doubted."""

import hashlib
import math
from collections.abc import Iterable

import numpy as np
from msgspec.structs import replace

from orchestrator.engine.canonical_json import digest
from orchestrator.engine.types import Json, Rubric
from orchestrator.tuning.confidence_intervals import Interval
from orchestrator.tuning.items import Item
from orchestrator.tuning.labels import Label
from orchestrator.tuning.rubric_file import judge_digest, rule_digest, text_digest
from orchestrator.tuning.training_data import Labeled
from orchestrator.tuning.tune import Outcome

METHOD = "sign-constrained logistic, ridge towards the present weights, one-standard-error rule"
METHOD_THRESHOLD = "threshold only"


def labels_digest(labels: Iterable[Label]) -> str:
    """SHA-256 of who said what of which item, in no order; notes and times do not count."""
    return digest(sorted([x.item, x.rater, x.label] for x in labels))


def scores_digest(items: Iterable[Item]) -> str:
    """SHA-256 of the items' scores, in no order."""
    return digest(sorted([i.id, i.repeat, sorted(i.scores.items())] for i in items))


def group_marks(items: Iterable[Item]) -> list[str]:
    """Short digests of the groups, to see later whether a frozen set is really unseen."""
    names = {i.group for i in items}
    return sorted(hashlib.sha256(name.encode()).hexdigest()[:10] for name in names)


def seen_groups(rubric: Rubric, items: Iterable[Item]) -> int:
    """How many of the items' groups the rubric was tuned on."""
    tuned = rubric.provenance.get("tuned")
    marks = tuned.get("groups", []) if isinstance(tuned, dict) else []
    return len(set(marks) & set(group_marks(items)))


def stamp(name: str, old: Rubric, data: Labeled, labels: list[Label], outcome: Outcome) -> Rubric:
    """The candidate as it is to be written: next version, with its provenance.

    Args:
        name: the new rubric's name, which is its file's.
        labels: what it was fitted on.

    Raises:
        ValueError: nothing was fitted.
    """
    new, compared, cal = outcome.rubric, outcome.compared, outcome.calibration
    if new is None or compared is None or cal is None:
        raise ValueError("nothing was fitted")
    s = data.sample
    held = {"before": compared.before, "after": compared.after, "change": compared.delta}
    aim = outcome.plan.aim
    tuned: dict[str, Json] = {
        "method": METHOD if outcome.plan.weights else METHOD_THRESHOLD,
        "aim": {"cost_false_merge": aim.merge, "cost_false_block": aim.block}
        if aim.by_cost
        else "kappa",
        "seed": outcome.seed,
        "penalty": "inf" if math.isinf(outcome.penalty) else outcome.penalty,
        "from": {"name": old.name, "version": old.version, "rule": rule_digest(old)},
        "labels": labels_digest(labels),
        "scores": scores_digest(data.items),
        "criteria": text_digest(new),
        "judge": judge_digest(new),
        "rule": rule_digest(new),
        "counts": {
            "items": len(data.items),
            "labels": int(s.y.size),
            "groups": int(np.unique(s.group).size),
            "raters": len(data.raters),
        },
        "scale": {"values": list(data.scale.values), "accept_from": data.scale.cut},
        "held_out": {k: _interval(v) for k, v in held.items()},
        "calibration_error": round(outcome.ece, 6),
        "calibration": cal.document(),
        "groups": group_marks(data.items),
    }
    kept = {k: v for k, v in old.provenance.items() if k != "tuned"}
    return replace(new, name=name, version=old.version + 1, provenance={**kept, "tuned": tuned})


def _interval(x: Interval) -> list[Json]:
    """Value, low and high, as far as they are known; JSON has no NaN."""
    return [None if math.isnan(v) else round(v, 6) for v in (x.value, x.low, x.high)]
