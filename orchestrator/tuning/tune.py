"""Tune a rubric: assess the labels, fit, cross-validate, and list the decisions that change."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from orchestrator.data_directories import read_table
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.types import Json, Rubric
from orchestrator.tuning.criterion_analysis import (
    BeyondWeights,
    CriterionAnalysis,
    PairAdvice,
    analyze_criteria,
    find_pair,
)
from orchestrator.tuning.file_formats.item_files import (
    Item,
    count_seen_groups,
    hash_groups,
    list_judges,
)
from orchestrator.tuning.file_formats.rubric_file import digest_criteria, digest_judge, digest_rule
from orchestrator.tuning.fitting import cross_validation, generalization, rule_fitting
from orchestrator.tuning.fitting.calibration import (
    Calibration,
    ReliabilityBin,
    expected_calibration_error,
    fit_calibration,
    reliability_curve,
)
from orchestrator.tuning.fitting.cross_validation import (
    LearningCurvePoint,
    PenaltyAdvice,
    advise_penalties,
)
from orchestrator.tuning.fitting.generalization import GeneralizationCheck, RaterStatistics
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats
from orchestrator.tuning.fitting.rule_fitting import FitPlan, FittedRules, Sample
from orchestrator.tuning.fitting.weight_tree import apply_weights, find_zeroed
from orchestrator.tuning.labels.label_assessment import LabelAssessment, assess_labels
from orchestrator.tuning.labels.label_files import Label
from orchestrator.tuning.ordinal_agreement import OrdinalComparison, compare_ordinal_agreement
from orchestrator.tuning.rubric_decisions import Flip, Objective, find_flips
from orchestrator.tuning.simple_rules import SimpleRule, describe_simple_rules, measure_simple_rules
from orchestrator.tuning.statistics.confidence_intervals import (
    PairedComparison,
    compare_decisions,
    estimate_labels_needed,
    format_change,
    format_statistic,
)
from orchestrator.tuning.training_data import TrainingData, require_trainable, summarize_labels

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
        pair: the two criteria that promise most as a group; where its gain is proven, the tuned
            rubric has it.
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
    pair: PairAdvice | None = None


SEED = 20260101
METHOD = "logistic regression, ridge towards present weights, averaged over penalties"
METHOD_THRESHOLD = "threshold only"
_SENTENCES: Mapping[str, str] = read_table(__file__, "sentences.yaml")
_MAX_EXTRAPOLATION = 20  # times the present labels; a sample size beyond this is not reported


def tune_rubric(
    rubric: Rubric,
    data: TrainingData,
    items: list[Item],
    objective: Objective,
    *,
    seed: int = SEED,
    refits: int = cross_validation.BOOTSTRAP_REFITS,
    free_signs: bool = False,
    observe: Callable[[str], None] = lambda _: None,
) -> TuningResult:
    """Tune a rubric.

    Args:
        observe: is told what is done next; with many labels each step takes minutes.
        free_signs: a criterion that acts against the labels may become a penalty.

    Raises:
        InputError: nothing can be fitted on these labels.
    """
    require_trainable(data, rubric)
    assessment = assess_labels(data)
    plan = replace(rule_fitting.plan_fit(data.sample, objective), free_signs=free_signs)
    result = TuningResult(
        proven=False,
        reasons=assessment.refusals,
        assessment=assessment,
        plan=plan,
        seed=seed,
        raters=generalization.measure_raters(data, data.totals),
    )
    if assessment.refusals:
        return replace(result, notes=tuple(_name_raters_at_chance(result.raters)))
    observe("looking for a pair of criteria that weights cannot express")
    result = replace(result, pair=find_pair(rubric, data, plan, seed))
    return _fit_and_validate(rubric, data, items, result, refits, observe)


def _notes_of(order: str, result: TuningResult, advice: PenaltyAdvice | None) -> Iterator[str]:
    """What to know of the order of items, and of a pair and penalties that would help."""
    if order != "time":
        yield f"later items are later in {order}"
    if result.pair is not None:
        yield _describe_pair(result.pair, result.plan.objective)
    if advice is not None:
        yield _describe_advice(advice, result.plan.objective)


def _fit_and_validate(
    rubric: Rubric,
    data: TrainingData,
    items: list[Item],
    result: TuningResult,
    refits: int,
    observe: Callable[[str], None],
) -> TuningResult:
    """The result completed by the fit and everything that was measured of it."""
    start = rubric
    if result.pair is not None and result.pair.proven:
        start, data = result.pair.rubric, data.restructure(result.pair.rubric)
    sample, plan, objective = data.sample, result.plan, result.plan.objective
    rng = np.random.default_rng(result.seed)
    observe("fitting, and cross-validating")
    rules = rule_fitting.fit_rules(sample, plan, sample.weight[None, :], rng)
    held_out = cross_validation.cross_validate(sample, plan, np.random.default_rng(result.seed))
    before = data.totals >= rubric.threshold
    comparison = _compare(sample, objective, before, held_out.accept)
    by_kappa = _compare(sample, Objective(), before, held_out.accept)
    simple = measure_simple_rules(sample, data.free_nodes, objective, held_out.accept, result.seed)
    refits = cross_validation.count_resamples(sample, refits)
    observe(f"fitting {refits:,} resamples")
    bootstrap = cross_validation.refit_bootstrap(sample, plan, rng, refits)
    tuned = _apply_rule(start, data, rules, plan.fit_weights)
    totals = sample.totals(rules.weights)[0]
    observe("checking whether the gain generalizes")
    checks = generalization.check_generalization(data, plan, rubric.threshold, held_out.accept, rng)
    raters = generalization.measure_raters(data, held_out.probability)
    advice = advise_penalties(sample, data.free_nodes, plan, held_out.accept, result.seed)
    observe("measuring what fewer labels would give")
    reasons, notes = _find_objections(sample, objective, comparison, simple)
    reasons += [describe_check(c, objective) for c in checks if c.outcome == "fails"]
    notes += [*_name_raters_at_chance(raters), *_find_seen_groups(rubric, data)]
    notes += [*_notes_of(data.order, result, advice), *describe_simple_rules(simple, objective)]
    return replace(
        result,
        proven=not reasons,
        reasons=tuple(reasons) or (_describe_gain(objective, comparison),),
        rubric=tuned,
        penalty=float(rules.penalties[0]),
        thresholds=(rubric.threshold, tuned.threshold),
        comparison=comparison,
        kappa_comparison=by_kappa if objective.uses_costs else None,
        ordinal=compare_ordinal_agreement(data, held_out, totals, result.seed),
        simple_rules=simple,
        calibration=fit_calibration(totals, sample.accept, sample.weight, plan.use_isotonic),
        **_calibration_of(held_out.probability, sample),
        criteria=tuple(analyze_criteria(sample, data.free_nodes, rules.weights[0], bootstrap)),
        learning_curve=tuple(cross_validation.compute_learning_curve(sample, plan, rng)),
        labels_needed=_estimate_labels_needed(sample, comparison),
        flips=tuple(find_flips(rubric, tuned, items, summarize_labels(data))),
        items=len({i.id for i in items}),
        confusion=(_confusion(sample, before[None, :]), _confusion(sample, held_out.accept)),
        notes=tuple(notes),
        checks=checks,
        raters=raters,
        penalties=advice,
    )


def _calibration_of(probability: Floats, sample: Sample) -> dict[str, Any]:
    curve = reliability_curve(probability, sample.accept, sample.weight)
    return {"reliability": tuple(curve), "calibration_error": expected_calibration_error(curve)}


def _confusion(sample: Sample, accept: Bools) -> ConfusionMatrix:
    """Confusion counts of (splits, n) decisions, mean over splits."""
    y, w = sample.accept, sample.weight
    cell = [
        [float((w * ((y == a) & (accept == b))).sum(axis=1).mean()) for b in (False, True)]
        for a in (False, True)
    ]
    return (cell[0][0], cell[0][1]), (cell[1][0], cell[1][1])


def _compare(sample: Sample, objective: Objective, before: Bools, after: Bools) -> PairedComparison:
    return compare_decisions(objective, before, after, sample.accept, sample.weight, sample.group)


def _find_objections(
    sample: Sample,
    objective: Objective,
    comparison: PairedComparison,
    simple: tuple[SimpleRule, ...],
) -> tuple[list[str], list[str]]:
    """Why the held-out value does not justify the new rule, and what to know if it does."""
    reasons: list[str] = []
    notes: list[str] = []
    if objective.uses_costs:
        reasons, notes = _compare_with_trivial_policies(simple)
    if comparison.change.low <= 0.0:
        reasons += _describe_insignificance(sample, objective, comparison)
    elif not objective.uses_costs and comparison.after.low <= 0.0:
        reasons.append(_SENTENCES["chance"])
    return reasons, notes


def _compare_with_trivial_policies(simple: tuple[SimpleRule, ...]) -> tuple[list[str], list[str]]:
    """A reason where accepting or rejecting everything surely costs less, or as the tuned rubric
    decides no better than that; a note where it may."""
    reasons, notes = [], []
    for verb, rule in zip(("accepting", "rejecting"), simple, strict=False):
        cost, saving = -rule.value.value, rule.difference
        amounts = (cost, cost - saving.value, -saving.high, -saving.low)
        text = _SENTENCES["costs"].format(*amounts)
        if saving.value == 0.0:
            reasons.append(_SENTENCES["as_cheap"].format(verb))
        elif saving.high < 0.0:
            reasons.append(_SENTENCES["cheaper"].format(verb, text))
        elif saving.value < 0.0:
            notes.append(_SENTENCES["may_be_cheaper"].format(verb, text))
    return reasons, notes


def _describe_insignificance(
    sample: Sample, objective: Objective, comparison: PairedComparison
) -> list[str]:
    change = format_change((-1 if objective.uses_costs else 1) * comparison.change.value)
    what = "cost per decision" if objective.uses_costs else "kappa"
    sides = _describe_sides(comparison, objective)
    reason = _SENTENCES["no_gain"].format(what=what, change=change, sides=sides)
    needed = _estimate_labels_needed(sample, comparison)
    return [reason] if needed is None else [reason, _SENTENCES["labels_needed"].format(needed)]


def _unit(objective: Objective) -> str:
    return "cost" if objective.uses_costs else "kappa"


def _describe_sides(
    found: PairedComparison, objective: Objective, words: str = "from {} to {}"
) -> str:
    """Both values and the interval of the change; costs where the objective is their negative."""
    sign = -1 if objective.uses_costs else 1
    sides = words.format(*(format_statistic(sign * x.value) for x in (found.before, found.after)))
    low, high = sorted((sign * found.change.low, sign * found.change.high))
    return f"{sides} (95% CI of the change {format_change(low)} to {format_change(high)})"


def describe_check(check: GeneralizationCheck, objective: Objective) -> str:
    """A check of the gain that failed, in one sentence."""
    assert check.comparison is not None
    sides = _describe_sides(check.comparison, objective, "{} before, {} after")
    return _SENTENCES["does_not_generalize"].format(check.name, _unit(objective), sides)


def _describe_pair(pair: PairAdvice, objective: Objective) -> str:
    """What a pair does as a group, and whether that is proven."""
    found = replace(pair.comparison, change=pair.change)
    verb = "agree better" if pair.proven else "may agree better, which is not proven,"
    how, names = "lower" if pair.combine == "all_of" else "higher", map(repr, pair.names)
    told = {"names": " and ".join(names), "verb": verb, "how": how, "unit": _unit(objective)}
    return _SENTENCES["pair"].format(pair=pair, sides=_describe_sides(found, objective), **told)


def describe_beyond_weights(found: BeyondWeights) -> list[str]:
    """How far trees reach beyond fitted weights, and the best pair, in a sentence each."""
    trees, kappa = _SENTENCES["no_trees"].format(found.missing), Objective()
    if found.trees is not None:
        verb = "reach more than" if found.trees.change.low > 0.0 else "prove no more than"
        sides = _describe_sides(found.trees, kappa, "{1} instead of {0}")
        trees = _SENTENCES["trees"].format(verb, sides)
    return [trees, _describe_pair(found.pair, kappa) if found.pair else _SENTENCES["no_pair"]]


def _describe_advice(advice: PenaltyAdvice, objective: Objective) -> str:
    names, one = ", ".join(repr(name) for name in advice.names), len(advice.names) == 1
    sides = _describe_sides(advice.comparison, objective, "{1} instead of {0}")
    verb = "would help" if advice.proven else "may help, which is not proven"
    act, how = ("acts", "as a penalty it") if one else ("act", "as penalties they")
    told = {"names": names, "act": act, "how": how, "verb": verb, "sides": sides}
    return _SENTENCES["penalties"].format(unit=_unit(objective), **told)


def _name_raters_at_chance(raters: tuple[RaterStatistics, ...]) -> list[str]:
    out = []
    for rater in raters:
        if rater.at_chance:
            auc = "n/a" if rater.auc is None else rater.auc.format()
            kappa = "" if rater.kappa is None else f", kappa with the others {rater.kappa.format()}"
            out.append(_SENTENCES["at_chance"].format(rater.name, auc, kappa))
    return out


def _find_seen_groups(rubric: Rubric, data: TrainingData) -> list[str]:
    seen = count_seen_groups(rubric, data.items)
    groups = len({i.group for i in data.items})
    return [_SENTENCES["seen_groups"].format(seen, groups)] if seen else []


def _describe_gain(objective: Objective, comparison: PairedComparison) -> str:
    what = "cost per decision falls" if objective.uses_costs else "kappa rises"
    sides = _describe_sides(comparison, objective)
    return f"held-out {what} {sides}"


def _estimate_labels_needed(sample: Sample, comparison: PairedComparison) -> int | None:
    """Labeled items that prove a gain of the estimated size with a probability of 80%."""
    gain = comparison.change.value
    if gain <= 0.0 or comparison.change.low > 0.0 or comparison.groups < 3:
        return None
    items = round(sample.items)
    found = estimate_labels_needed(items, comparison.standard_error, comparison.groups, gain)
    return found if found <= _MAX_EXTRAPOLATION * items else None


def _apply_rule(rubric: Rubric, data: TrainingData, rules: FittedRules, fitted: bool) -> Rubric:
    """The rubric with the fitted weights and threshold."""
    weights = apply_weights(data.full_rubric, data.free_nodes, rules.weights[0]) if fitted else {}
    threshold = round(min(max(float(rules.thresholds[0]), 0.0), 1.0), 6)
    return replace(
        rubric,
        threshold=threshold,
        criteria=tuple(replace(c, weight=weights.get(c.id, c.weight)) for c in rubric.criteria),
        groups=tuple(replace(g, weight=weights.get(g.id, g.weight)) for g in rubric.groups),
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
    objective, assessment = result.plan.objective, result.assessment
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
        "labels": digest(sorted([x.item, x.rater, x.label] for x in labels)),
        "scores": digest(sorted([i.id, i.repeat, sorted(i.scores.items())] for i in data.items)),
        "criteria": digest_criteria(new),
        "judge": digest_judge(new),
        "judges": list_judges(data.items),
        "rule": digest_rule(new),
        "counts": {
            name: getattr(assessment, name) for name in ("items", "labels", "groups", "raters")
        },
        "scale": {"values": list(data.scale.values), "accept_from": data.scale.cut},
        "held_out": comparison.to_provenance(),
        "calibration_error": round(result.calibration_error, 6),
        "calibration": to_builtins(fitted),
        "groups": hash_groups(data.items),
        "zeroed": dict(find_zeroed(data.full_rubric, new)),
    }
    if result.pair is not None and result.pair.proven:
        tuned["pair"] = {"looked_at": result.pair.looked_at, "names": list(result.pair.names)}
    kept = {k: v for k, v in old.provenance.items() if k != "tuned"}
    return replace(new, name=name, version=old.version + 1, provenance={**kept, "tuned": tuned})
