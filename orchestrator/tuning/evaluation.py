"""Evaluate a rubric against labels: agreement, calibration, criteria, and the judge's noise."""

from typing import Any

import numpy as np
from msgspec import Struct, convert

from orchestrator.engine.types import Rubric
from orchestrator.tuning import rubric_decisions
from orchestrator.tuning.criterion_analysis import (
    BeyondWeights,
    CriterionAnalysis,
    analyze_criteria,
    measure_beyond_weights,
)
from orchestrator.tuning.file_formats.item_files import Item, describe_seen_groups, list_judges
from orchestrator.tuning.file_formats.rubric_file import find_stale_inputs
from orchestrator.tuning.file_formats.text_files import reading
from orchestrator.tuning.fitting import calibration
from orchestrator.tuning.fitting.calibration import Calibration
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats
from orchestrator.tuning.judge_reliability import (
    RepeatedScoring,
    measure_length_bias,
    measure_repeated_scoring,
)
from orchestrator.tuning.labels.label_assessment import (
    InterRaterAgreement,
    measure_inter_rater_agreement,
)
from orchestrator.tuning.labels.label_files import VERDICT_RANKS
from orchestrator.tuning.ordinal_agreement import (
    OrdinalAgreement,
    measure_ordinal_agreement,
    measure_weighted_kappa,
)
from orchestrator.tuning.simple_rules import SimpleRule, measure_simple_rules
from orchestrator.tuning.statistics import agreement, confidence_intervals
from orchestrator.tuning.statistics.confidence_intervals import Interval
from orchestrator.tuning.training_data import (
    MIN_CLASS_ITEMS,
    MIN_GROUPS,
    MIN_LABELS,
    TrainingData,
    require_trainable,
)

_SEED = 20260101
_PAIRS = np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]])
"""What people and the rubric can decide: items of equal decisions are one of their joint weight."""


class Evaluation(Struct, frozen=True):
    """Agreement of a rubric with people, beside inter-rater agreement and trivial policies.

    Attributes:
        kappa, alpha, ac1: of accept or reject, rubric against people.
        weighted_kappa: quadratically weighted kappa of the recorded verdicts (merge, needs_changes,
            block) against labels on that scale; None where either is missing.
        ordinal: agreement on the whole scale; None for accept or reject, or few labels.
        auc: how well the total ranks accepted items above rejected ones.
        confusion: (2, 2) weighted counts; rows are people's decisions, columns the rubric's, reject
            first.
        calibrated: probabilities come from the rubric's calibration; else from the total itself.
        reliability: reliability diagram of these probabilities.
        beyond_weights: None where it was not asked for.
        simple_rules: held out; none where the labels are too few to fit a threshold.
        length_correlation: rank correlation of total and text length within a label.
        stale_inputs: what has changed since the rubric was tuned.
        in_sample: a warning that the rubric was tuned on these items; empty where it was not.
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
    ordinal: OrdinalAgreement | None
    auc: Interval | None
    confusion: tuple[tuple[float, float], tuple[float, float]]
    calibrated: bool
    reliability: tuple[calibration.ReliabilityBin, ...]
    calibration_error: float
    inter_rater: InterRaterAgreement
    simple_rules: tuple[SimpleRule, ...]
    beyond_weights: BeyondWeights | None
    criteria: tuple[CriterionAnalysis, ...]
    repeated_scoring: RepeatedScoring | None
    length_correlation: float | None
    stale_inputs: tuple[str, ...]
    in_sample: str
    is_tuned: bool


def evaluate_rubric(
    rubric: Rubric, data: TrainingData, items: list[Item], beyond: bool = False
) -> Evaluation:
    """Evaluate a rubric.

    Raises:
        InputError: ``beyond`` weights shall be measured, and nothing can be fitted on these labels.
    """
    if beyond:
        require_trainable(data, rubric)
    s = data.sample
    t = data.totals
    accept: Bools = t >= rubric.threshold
    y, w = s.accept, s.weight
    both = np.stack([y, accept]).astype(float)
    fitted = read_calibration(rubric)
    p = fitted.predict(t) if fitted else np.clip(t, 0.0, 1.0)
    curve = calibration.reliability_curve(p, y, w)
    chance = confidence_intervals.expected_disagreement(both, 2)

    def sums(weights: Floats) -> Floats:
        return np.bincount(2 * y + accept, weights, 4).astype(float)

    table = agreement.confusion_matrix(y.astype(np.int64), accept.astype(np.int64), 2, w)
    return Evaluation(
        rubric.name,
        rubric.version,
        items=len(data.items),
        labels=int(y.size),
        groups=int(np.unique(s.group).size),
        kappa=confidence_intervals.measure_kappa(y, accept, w, s.group),
        alpha=confidence_intervals.jackknife_interval(
            lambda v: agreement.krippendorff_alpha(_PAIRS, "nominal", sums(v)),
            w,
            s.group,
            ratings=both,
        ),
        ac1=confidence_intervals.jackknife_interval(
            lambda v: agreement.gwet_ac1(_PAIRS, 2, sums(v)), w, s.group, 1 - chance
        ),
        weighted_kappa=_weighted_kappa(data),
        ordinal=measure_ordinal_agreement(data, t[None, :], t, _SEED),
        auc=confidence_intervals.jackknife_interval(agreement.roc_auc_by_weight(t, y), w, s.group),
        confusion=(
            (float(table[0, 0]), float(table[0, 1])),
            (float(table[1, 0]), float(table[1, 1])),
        ),
        calibrated=fitted is not None,
        reliability=tuple(curve),
        calibration_error=calibration.expected_calibration_error(curve),
        inter_rater=measure_inter_rater_agreement(data),
        simple_rules=_measure_simple_rules(data, accept),
        beyond_weights=measure_beyond_weights(rubric, data, _SEED) if beyond else None,
        criteria=tuple(analyze_criteria(s, data.free_nodes)),
        repeated_scoring=measure_repeated_scoring(rubric, items),
        length_correlation=_correlate_length(data, t),
        stale_inputs=tuple(find_stale_inputs(rubric, list_judges(data.items))),
        in_sample=describe_seen_groups(rubric, data.items),
        is_tuned="tuned" in rubric.provenance,
    )


def read_calibration(rubric: Rubric) -> Calibration | None:
    """The calibration in a tuned rubric's provenance; None where there is none."""
    tuned: Any = rubric.provenance.get("tuned")
    found = tuned.get("calibration") if isinstance(tuned, dict) else None
    if not isinstance(found, dict):
        return None
    with reading(rubric.name, "a rubric that tune wrote; its calibration is damaged"):
        fitted = convert(found, Calibration)
        fitted.predict(np.zeros(1))
        return fitted


def _weighted_kappa(data: TrainingData) -> Interval | None:
    """Quadratically weighted kappa of recorded verdicts and labels."""
    if data.scale.values != tuple(VERDICT_RANKS):
        return None
    s = data.sample
    verdict = np.array([VERDICT_RANKS.get(i.verdict, -1) for i in data.items], dtype=np.int64)
    if (verdict < 0).any():
        return None
    return measure_weighted_kappa(data, verdict[s.item][None, :])


def _measure_simple_rules(data: TrainingData, accept: Bools) -> tuple[SimpleRule, ...]:
    """Simple rules beside the rubric, where the labels suffice to fit a threshold."""
    s, objective = data.sample, rubric_decisions.Objective()
    groups = np.unique(s.group).size
    if s.items < MIN_LABELS or s.minority_items < MIN_CLASS_ITEMS or groups < MIN_GROUPS:
        return ()
    return measure_simple_rules(s, data.free_nodes, objective, accept[None, :], _SEED)


def _correlate_length(data: TrainingData, t: Floats) -> float | None:
    s = data.sample
    length = np.array([len(i.text) for i in data.items], dtype=float)[s.item]
    return measure_length_bias(t, length, s.accept.astype(float))
