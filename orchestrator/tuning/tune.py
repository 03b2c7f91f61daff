"""Tune a rubric: assess the labels, fit, cross-validate, and list the decisions that change."""

import math
from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.types import Rubric
from orchestrator.tuning import cross_validation
from orchestrator.tuning.calibration import (
    Calibration,
    ReliabilityBin,
    expected_calibration_error,
    fit_calibration,
    reliability_curve,
)
from orchestrator.tuning.confidence_intervals import (
    PairedComparison,
    compare_decisions,
    format_change,
    format_statistic,
    t_quantile,
)
from orchestrator.tuning.criterion_analysis import CriterionAnalysis, analyze_criteria
from orchestrator.tuning.item_files import Item
from orchestrator.tuning.label_assessment import LabelAssessment, assess_labels
from orchestrator.tuning.ordinal_regression import Bools, Floats
from orchestrator.tuning.rubric_decisions import Flip, Objective, find_flips
from orchestrator.tuning.rule_fitting import FitPlan, FittedRules, Sample, fit_rules, plan_fit
from orchestrator.tuning.training_data import TrainingData, require_trainable, summarize_labels
from orchestrator.tuning.weight_tree import apply_weights

SEED = 20260101
HISTOGRAM_BINS = 20
_MAX_EXTRAPOLATION = 20  # times the present labels; a sample size beyond this is not reported

ConfusionMatrix = tuple[tuple[float, float], tuple[float, float]]


class TotalHistogram(Struct, frozen=True):
    """Histogram of totals over equal bins from 0 to 1, by label.

    Attributes:
        accepted, rejected: labeled items per bin.
    """

    name: str
    threshold: float
    accepted: tuple[float, ...]
    rejected: tuple[float, ...]


class TuningResult(Struct, frozen=True):
    """Everything a tuning found. All agreement is held out unless stated otherwise.

    Attributes:
        proven: the gain is significant and generalizes, so the new rubric may be written.
        reasons: one sentence each: what speaks against the new rubric, or what proves it.
        thresholds: before and after.
        comparison: present and tuned rubric by the objective; None when nothing was fitted.
        kappa_comparison: the same by kappa, when the objective is cost.
        trivial_policies: the objective's value of trivial policies, by name.
        calibration_error: expected calibration error of the held-out probabilities.
        labels_needed: labeled items that would make the gain significant if it is as estimated.
        flips: decisions that change, over all items, labeled or not.
        histograms: totals by label, before and after.
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
    trivial_policies: Mapping[str, float] | None = None
    calibration: Calibration | None = None
    reliability: tuple[ReliabilityBin, ...] = ()
    calibration_error: float = math.nan
    criteria: tuple[CriterionAnalysis, ...] = ()
    learning_curve: tuple[cross_validation.LearningCurvePoint, ...] = ()
    labels_needed: int | None = None
    flips: tuple[Flip, ...] = ()
    items: int = 0
    histograms: tuple[TotalHistogram, ...] = ()
    confusion: tuple[ConfusionMatrix, ConfusionMatrix] | None = None


def tune_rubric(
    rubric: Rubric,
    data: TrainingData,
    items: list[Item],
    objective: Objective,
    seed: int = SEED,
    refits: int = cross_validation.BOOTSTRAP_REFITS,
) -> TuningResult:
    """Tune a rubric.

    Raises:
        InputError: nothing can be fitted on these labels.
    """
    require_trainable(data, rubric)
    assessment = assess_labels(data)
    plan = plan_fit(data.sample, objective)
    result = TuningResult(
        proven=False, reasons=assessment.refusals, assessment=assessment, plan=plan, seed=seed
    )
    if assessment.refusals:
        return result
    return _fit_and_validate(rubric, data, items, result, refits)


def _fit_and_validate(
    rubric: Rubric, data: TrainingData, items: list[Item], result: TuningResult, refits: int
) -> TuningResult:
    """The result completed by the fit and everything that was measured of it."""
    sample, plan, objective = data.sample, result.plan, result.plan.objective
    rng = np.random.default_rng(result.seed)
    rules = fit_rules(sample, plan, sample.weight[None, :], rng)
    held_out = cross_validation.cross_validate(sample, plan, rng)
    before = decide_rows(sample, sample.w0, rubric.threshold)
    comparison = _compare(sample, objective, before, held_out.accept)
    by_kappa = _compare(sample, Objective(), before, held_out.accept)
    trivial_policies = _score_trivial_policies(sample, plan, rng)
    bootstrap = cross_validation.refit_bootstrap(sample, plan, rng, refits)
    tuned = _apply_rule(rubric, data, rules)
    totals = sample.totals(rules.weights)[0]
    curve = reliability_curve(held_out.probability, sample.accept, sample.weight)
    reasons = _find_objections(sample, objective, comparison, trivial_policies)
    if not reasons:
        reasons = cross_validation.find_generalization_failures(
            data, plan, rubric.threshold, held_out.accept, rng
        )
    return replace(
        result,
        proven=not reasons,
        reasons=tuple(reasons) or (_describe_gain(objective, comparison),),
        rubric=tuned,
        penalty=float(rules.penalties[0]),
        thresholds=(rubric.threshold, tuned.threshold),
        comparison=comparison,
        kappa_comparison=by_kappa if objective.uses_costs else None,
        trivial_policies=trivial_policies,
        calibration=fit_calibration(totals, sample.accept, sample.weight, plan.use_isotonic),
        reliability=tuple(curve),
        calibration_error=expected_calibration_error(curve),
        criteria=tuple(analyze_criteria(sample, data.free_nodes, rules.weights[0], bootstrap)),
        learning_curve=tuple(cross_validation.compute_learning_curve(sample, plan, rng)),
        labels_needed=_estimate_labels_needed(sample, comparison),
        flips=tuple(find_flips(rubric, tuned, items, summarize_labels(data))),
        items=len({i.id for i in items}),
        histograms=(
            _compute_histogram("before", sample, sample.w0, rubric.threshold),
            _compute_histogram("after", sample, rules.weights[0], tuned.threshold),
        ),
        confusion=(_confusion(sample, before[None, :]), _confusion(sample, held_out.accept)),
    )


def _compute_histogram(name: str, sample: Sample, w: Floats, threshold: float) -> TotalHistogram:
    t = np.clip(sample.totals(w[None, :])[0], 0.0, 1.0)
    at = np.minimum((t * HISTOGRAM_BINS).astype(np.int64), HISTOGRAM_BINS - 1)
    accepted, rejected = (
        np.bincount(at[side], weights=sample.weight[side], minlength=HISTOGRAM_BINS)
        for side in (sample.accept, ~sample.accept)
    )
    return TotalHistogram(name, threshold, tuple(accepted.tolist()), tuple(rejected.tolist()))


def _confusion(sample: Sample, accept: Bools) -> ConfusionMatrix:
    """Confusion counts of (splits, n) decisions, mean over splits."""
    y, w = sample.accept, sample.weight
    cell = [
        [float((w * ((y == a) & (accept == b))).sum(axis=1).mean()) for b in (False, True)]
        for a in (False, True)
    ]
    return (cell[0][0], cell[0][1]), (cell[1][0], cell[1][1])


def decide_rows(sample: Sample, w: Floats, threshold: float) -> Bools:
    """(n,) decisions of one rule on a sample's rows."""
    out: Bools = sample.totals(w[None, :])[0] >= threshold
    return out


def _score_trivial_policies(
    sample: Sample, plan: FitPlan, rng: np.random.Generator
) -> dict[str, float]:
    """Held-out value of policies that need no tuning of weights."""
    y, w = sample.accept, sample.weight
    equal = replace(sample, w0=np.sign(sample.w0))
    tuned = cross_validation.cross_validate(equal, replace(plan, fit_weights=False), rng)
    everything = np.ones(y.size, dtype=bool)
    score = plan.objective.score
    return {
        "accept all": float(score(everything, y, w)),
        "reject all": float(score(~everything, y, w)),
        "equal weights, tuned threshold": float(score(tuned.accept, y, w).mean()),
    }


def _compare(sample: Sample, objective: Objective, before: Bools, after: Bools) -> PairedComparison:
    return compare_decisions(objective, before, after, sample.accept, sample.weight, sample.group)


def _find_objections(
    sample: Sample,
    objective: Objective,
    comparison: PairedComparison,
    trivial_policies: Mapping[str, float],
) -> list[str]:
    """Why the held-out value does not justify the new rule; empty when it does."""
    if objective.uses_costs:
        name = max("accept all", "reject all", key=lambda policy: trivial_policies[policy])
        if trivial_policies[name] >= comparison.after.value:
            verb = "accepting" if name == "accept all" else "rejecting"
            reason = (
                f"at these costs {verb} everything is cheaper: {-trivial_policies[name]:.3f} per "
                f"decision, tuned rubric {-comparison.after.value:.3f}"
            )
            return [reason]
    if comparison.change.low <= 0.0:
        what = "cost per decision" if objective.uses_costs else "kappa"
        sign = -1 if objective.uses_costs else 1
        low, high = sorted((sign * comparison.change.low, sign * comparison.change.high))
        before = format_statistic(sign * comparison.before.value)
        after = format_statistic(sign * comparison.after.value)
        reason = (
            f"no significant gain: held-out {what} changes by "
            f"{format_change(sign * comparison.change.value)}, from {before} to {after} "
            f"(95% CI of the change {format_change(low)} to {format_change(high)})"
        )
        reasons = [reason]
        needed = _estimate_labels_needed(sample, comparison)
        if needed is not None:
            reasons.append(
                f"if the true gain equals this estimate, about {needed:,} labels would make it "
                "significant"
            )
        return reasons
    if not objective.uses_costs and comparison.after.low <= 0.0:
        return ["even the tuned rubric's agreement with people is not significantly above chance"]
    return []


def _describe_gain(objective: Objective, comparison: PairedComparison) -> str:
    change = comparison.change
    if objective.uses_costs:
        return (
            f"held-out cost per decision falls from {-comparison.before.value:.3f} to "
            f"{-comparison.after.value:.3f} (95% CI of the saving {change.low:.3f} to "
            f"{change.high:.3f})"
        )
    return (
        f"held-out kappa rises from {format_statistic(comparison.before.value)} to "
        f"{format_statistic(comparison.after.value)} (95% CI of the gain {change.low:+.2f} to "
        f"{change.high:+.2f})"
    )


def _estimate_labels_needed(sample: Sample, comparison: PairedComparison) -> int | None:
    """Labeled items that would make a gain of the estimated size significant."""
    gain = comparison.change.value
    if gain <= 0.0 or comparison.change.low > 0.0:
        return None
    half = t_quantile(comparison.groups - 1) * comparison.standard_error
    items = sample.items * (half / gain) ** 2
    return math.ceil(items / 10) * 10 if items <= _MAX_EXTRAPOLATION * sample.items else None


def _apply_rule(rubric: Rubric, data: TrainingData, rules: FittedRules) -> Rubric:
    """The rubric with the fitted weights and threshold."""
    fitted = not math.isinf(rules.penalties[0])
    weights = apply_weights(rubric, data.free_nodes, rules.weights[0]) if fitted else {}
    threshold = round(min(max(float(rules.thresholds[0]), 0.0), 1.0), 6)
    return replace(
        rubric,
        threshold=threshold,
        criteria=tuple(replace(c, weight=weights.get(c.id, c.weight)) for c in rubric.criteria),
        groups=tuple(replace(g, weight=weights.get(g.id, g.weight)) for g in rubric.groups),
    )
