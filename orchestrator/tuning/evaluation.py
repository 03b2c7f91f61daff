"""How a rubric, as it stands, agrees with people."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from orchestrator.engine.types import Rubric
from orchestrator.tuning import agreement, decision_rule
from orchestrator.tuning.calibration import Calibration
from orchestrator.tuning.confidence_intervals import (
    Interval,
    jackknife,
    kappa_interval,
    of_statistic,
    without_each,
)
from orchestrator.tuning.criterion_analysis import Criterion, examine
from orchestrator.tuning.feasibility import Human, human_agreement
from orchestrator.tuning.items import Item
from orchestrator.tuning.judge_noise import Repeats, length_sway, repeat_noise
from orchestrator.tuning.labels import RANKS
from orchestrator.tuning.rubric_file import stale
from orchestrator.tuning.training_data import Labeled
from orchestrator.tuning.tuning_provenance import seen_groups
from orchestrator.tuning.weight_fitting import Bools, Floats


class Evaluation(Struct, frozen=True):
    """Agreement of a rubric with people, next to the ceiling and to trivial policies.

    Attributes:
        kappa, alpha, ac1: of accept or reject, rubric against person.
        weighted: quadratically weighted kappa of the recorded verdicts (merge, needs_changes,
        block)
            against labels on that scale; None where either is missing.
        auc: how well the total orders items.
        table: (2, 2) weighted counts, rows what people say, columns what the rubric says; reject
            comes first.
        curve: reliability of the total read as a probability, through the calibration of the tuning
            where there is one.
        trivial: kappa of policies that look at nothing or at little.
        sway: rank correlation of total and text length within a label.
        seen: the rubric was tuned on items of these groups, so this flatters it.
    """

    name: str
    version: int
    items: int
    labels: int
    groups: int
    kappa: Interval | None
    alpha: Interval | None
    ac1: Interval | None
    weighted: Interval | None
    auc: Interval | None
    table: tuple[tuple[float, float], tuple[float, float]]
    calibrated: bool
    curve: tuple[agreement.Bin, ...]
    ece: float
    human: Human
    trivial: Mapping[str, float]
    criteria: tuple[Criterion, ...]
    repeats: Repeats | None
    sway: float | None
    stale: tuple[str, ...]
    seen: bool


def evaluate(rubric: Rubric, data: Labeled, items: list[Item], labels: str) -> Evaluation:
    """Evaluate a rubric.

    Args:
        data: labeled items, built for this rubric.
        items: all items, repeated scorings included.
        labels: digest of the labels.
    """
    s = data.sample
    t = decision_rule.totals(s.x, s.w0[None, :], s.blocked)[0]
    said: Bools = t >= rubric.threshold
    y, w = s.accept, s.weight
    both = np.stack([y, said]).astype(float)
    cal = calibration_of(rubric)
    p = cal.probability(t) if cal else np.clip(t, 0.0, 1.0)
    curve = agreement.reliability(p, y, w)
    table = agreement.confusion(y.astype(np.int64), said.astype(np.int64), 2, w)
    return Evaluation(
        rubric.name,
        rubric.version,
        items=len(data.items),
        labels=int(y.size),
        groups=int(np.unique(s.group).size),
        kappa=_kappa(y, said, w, s.group),
        alpha=of_statistic(
            lambda v: agreement.krippendorff_alpha(both[:, v > 0], "nominal"), w, s.group
        ),
        ac1=of_statistic(lambda v: agreement.gwet_ac1(both[:, v > 0], 2), w, s.group),
        weighted=_weighted(data),
        auc=of_statistic(lambda v: agreement.auc(t, y, v), w, s.group),
        table=((float(table[0, 0]), float(table[0, 1])), (float(table[1, 0]), float(table[1, 1]))),
        calibrated=cal is not None,
        curve=tuple(curve),
        ece=agreement.ece(curve),
        human=human_agreement(data),
        trivial=_trivial(data, rubric),
        criteria=tuple(examine(s, data.free)),
        repeats=repeat_noise(rubric, items),
        sway=_sway(data, t),
        stale=tuple(stale(rubric, labels)),
        seen=bool(seen_groups(rubric, data.items)),
    )


def calibration_of(rubric: Rubric) -> Calibration | None:
    """The calibration that a tuned rubric carries."""
    tuned: Any = rubric.provenance.get("tuned")
    found = tuned.get("calibration") if isinstance(tuned, dict) else None
    if not isinstance(found, dict):
        return None
    return Calibration(found["method"], tuple(found["x"]), tuple(found["p"]))


def _kappa(y: Bools, said: Bools, w: Floats, group: Any) -> Interval | None:
    value = agreement.cohen_kappa(
        agreement.confusion(y.astype(np.int64), said.astype(np.int64), 2, w)
    )
    if value is None:
        return None
    less = decision_rule.Aim().of(said, y, without_each(group, w))
    return kappa_interval(value, jackknife(less), less.size)


def _weighted(data: Labeled) -> Interval | None:
    if data.scale.values != tuple(RANKS):
        return None
    s = data.sample
    told = np.array([RANKS.get(i.verdict, -1) for i in data.items], dtype=np.int64)
    if (told < 0).any():
        return None
    label = data.ratings[data.rater, s.item].astype(np.int64)
    return of_statistic(
        lambda v: agreement.cohen_kappa(
            agreement.confusion(label, told[s.item], len(RANKS), v), "quadratic"
        ),
        s.weight,
        s.group,
    )


def _trivial(data: Labeled, rubric: Rubric) -> dict[str, float]:
    """Kappa of accepting all and rejecting all (0 by definition) and of equal weights."""
    s = data.sample
    t = decision_rule.totals(s.x, np.sign(s.w0)[None, :], s.blocked)[0]
    equal = decision_rule.Aim().of(t >= rubric.threshold, s.accept, s.weight)
    return {"accept all": 0.0, "reject all": 0.0, "equal weights": float(equal)}


def _sway(data: Labeled, t: Floats) -> float | None:
    s = data.sample
    length = np.array([len(i.text) for i in data.items], dtype=float)[s.item]
    return length_sway(t, length, s.accept.astype(float))
