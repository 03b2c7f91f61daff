"""Fits, thresholds and calibration against independent implementations."""

import numpy as np
import pytest
from msgspec.structs import replace

from orchestrator.engine.rubric_scoring import node_scores
from orchestrator.engine.types import Criterion, Group, Rubric
from orchestrator.tuning import rubric_decisions
from orchestrator.tuning.criterion_analysis import analyze_criteria
from orchestrator.tuning.fitting import ordinal_regression
from orchestrator.tuning.fitting.calibration import fit_isotonic
from orchestrator.tuning.fitting.rule_fitting import (
    FittedRules,
    Sample,
    assign_group_folds,
    fit_rules,
    plan_fit,
)
from orchestrator.tuning.fitting.weight_tree import (
    apply_weights,
    build_tree,
    find_free_nodes,
    shrinkage,
)
from orchestrator.tuning.training_data import merge_rare_levels


def ordinal(levels: int, seed: int = 0, n: int = 200, p: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.random((n, p))
    eta = z @ np.arange(p) * 2.0
    cuts = np.quantile(eta, np.arange(1, levels) / levels)
    return z, np.digitize(eta + rng.logistic(size=n), cuts)


def loss(b: np.ndarray, z: np.ndarray, y: np.ndarray, levels: int, lam: float) -> float:
    """The penalized likelihood, written from its definition."""
    cuts = np.concatenate([[-np.inf], b[: levels - 1], [np.inf]])
    theta = b[levels - 1 :]
    eta = z @ theta
    upper, lower = (1 / (1 + np.exp(-(cuts[y + k] - eta))) for k in (1, 0))
    return float(-np.log(upper - lower).mean() + lam / 2 * ((theta - theta.mean()) ** 2).sum())


@pytest.mark.parametrize("levels", [2, 3, 5])
@pytest.mark.parametrize("lam", [0.03, 1.0])
def test_the_batched_solver_finds_the_constrained_optimum(levels: int, lam: float) -> None:
    from scipy.optimize import minimize  # it takes a second

    z, y = ordinal(levels)
    d = ordinal_regression.build_design(z, y, levels)
    w = np.ones((1, y.size))
    b = ordinal_regression.solve(
        d, w, np.array([lam]), ordinal_regression.initial_parameters(d, w)
    )[0]
    bounds = [(None, None)] * (levels - 1) + [(0, None)] * z.shape[1]
    oracle = minimize(
        loss, b + 0.01, (z, y, levels, lam), "L-BFGS-B", bounds=bounds,
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 3000},
    )  # fmt: skip
    assert loss(b, z, y, levels, lam) <= oracle.fun + 1e-9
    assert ordinal_regression.negative_log_likelihoods(d, b[None], y.size).mean() == pytest.approx(
        loss(b, z, y, levels, 0.0), abs=1e-9
    )


def test_a_batch_is_what_each_fit_would_be_alone() -> None:
    z, y = ordinal(2)
    d = ordinal_regression.build_design(z, y, 2)
    rng = np.random.default_rng(2)
    w = rng.multinomial(y.size, np.full(y.size, 1 / y.size), 7).astype(float)
    lam = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
    whole = ordinal_regression.solve(d, w, lam, ordinal_regression.initial_parameters(d, w))
    for i in range(7):
        alone = ordinal_regression.solve(
            d, w[i : i + 1], lam[i : i + 1], ordinal_regression.initial_parameters(d, w[i : i + 1])
        )
        assert np.allclose(whole[i], alone[0], atol=1e-6)


def test_unpenalized_and_unbound_it_is_logistic_regression() -> None:
    from sklearn.linear_model import LogisticRegression  # it takes a second

    rng = np.random.default_rng(4)
    z = rng.random((300, 3))
    y = (rng.random(300) < 1 / (1 + np.exp(-(z @ np.array([1.0, 2.0, 3.0]) - 3)))).astype(int)
    d = ordinal_regression.build_design(z, y, 2)
    w = np.ones((1, 300))
    b = ordinal_regression.solve(
        d, w, np.array([0.0]), ordinal_regression.initial_parameters(d, w)
    )[0]
    oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(z, y)
    assert -b[0] == pytest.approx(oracle.intercept_[0], abs=1e-3)
    assert b[1:] == pytest.approx(oracle.coef_[0], abs=1e-3)


def test_a_weight_never_changes_its_sign() -> None:
    rng = np.random.default_rng(5)
    x = rng.random((200, 3))
    y = (rng.random(200) < 1 / (1 + np.exp(-4 * (x[:, 0] - x[:, 1] + x[:, 2] - 0.5)))).astype(int)
    one = np.ones(200)
    s = Sample(x, np.array([1.0, 1.0, -1.0]), y, 2, 1, np.arange(200), one, one < 0, np.arange(200))
    w = fit_rules(
        s, plan_fit(s, rubric_decisions.Objective()), one[None, :], np.random.default_rng(1)
    ).weights[0]
    assert w[0] > 0.5
    assert w[1] == pytest.approx(0.0, abs=1e-6)
    assert w[2] <= 0.0


def test_weak_labels_move_the_weights_little_and_few_not_at_all() -> None:
    rng = np.random.default_rng(6)
    x, one = rng.random((150, 4)), np.ones(150)
    y = (rng.random(150) < 1 / (1 + np.exp(-6 * (x.mean(axis=1) - 0.5)))).astype(int)
    s = Sample(x, np.ones(4), y, 2, 1, np.arange(150), one, one < 0, np.arange(150))
    found = fit_rules(
        s, plan_fit(s, rubric_decisions.Objective()), one[None, :], np.random.default_rng(1)
    )
    assert found.penalties[0] == np.inf
    assert found.weights[0] == pytest.approx(np.ones(4), abs=0.2)
    assert plan_fit(_first(s, 59), rubric_decisions.Objective()).fit_weights is False
    assert plan_fit(s, rubric_decisions.Objective()).fit_weights is True


def _first(s: Sample, n: int) -> Sample:
    cut = slice(0, n)
    return Sample(
        s.x[cut], s.w0, s.y[cut], 2, 1, s.group[cut], s.weight[cut], s.blocked[cut], s.item[cut]
    )


TREE = Rubric(
    "r", 1, "d", 0.5,
    groups=(
        Group("g", "d", 3.0), Group("h", "d", 2.0), Group("k", "d", 1.5, parent="h"),
        Group("off", "d", 0.0), Group("penalty", "d", -0.5),
    ),
    criteria=tuple(
        Criterion(f"c{j}", "measured", "d", w, parent=parent)
        for j, (w, parent) in enumerate(
            [(2.0, "g"), (1.0, "g"), (-1.0, "g"), (0.5, "h"), (1.0, "k"), (3.0, "k"), (-2.0, "k"),
             (1.0, None), (0.0, "g"), (1.0, "off"), (1.0, "penalty"), (2.0, "penalty")]
        )
    ),
)  # fmt: skip


@pytest.mark.parametrize("rubric", [TREE, replace(TREE, groups=(), criteria=TREE.criteria[7:8])])
def test_totals_of_arrays_are_those_of_the_engine(rubric: Rubric) -> None:
    """Also of a rubric whose weights were fitted and written back."""
    rng = np.random.default_rng(7)
    free = find_free_nodes(rubric)
    assert not {"c8", "c9", "off"} & set(free)
    tree, w0 = build_tree(rubric, free)
    items = [
        {
            c.id: None if rng.random() < 0.3 else float(rng.random())
            for c in rubric.criteria
        }
        for _ in range(60)
    ]  # fmt: skip
    x = np.array([[np.nan if r[n] is None else r[n] for n in free] for r in items], dtype=float)
    fitted = w0 * rng.random(w0.size) * 2.0
    fitted[1:3] = 0.0
    if len(free) > 5:  # signs that are reversed, one of them in a group that is a penalty
        fitted[[5, 8]] *= -1.0
    written = apply_weights(rubric, free, fitted)
    new = replace(
        rubric,
        criteria=tuple(replace(c, weight=written.get(c.id, c.weight)) for c in rubric.criteria),
        groups=tuple(replace(g, weight=written.get(g.id, g.weight)) for g in rubric.groups),
    )
    for given, w in ((rubric, w0), (new, fitted)):
        found = rubric_decisions.compute_totals(tree, x, w[None, :], np.zeros(60, dtype=bool))[0]
        assert found == pytest.approx([node_scores(given, r)[None] or 0.0 for r in items], abs=1e-5)


def test_a_criterion_is_shrunk_to_its_group_and_a_group_to_the_whole() -> None:
    rubric = replace(TREE, criteria=tuple(c for c in TREE.criteria if c.parent in {"g", "h", "k"}))
    rubric = replace(rubric, groups=TREE.groups[:3])
    free = find_free_nodes(rubric)
    theta = {name: float(v) for name, v in zip(free, np.arange(len(free)) ** 2, strict=True)}
    inside = {"g": ["c0", "c1", "c2"], "k": ["c4", "c5", "c6"], "h": ["c3", "k"], None: ["g", "h"]}
    expected = 0.0
    for group, names in inside.items():
        values = [theta[n] for n in names]
        theta[group or ""] = float(np.mean(values))
        expected += float(np.var(values) * len(values))
    v = np.array([theta[n] for n in free])
    pull = shrinkage(build_tree(rubric, free)[0], np.ones(len(free)))
    assert v @ pull @ v == pytest.approx(expected)


def test_a_group_of_too_many_criteria_is_tuned_as_a_whole() -> None:
    lines = [Criterion(f"{g}{j}", "measured", "d", parent=g) for g in "ab" for j in range(30)]
    rubric = Rubric("r", 1, "d", 0.5, tuple(lines), (Group("a", "d"), Group("b", "d")))
    assert find_free_nodes(rubric) == ("b", *(f"a{j}" for j in range(30)))
    flat = replace(rubric, groups=(), criteria=tuple(replace(c, parent=None) for c in lines))
    assert len(find_free_nodes(flat)) == 60


def test_criteria_of_very_unequal_importance_get_very_unequal_weights() -> None:
    rng = np.random.default_rng(3)
    x = rng.random((600, 10))
    beta = np.array([0, 0, 0.2, 0.4, 0.6, 1, 1.6, 3, 6, 12])
    y = (rng.random(600) < 1 / (1 + np.exp(-(x - 0.5) @ beta))).astype(np.int64)
    s = Sample(x, np.ones(10), y, 2, 1, np.arange(600), np.ones(600), y < 0, np.arange(600))
    plan = plan_fit(s, rubric_decisions.Objective())
    found = fit_rules(s, plan, s.weight[None, :], np.random.default_rng(1))
    assert plan.penalties[-1] < found.penalties[0] < 0.01
    assert found.weights[0] / found.weights[0].sum() == pytest.approx(beta / beta.sum(), abs=0.08)


def test_the_best_threshold_is_the_best_of_all() -> None:
    rng = np.random.default_rng(8)
    for objective in (rubric_decisions.Objective(), rubric_decisions.Objective(5.0, 1.0)):
        for _ in range(20):
            t = np.round(rng.random((1, 30)), 1)
            y = rng.random(30) < t[0]
            w = rng.random((1, 30))
            best = rubric_decisions.choose_threshold(t, y.astype(float), w, objective)[0]
            tried = [objective.score(t[0] >= c, y, w[0]) for c in np.arange(-0.05, 1.01, 0.05)]
            assert objective.score(t[0] >= best, y, w[0]) == pytest.approx(max(tried))


def test_no_threshold_rejects_a_total_of_exactly_one() -> None:
    """Rejecting everything is best here, but no rubric can say so: its threshold is at most 1."""
    t, y, w = np.array([[1.0, 0.75, 0.25]]), np.zeros(3), np.ones((1, 3))
    objective = rubric_decisions.Objective(5.0, 1.0)
    assert rubric_decisions.choose_threshold(t, y, w, objective)[0] == 0.875
    assert rubric_decisions.choose_threshold(t * 0.5, y, w, objective)[0] == 0.75


def test_items_that_fail_a_blocker_are_not_used_for_fitting() -> None:
    rng = np.random.default_rng(12)
    x = rng.random((300, 3))
    y = (rng.random(300) < 1 / (1 + np.exp(-8 * (x[:, 0] - 0.5)))).astype(np.int64)
    blocked = np.arange(300) < 90
    x[:, 2] = np.where(blocked, 0.0, 1.0)  # the blocker: it decides those, and varies nowhere else
    y[blocked] = 0
    one = np.ones(300)
    s = Sample(x, np.ones(3), y, 2, 1, np.arange(300), one, blocked, np.arange(300))
    assert s.held.tolist() == [False, False, True]
    plan = plan_fit(s, rubric_decisions.Objective())
    w = fit_rules(s, plan, one[None, :], np.random.default_rng(1)).weights[0]
    assert w[0] > 1.4
    assert w[2] == pytest.approx(1.0, abs=1e-3)  # it follows the others


def test_equal_weights_of_many_criteria_are_not_called_uninformative() -> None:
    rng = np.random.default_rng(13)
    x = rng.random((80, 120))
    y = (rng.random(80) < 1 / (1 + np.exp(-40 * (x.mean(axis=1) - 0.5)))).astype(np.int64)
    one = np.ones(80)
    s = Sample(x, np.ones(120), y, 2, 1, np.arange(80), one, one < 0, np.arange(80))
    names = tuple(f"c{j}" for j in range(120))
    refits = FittedRules(np.ones((50, 120)), np.full(50, 0.5), np.full(50, np.inf))
    found = analyze_criteria(s, names, np.ones(120), refits)
    assert not [c.name for c in found if any("refits" in note for note in c.notes)]
    refits.weights[:, 3] = 0.0
    found = analyze_criteria(s, names, np.ones(120), refits)
    assert [c.name for c in found if any("refits" in note for note in c.notes)] == ["c3"]


def test_the_threshold_does_not_jump_where_calibration_changes() -> None:
    rng = np.random.default_rng(10)
    x = rng.random((500, 2))
    y = (rng.random(500) < 1 / (1 + np.exp(-40 * (x.mean(axis=1) ** 4 - 0.1)))).astype(np.int64)
    one, found = np.ones(500), []
    s = Sample(x, np.ones(2), y, 2, 1, np.arange(500), one, one < 0, np.arange(500))
    for isotonic in (False, True):
        plan = replace(plan_fit(s, rubric_decisions.Objective()), use_isotonic=isotonic)
        rules = fit_rules(s, plan, s.weight[None, :], np.random.default_rng(1))
        found.append(float(rules.thresholds[0]))
    assert found[0] == found[1]


def test_isotonic_regression_as_scikit_learn_has_it() -> None:
    from sklearn.isotonic import IsotonicRegression  # it takes a second

    rng = np.random.default_rng(9)
    x, y, w = np.round(rng.random(200), 2), rng.random(200), rng.random(200) + 0.1
    values, level = fit_isotonic(x, y, w)
    oracle = IsotonicRegression().fit(x, y, sample_weight=w)
    assert level == pytest.approx(oracle.predict(values), abs=1e-9)


def test_folds_keep_groups_whole_and_even() -> None:
    group = np.repeat(np.arange(23), 3)
    fold = assign_group_folds(group, 5, np.random.default_rng(1))
    assert all(np.unique(fold[group == g]).size == 1 for g in range(23))
    assert np.ptp(np.bincount(fold[::3])) <= 1


def test_rare_levels_join_their_neighbor_and_never_cross_the_cut() -> None:
    y = np.array([0] * 40 + [1] * 2 + [2] * 30 + [3] * 1)
    new, levels, cut = merge_rare_levels(y, np.ones(y.size), 4, 2)
    assert (levels, cut) == (2, 1)
    assert np.array_equal(new >= cut, y >= 2)
