"""Per-criterion statistics: discrimination (AUC), redundancy, ablation, and weight stability.

And what weights cannot express: a pair of criteria as a group, and how far boosted trees reach.
"""

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.types import Criterion, Group, Rubric
from orchestrator.optional_dependencies import NOT_INSTALLED, install_command
from orchestrator.tuning.fitting.cross_validation import FOLDS, cross_validate, draw_folds
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats
from orchestrator.tuning.fitting.rule_fitting import FitPlan, FittedRules, Sample, plan_fit
from orchestrator.tuning.fitting.weight_tree import impute
from orchestrator.tuning.rubric_decisions import BLOCKED, Objective, choose_threshold
from orchestrator.tuning.statistics import agreement
from orchestrator.tuning.statistics.confidence_intervals import (
    CONFIDENCE_LEVEL,
    Interval,
    PairedComparison,
    compare_decisions,
    jackknife_interval,
    t_quantile,
)
from orchestrator.tuning.training_data import TrainingData

REDUNDANT_CORRELATION = 0.95
STABLE_SHARE = 0.9
"""Share of bootstrap refits with a nonzero weight from which a criterion counts as stable."""
_ZERO = 0.1
"""Share of the mean weight up to which a weight counts as zero."""


class CriterionAnalysis(Struct, frozen=True):
    """What one criterion contributes to the agreement with people.

    Attributes:
        auc: how well it alone ranks accepted items above rejected ones, .5 is chance; a penalty's
            scores are negated. None where it never varies.
        auc_drop: decrease of the total's AUC without it; negative: the total is better without it.
        selection_frequency: share of bootstrap refits that give it a nonzero weight; None without
            refits.
        share_before, share_after: share of the total weight, ``share_after`` with the central 95%
            of the refits, negative where its sign is reversed.
        notes: ``uninformative``, ``harmful``, ``redundant with ...``, ``unstable``.
    """

    name: str
    auc: Interval | None
    auc_drop: float | None
    selection_frequency: float | None
    share_before: float
    share_after: Interval | None
    notes: tuple[str, ...]


def analyze_criteria(
    sample: Sample,
    names: tuple[str, ...],
    fitted: Floats | None = None,
    refits: FittedRules | None = None,
) -> list[CriterionAnalysis]:
    """Analyze every free criterion."""
    correlations = _correlate_criteria(sample)
    total_auc = _total_auc(sample, sample.w0)
    out = []
    for j, name in enumerate(names):
        auc = _criterion_auc(sample, j)
        nearest = int(np.abs(correlations[j]).argmax()) if len(names) > 1 else j
        correlation = float(correlations[j, nearest])
        auc_drop = None
        if (np.delete(sample.w0, j) > 0).any() and total_auc is not None:
            rest = _total_auc(sample, np.where(np.arange(len(names)) == j, 0.0, sample.w0))
            auc_drop = None if rest is None else total_auc - rest
        frequency, share_after = _summarize_refits(
            j, float(np.sign(sample.units[j])), fitted, refits
        )
        out.append(
            CriterionAnalysis(
                name=name,
                auc=auc,
                auc_drop=auc_drop,
                selection_frequency=frequency,
                share_before=float(abs(sample.w0[j]) / np.abs(sample.w0).sum()),
                share_after=share_after,
                notes=_describe_problems(auc, correlation, names[nearest], frequency, share_after),
            )
        )
    return out


def _total_auc(sample: Sample, w: Floats) -> float | None:
    t = sample.totals(w[None, :])[0]
    return agreement.roc_auc(t, sample.accept, sample.weight)


def _criterion_auc(sample: Sample, j: int) -> Interval | None:
    """AUC of one criterion over the items on which it counts."""
    present = ~np.isnan(sample.x[:, j])
    if not present.any() or np.ptp(sample.x[present, j]) < 1e-12:
        return None
    score = np.where(present, sample.x[:, j], 0.0) * np.sign(sample.units[j])
    y: Bools = sample.accept
    auc = agreement.roc_auc_by_weight(score[present], y[present])
    return jackknife_interval(lambda w: auc(w[present]), sample.weight, sample.group)


def _correlate_criteria(sample: Sample) -> Floats:
    """(p, p) correlations between criteria, missing scores at their mean, 0 on the diagonal."""
    present = ~np.isnan(sample.x)
    # A criterion that counts nowhere has no mean; constant 0 correlates with nothing.
    mean = np.where(present, sample.x, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    z = np.where(present, sample.x, mean)
    z = (z - z.mean(axis=0)) / np.maximum(z.std(axis=0), 1e-12)
    correlations: Floats = z.T @ z / z.shape[0]
    np.fill_diagonal(correlations, 0.0)
    return correlations


def _summarize_refits(
    j: int, sign: float, fitted: Floats | None, refits: FittedRules | None
) -> tuple[float | None, Interval | None]:
    """How often refits select a criterion, and its share of the weight with their 95% range."""
    if fitted is None or refits is None:
        return None, None
    share = refits.weights[:, j] * sign / np.abs(refits.weights).sum(axis=1)
    own = float(fitted[j] * sign / np.abs(fitted).sum())
    low, high = np.quantile(share, [0.025, 0.975])
    nonzero = np.abs(share) > _ZERO / fitted.size
    return float(nonzero.mean()), Interval(own, float(low), float(high))


def _describe_problems(
    auc: Interval | None,
    correlation: float,
    nearest: str,
    frequency: float | None,
    share: Interval | None,
) -> tuple[str, ...]:
    notes = []
    if auc is None:
        return ("uninformative: its score never varies",)
    if share is not None and share.high < 0.0:
        notes.append("its sign is reversed: it acts against the labels, given the other criteria")
    elif share is not None and share.value < 0.0:
        notes.append("its sign is reversed, but not in all bootstrap refits")
    elif auc.high < 0.5:
        notes.append("harmful: it scores lower on items that people accept")
    elif frequency is not None and frequency < 1 - STABLE_SHARE:
        notes.append("uninformative: bootstrap refits give it no weight")
    elif frequency is not None and frequency < STABLE_SHARE:
        notes.append(f"unstable: no weight in {1 - frequency:.0%} of bootstrap refits")
    if abs(correlation) >= REDUNDANT_CORRELATION:
        notes.append(f"redundant with {nearest} (correlation {correlation:+.2f})")
    return tuple(notes)


_MAX_ID = 64
_TREES = {"n_estimators": 60, "max_depth": 3, "subsample": 0.5, "min_samples_leaf": 5}


class PairAdvice(Struct, frozen=True):
    """Two criteria that agree better with the labels as a group than by their weights.

    Attributes:
        looked_at: number of groups of two that were looked at.
        comparison: held-out decisions by weights alone, and with the group.
        change: its change, with the interval of this many comparisons at once.
        proven: that interval is above 0.
        rubric: the rubric with the group.
    """

    names: tuple[str, str]
    combine: Literal["all_of", "any_of"]
    looked_at: int
    comparison: PairedComparison
    change: Interval
    proven: bool
    rubric: Rubric


class BeyondWeights(Struct, frozen=True):
    """What interactions add to fitted weights, held out on the same groups.

    Attributes:
        trees: fitted weights and boosted trees; None where trees cannot be fitted: see ``missing``.
    """

    trees: PairedComparison | None
    pair: PairAdvice | None
    missing: str = ""


_Form = tuple[int, int, Literal["all_of", "any_of"]]


def find_pair(rubric: Rubric, data: TrainingData, plan: FitPlan, seed: int) -> PairAdvice | None:
    """The pair of criteria that helps most as ``all_of`` or ``any_of``; None where none helps.

    It is chosen by least squares on all labels, so its held-out gain is corrected for the number of
    all that were looked at.

    Args:
        seed: of the cross-validation of the rubric.
    """
    known = {c.id: c for c in data.full_rubric.criteria}
    lines = [known.get(name) for name in data.free_nodes]
    forms = list(_list_forms(lines))
    chosen = _choose_form(data.sample, forms) if forms and plan.fit_weights else None
    if chosen is None:
        return None
    first, second = (known[data.free_nodes[k]] for k in chosen[:2])
    grouped = _group(rubric, first, second, chosen[2])
    if grouped is None:
        return None
    s, new = data.sample, data.restructure(grouped).sample
    before, after = (
        cross_validate(sample, plan, np.random.default_rng(seed)).accept for sample in (s, new)
    )
    found = compare_decisions(plan.objective, before, after, s.accept, s.weight, s.group)
    if found.change.value <= 0.0:
        return None
    level = 1.0 - (1.0 - CONFIDENCE_LEVEL) / len(forms)
    half = t_quantile(found.groups - 1, level) * found.standard_error
    value = found.change.value
    change = Interval(value, value - half, value + half)
    names = (first.id, second.id)
    return PairAdvice(names, chosen[2], len(forms), found, change, change.low > 0.0, grouped)


def _list_forms(lines: list[Criterion | None]) -> Iterator[_Form]:
    """Groups of two criteria that count for acceptance, side by side in the tree."""
    for (i, a), (j, b) in combinations(enumerate(lines), 2):
        if a and b and a.parent == b.parent and min(a.weight, b.weight) > 0.0:
            yield i, j, "all_of"
            yield i, j, "any_of"


def _choose_form(s: Sample, forms: list[_Form]) -> _Form | None:
    """The form with the least squared error; None where it is no better than by chance."""
    x = impute(s.tree, s.x, s.w0)
    weight = s.weight * ~s.blocked

    def error(*columns: Floats) -> float:
        design = np.column_stack([np.ones(s.y.size), *columns])
        left = design.T * weight
        ridge = 1e-6 * np.eye(design.shape[1])
        rest = s.accept - design @ np.linalg.solve(left @ design + ridge, left @ s.accept)
        return float((weight * rest**2).sum())

    errors = []
    for i, j, combine in forms:
        choose = np.minimum if combine == "all_of" else np.maximum
        errors.append(error(np.delete(x, (i, j), axis=1), choose(x[:, i], x[:, j])))
    promises = float(weight.sum()) * math.log((error(x) + 1e-12) / (min(errors) + 1e-12))
    return forms[int(np.argmin(errors))] if promises > 2.0 * math.log(len(forms)) else None


def _group(
    rubric: Rubric, a: Criterion, b: Criterion, combine: Literal["all_of", "any_of"]
) -> Rubric | None:
    """The rubric with the two in a group of their weight; None where no name for it is free."""
    name = f"{a.id}-{'and' if combine == 'all_of' else 'or'}-{b.id}"
    taken = {c.id for c in rubric.criteria} | {group.id for group in rubric.groups}
    if len(name) > _MAX_ID or name in taken:
        return None
    pair = {a.id, b.id}
    group = Group(name, "", a.weight + b.weight, a.parent, combine)
    lines = (replace(c, parent=name, weight=1.0) if c.id in pair else c for c in rubric.criteria)
    return replace(rubric, criteria=tuple(lines), groups=(*rubric.groups, group))


def measure_beyond_weights(rubric: Rubric, data: TrainingData, seed: int) -> BeyondWeights:
    """Compare fitted weights with boosted trees, and with the best pair of criteria."""
    s, plan = data.sample, plan_fit(data.sample, Objective())
    pair = find_pair(rubric, data, plan, seed)
    try:
        accept = _decide_by_trees(s, plan.objective, seed)
    except ImportError:
        return BeyondWeights(None, pair, f"scikit-learn{NOT_INSTALLED}{install_command('trees')}")
    linear = cross_validate(s, plan, np.random.default_rng(seed)).accept
    found = compare_decisions(plan.objective, linear, accept, s.accept, s.weight, s.group)
    return BeyondWeights(found, pair)


def _decide_by_trees(s: Sample, objective: Objective, seed: int) -> Bools:
    """(1, n) held-out decisions of boosted trees on the first split of the cross-validation."""
    from sklearn.ensemble import GradientBoostingClassifier  # noqa: PLC0415 - an extra, and slow

    x = impute(s.tree, s.x, s.w0)
    accept = np.zeros((1, s.y.size), dtype=bool)
    for test in draw_folds(s.group, np.random.default_rng(seed))[:FOLDS]:
        train = ~test
        if np.unique(s.accept[train]).size < 2:
            accept[0, test] = s.accept[train][0]
            continue
        fitted = GradientBoostingClassifier(random_state=seed % 2**32, **_TREES)
        fitted.fit(x[train], s.accept[train], sample_weight=s.weight[train])
        p = np.where(s.blocked, BLOCKED, fitted.predict_proba(x)[:, 1])
        likely = np.maximum(p, 0.0)[None, train]
        at = choose_threshold(p[None, train], likely, s.weight[None, train], objective)
        accept[0, test] = p[test] >= at[0]
    return accept
