"""What weights cannot express: pairs of criteria as groups, and boosted trees."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from orchestrator.engine.rubric_scoring import node_scores
from orchestrator.engine.types import Group, Rubric
from orchestrator.optional_dependencies import install_command
from orchestrator.tuning.criterion_analysis import find_pair, measure_beyond_weights
from orchestrator.tuning.evaluation import evaluate_rubric
from orchestrator.tuning.file_formats.item_files import Item, read_items
from orchestrator.tuning.file_formats.paperbench import to_paperbench
from orchestrator.tuning.file_formats.rubric_file import (
    digest_rule,
    find_errors,
    read_rubric,
    write_rubric,
)
from orchestrator.tuning.fitting.rule_fitting import plan_fit
from orchestrator.tuning.labels.label_files import extract_labels, infer_scale
from orchestrator.tuning.rubric_decisions import Objective
from orchestrator.tuning.statistics.confidence_intervals import t_quantile
from orchestrator.tuning.training_data import TrainingData, build_training_data
from orchestrator.tuning.tune import add_provenance, tune_rubric
from tests.tuning.labelsets import NAMES, rubric_of

Save = Callable[..., Path]
TRUTHS: dict[str, Callable[[Any], Any]] = {
    "all_of": lambda x: 30.0 * (np.minimum(x[:, 0], x[:, 1]) - 0.4),
    "any_of": lambda x: 30.0 * (np.maximum(x[:, 0], x[:, 1]) - 0.6),
    "either": lambda x: np.where((x[:, 0] > 0.5) == (x[:, 1] > 0.5), 4.0, -4.0),
    "weights": lambda x: 6.0 * (x[:, 0] + x[:, 1] - 1.0),
    "noise": lambda x: 0.0 * x[:, 0],
}


def label_by(truth: str, seed: int = 1, n: int = 300) -> list[dict[str, Any]]:
    """Items in groups of two, whose labels follow a truth about ``a`` and ``b``."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, len(NAMES))).round(4)
    y = rng.random(n) < 1 / (1 + np.exp(-TRUTHS[truth](x)))
    return [
        {"id": f"i{i}", "group": f"g{i // 2}", "scores": dict(zip(NAMES, map(float, x[i]), strict=True)),
         "rater": "ana", "label": "accept" if y[i] else "reject"}
        for i in range(n)
    ]  # fmt: skip


def read(path: Path, rubric: Rubric) -> tuple[TrainingData, list[Item]]:
    items = read_items([path])
    labels = extract_labels(items, None)
    return build_training_data(rubric, items, labels, infer_scale(labels, None)), items


@pytest.mark.parametrize("combine", ["all_of", "any_of"])
def test_a_pair_that_weights_cannot_express_is_written_as_a_group_once_it_is_proven(
    save: Save, tmp_path: Path, combine: str
) -> None:
    path, rubric = save(label_by(combine)), rubric_of()
    data, items = read(path, rubric)
    found = tune_rubric(rubric, data, items, Objective(), refits=50)
    assert found.pair is not None
    assert found.comparison is not None
    assert (found.pair.names, found.pair.combine) == (("a", "b"), combine)
    assert (found.pair.proven, found.pair.looked_at, found.proven) == (True, 12, True)
    present = evaluate_rubric(rubric, data, items)
    assert present.kappa is not None
    assert found.comparison.before.value == pytest.approx(present.kappa.value)
    assert any("corrected for the 12 groups of two" in note for note in found.notes)
    new = add_provenance("house-v2", rubric, data, extract_labels(items, None), found)
    write_rubric(tmp_path / "house-v2.yaml", new)
    again = read_rubric(tmp_path / "house-v2.yaml")
    assert [(g.id.split("-")[1], g.combine) for g in again.groups] == [
        ("and" if combine == "all_of" else "or", combine)
    ]
    assert [(c.id, c.weight) for c in again.criteria if c.parent] == [("a", 1.0), ("b", 1.0)]
    retuned, _ = read(path, again)
    assert set(retuned.free_nodes) <= {"c", "d", again.groups[0].id}
    assert evaluate_rubric(again, retuned, items).kappa.value > 0.85  # type: ignore[union-attr]


@pytest.mark.parametrize("truth", ["weights", "noise"])
def test_no_pair_is_proven_where_weights_suffice_or_labels_are_noise(
    save: Save, truth: str
) -> None:
    for seed in range(6):
        data, _ = read(save(label_by(truth, seed, 120)), rubric_of())
        found = find_pair(rubric_of(), data, plan_fit(data.sample, Objective()), seed)
        assert found is None or not found.proven


def test_the_interval_of_a_pair_is_that_of_all_pairs_at_once(save: Save) -> None:
    from scipy.stats import t

    data, _ = read(save(label_by("all_of")), rubric_of())
    found = find_pair(rubric_of(), data, plan_fit(data.sample, Objective()), 1)
    assert found is not None
    half = t.ppf(1 - 0.025 / 12, 149) * found.comparison.standard_error
    assert found.change.low == pytest.approx(found.change.value - half, abs=1e-3)
    assert t_quantile(9, 1 - 0.05 / 400) == pytest.approx(t.ppf(1 - 0.025 / 400, 9), rel=0.02)


def test_trees_say_how_much_an_interaction_is_worth_and_that_weights_suffice(save: Save) -> None:
    found = {}
    for truth in ("either", "weights"):
        data, items = read(save(label_by(truth)), rubric_of())
        beyond = evaluate_rubric(rubric_of(), data, items, beyond=True).beyond_weights
        assert beyond is not None
        assert beyond.trees is not None
        found[truth] = beyond.trees
    assert found["either"].before.value < 0.2
    assert found["either"].change.low > 0.5
    assert found["weights"].change.low < 0.0


def test_without_scikit_learn_the_pair_is_measured_and_the_command_is_named(
    save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    data, _ = read(save(label_by("all_of")), rubric_of())
    found = measure_beyond_weights(rubric_of(), data, 1)
    assert found.trees is None
    assert found.pair is not None
    assert found.missing == f"scikit-learn is not installed; run: {install_command('trees')}"


def grouped(combine: Any = "all_of", weight: float = 1.0) -> Rubric:
    rubric = rubric_of()
    lines = tuple(
        replace(c, parent="pair", weight=weight) if c.id in "ab" else c for c in rubric.criteria
    )
    return replace(rubric, criteria=lines, groups=(Group("pair", combine=combine),))


def test_tuning_scores_a_group_of_two_as_the_engine_does(save: Save) -> None:
    items = label_by("all_of", n=60)
    for at, item in enumerate(items):
        if at % 3 < 2:
            item["scores"]["a" if at % 2 else "b"] = None if at % 3 else "na"
    data, read_back = read(save(items), grouped())
    expected = [node_scores(grouped(), item.scores)[None] for item in read_back]
    assert data.totals[np.argsort(data.sample.item)] == pytest.approx(expected)


def test_a_group_of_two_needs_criteria_of_weight_1_and_is_part_of_the_rule(tmp_path: Path) -> None:
    for name, rubric in {"good": grouped(), "bad": grouped(weight=2.0)}.items():
        write_rubric(tmp_path / f"{name}.yaml", replace(rubric, name=name))
    assert find_errors(tmp_path / "good.yaml") == []
    (error,) = find_errors(tmp_path / "bad.yaml")
    assert "all_of takes two or more criteria of weight 1, and no groups" in str(error)
    rules = {digest_rule(grouped(combine)) for combine in ("mean", "all_of", "any_of")}
    assert len(rules) == 3
    assert "pair: all_of; not supported by the target" in to_paperbench(grouped()).unmapped
