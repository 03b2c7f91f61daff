"""What a tuning found."""

import math

from msgspec import Struct

from orchestrator.engine.types import Rubric
from orchestrator.tuning.criterion_analysis import CriterionAnalysis
from orchestrator.tuning.fitting.calibration import Calibration, ReliabilityBin
from orchestrator.tuning.fitting.cross_validation import LearningCurvePoint
from orchestrator.tuning.fitting.generalization import GeneralizationCheck, RaterStatistics
from orchestrator.tuning.fitting.penalty_advice import PenaltyAdvice
from orchestrator.tuning.fitting.rule_fitting import FitPlan
from orchestrator.tuning.labels.label_assessment import LabelAssessment
from orchestrator.tuning.ordinal_agreement import OrdinalComparison
from orchestrator.tuning.rubric_decisions import Flip
from orchestrator.tuning.simple_rules import SimpleRule
from orchestrator.tuning.statistics.confidence_intervals import PairedComparison

ConfusionMatrix = tuple[tuple[float, float], tuple[float, float]]


class TuningResult(Struct, frozen=True):
    """Everything a tuning found. All agreement is held out unless stated otherwise.

    Attributes:
        proven: the gain is significant and generalizes, so the new rubric may be written.
        reasons: one sentence each: what speaks against the new rubric, or what proves it.
        thresholds: before and after.
        comparison: present and tuned rubric by the objective; None when nothing was fitted.
        kappa_comparison: the same by kappa, when the objective is cost.
        ordinal: agreement on the whole scale; None for accept or reject.
        simple_rules: on the same folds.
        calibration_error: expected calibration error of the held-out probabilities.
        labels_needed: labeled items that make a gain of the estimated size significant with a
            probability of 80%.
        notes: what else a person should know of the result.
        checks: whether the gain generalizes, and which checks could not be made.
        raters: each rater against the scores and the other raters; empty for one rater.
        penalties: criteria that would or may help as penalties; None without any.
        flips: decisions that change, over all items, labeled or not.
        confusion: before and after; rows are people's decisions, columns the rubric's, reject
            first.
    """

    proven: bool
    reasons: tuple[str, ...]
    assessment: LabelAssessment
    plan: FitPlan
    seed: int
    rubric: Rubric | None = None
    penalty: float = math.inf
    thresholds: tuple[float, float] | None = None
    comparison: PairedComparison | None = None
    kappa_comparison: PairedComparison | None = None
    ordinal: OrdinalComparison | None = None
    simple_rules: tuple[SimpleRule, ...] = ()
    calibration: Calibration | None = None
    reliability: tuple[ReliabilityBin, ...] = ()
    calibration_error: float = math.nan
    criteria: tuple[CriterionAnalysis, ...] = ()
    learning_curve: tuple[LearningCurvePoint, ...] = ()
    labels_needed: int | None = None
    flips: tuple[Flip, ...] = ()
    items: int = 0
    confusion: tuple[ConfusionMatrix, ConfusionMatrix] | None = None
    notes: tuple[str, ...] = ()
    checks: tuple[GeneralizationCheck, ...] = ()
    raters: tuple[RaterStatistics, ...] = ()
    penalties: PenaltyAdvice | None = None
