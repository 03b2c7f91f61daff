"""Evaluate a rubric against labels: agreement, calibration, criteria, and the judge's noise."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from orchestrator.engine.types import Rubric
from orchestrator.tuning import agreement, calibration, rubric_decisions
from orchestrator.tuning.calibration import Calibration
from orchestrator.tuning.confidence_intervals import (
    Interval,
    jackknife_interval,
    jackknife_variance,
    kappa_interval,
    leave_one_group_out,
)
from orchestrator.tuning.criterion_analysis import CriterionAnalysis, analyze_criteria
from orchestrator.tuning.item_files import Item
from orchestrator.tuning.judge_reliability import (
    RepeatedScoring,
    measure_length_bias,
    measure_repeated_scoring,
)
from orchestrator.tuning.label_assessment import InterRaterAgreement, measure_inter_rater_agreement
from orchestrator.tuning.labels import VERDICT_RANKS
from orchestrator.tuning.ordinal_regression import Bools, Floats, Ints
from orchestrator.tuning.provenance import count_seen_groups, list_judges
from orchestrator.tuning.rubric_file import find_stale_inputs
from orchestrator.tuning.training_data import TrainingData


class Evaluation(Struct, frozen=True):
    """Agreement of a rubric with people, beside inter-rater agreement and trivial policies.

    Attributes:
        kappa, alpha, ac1: of accept or reject, rubric against people.
        weighted_kappa: quadratically weighted kappa of the recorded verdicts (merge, needs_changes,
            block) against labels on that scale; None where either is missing.
        auc: how well the total ranks accepted items above rejected ones.
        confusion: (2, 2) weighted counts; rows are people's decisions, columns the rubric's, reject
            first.
        calibrated: probabilities come from the rubric's calibration; else from the total itself.
        reliability: reliability diagram of these probabilities.
        trivial_policies: kappa of policies that use little or nothing of an item.
        length_correlation: rank correlation of total and text length within a label.
        stale_inputs: what has changed since the rubric was tuned.
        tuned_on_these: the rubric was tuned on items of these groups, so agreement is optimistic.
    """

    name: str
    version: int
    items: int
    labels: int
    groups: int
    kappa: Interval | None
    alpha: Interval | None
    ac1: Interval | None
    weighted_kappa: Interval | None
    auc: Interval | None
    confusion: tuple[tuple[float, float], tuple[float, float]]
    calibrated: bool
    reliability: tuple[calibration.ReliabilityBin, ...]
    calibration_error: float
    inter_rater: InterRaterAgreement
    trivial_policies: Mapping[str, float]
    criteria: tuple[CriterionAnalysis, ...]
    repeated_scoring: RepeatedScoring | None
    length_correlation: float | None
    stale_inputs: tuple[str, ...]
    tuned_on_these: bool


def evaluate_rubric(
    rubric: Rubric, data: TrainingData, items: list[Item], labels: str
) -> Evaluation:
    """Evaluate a rubric."""
    s = data.sample
    t = s.totals(s.w0[None, :])[0]
    accept: Bools = t >= rubric.threshold
    y, w = s.accept, s.weight
    both = np.stack([y, accept]).astype(float)
    fitted = read_calibration(rubric)
    p = fitted.predict(t) if fitted else np.clip(t, 0.0, 1.0)
    curve = calibration.reliability_curve(p, y, w)
    table = agreement.confusion_matrix(y.astype(np.int64), accept.astype(np.int64), 2, w)
    return Evaluation(
        rubric.name,
        rubric.version,
        items=len(data.items),
        labels=int(y.size),
        groups=int(np.unique(s.group).size),
        kappa=measure_kappa(y, accept, w, s.group),
        alpha=jackknife_interval(
            lambda v: agreement.krippendorff_alpha(both, "nominal", v), w, s.group
        ),
        ac1=jackknife_interval(lambda v: agreement.gwet_ac1(both, 2, v), w, s.group),
        weighted_kappa=_weighted_kappa(data),
        auc=jackknife_interval(lambda v: agreement.roc_auc(t, y, v), w, s.group),
        confusion=(
            (float(table[0, 0]), float(table[0, 1])),
            (float(table[1, 0]), float(table[1, 1])),
        ),
        calibrated=fitted is not None,
        reliability=tuple(curve),
        calibration_error=calibration.expected_calibration_error(curve),
        inter_rater=measure_inter_rater_agreement(data),
        trivial_policies=_score_trivial_policies(data, rubric),
        criteria=tuple(analyze_criteria(s, data.free_nodes)),
        repeated_scoring=measure_repeated_scoring(rubric, items),
        length_correlation=_correlate_length(data, t),
        stale_inputs=tuple(find_stale_inputs(rubric, labels, list_judges(data.items))),
        tuned_on_these=bool(count_seen_groups(rubric, data.items)),
    )


def read_calibration(rubric: Rubric) -> Calibration | None:
    """The calibration in a tuned rubric's provenance; None where there is none."""
    tuned: Any = rubric.provenance.get("tuned")
    found = tuned.get("calibration") if isinstance(tuned, dict) else None
    if not isinstance(found, dict):
        return None
    return Calibration(found["method"], tuple(found["x"]), tuple(found["p"]))


def measure_kappa(y: Bools, accept: Bools, w: Floats, group: Ints) -> Interval | None:
    """Cohen's kappa of two rows of decisions; None for a single class."""
    value = agreement.cohen_kappa(
        agreement.confusion_matrix(y.astype(np.int64), accept.astype(np.int64), 2, w)
    )
    if value is None:
        return None
    omitted = rubric_decisions.Objective().score(accept, y, leave_one_group_out(group, w))
    return kappa_interval(value, jackknife_variance(omitted), omitted.size)


def _weighted_kappa(data: TrainingData) -> Interval | None:
    """Quadratically weighted kappa of recorded verdicts and labels."""
    if data.scale.values != tuple(VERDICT_RANKS):
        return None
    s = data.sample
    verdict = np.array([VERDICT_RANKS.get(i.verdict, -1) for i in data.items], dtype=np.int64)
    if (verdict < 0).any():
        return None
    label = data.ratings[data.rater, s.item].astype(np.int64)
    return jackknife_interval(
        lambda v: agreement.cohen_kappa(
            agreement.confusion_matrix(label, verdict[s.item], len(VERDICT_RANKS), v), "quadratic"
        ),
        s.weight,
        s.group,
    )


def _score_trivial_policies(data: TrainingData, rubric: Rubric) -> dict[str, float]:
    """Kappa of accepting all and rejecting all (0 by definition) and of equal weights."""
    s = data.sample
    t = s.totals(np.sign(s.w0)[None, :])[0]
    equal = rubric_decisions.Objective().score(t >= rubric.threshold, s.accept, s.weight)
    return {"accept all": 0.0, "reject all": 0.0, "equal weights": float(equal)}


def _correlate_length(data: TrainingData, t: Floats) -> float | None:
    s = data.sample
    length = np.array([len(i.text) for i in data.items], dtype=float)[s.item]
    return measure_length_bias(t, length, s.accept.astype(float))
