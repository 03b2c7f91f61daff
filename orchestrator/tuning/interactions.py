"""What weights cannot express: a pair of criteria as a group, and how far boosted trees reach."""

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
from orchestrator.tuning.fitting.rule_fitting import FitPlan, Sample, plan_fit
from orchestrator.tuning.fitting.weight_tree import impute
from orchestrator.tuning.rubric_decisions import BLOCKED, Objective, choose_threshold
from orchestrator.tuning.statistics.confidence_intervals import (
    CONFIDENCE_LEVEL,
    Interval,
    PairedComparison,
    compare_decisions,
    t_quantile,
)
from orchestrator.tuning.training_data import TrainingData

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
