"""Whether a gain generalizes: refusals rest on intervals, and checks that were not made say so."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.cli.main import main
from orchestrator.tuning.file_formats.item_files import Item, read_items
from orchestrator.tuning.fitting import generalization
from orchestrator.tuning.fitting.rule_fitting import plan_fit
from orchestrator.tuning.labels.label_files import Label, extract_labels, infer_scale
from orchestrator.tuning.rubric_decisions import Objective
from orchestrator.tuning.training_data import TrainingData, build_training_data
from tests.tuning.labelsets import NAMES, rows, rubric_of
from tests.tuning.simulations import draws

Save = Callable[..., Path]


def data_of(path: Path) -> TrainingData:
    items = read_items([path])
    labels = extract_labels(items, None)
    return build_training_data(rubric_of(), items, labels, infer_scale(labels, None))


def checks_of(path: Path) -> dict[str, generalization.GeneralizationCheck]:
    data = data_of(path)
    plan = plan_fit(data.sample, Objective())
    held_out = data.sample.accept[None, :]  # perfect decisions
    rng = np.random.default_rng(1)
    found = generalization.check_generalization(data, plan, 0.5, held_out, rng)
    return {check.name: check for check in found}


def test_a_gain_that_a_small_part_of_the_labels_cannot_show_is_not_refused(save: Save) -> None:
    """A point estimate below 0 is no refusal; an interval below 0 is."""
    items = rows(260, (3.0, 1.0, 0.0, 0.0), seed=2)
    for r in items[200:]:
        r["rater"] = "bo"
    noisy = np.random.default_rng(5)
    for r in items[200:]:
        mean = np.mean(list(r["scores"].values())) + noisy.normal() * 0.15
        r["label"] = "accept" if mean > 0.5 else "reject"
    found = checks_of(save(items))["rater 'bo', fitted on groups of others"]
    assert found.comparison is not None
    assert found.comparison.change.value < 0.0 < found.comparison.change.high
    assert found.outcome == "open"
    for r in items[200:]:
        x = r["scores"]
        r["label"] = "accept" if x["c"] + x["d"] - x["a"] > 0.5 else "reject"
    worse = checks_of(save(items))["rater 'bo', fitted on groups of others"]
    assert worse.comparison is not None
    assert worse.comparison.change.high < 0.0
    assert worse.outcome == "fails"


def test_checks_that_could_not_be_made_are_named(
    save: Save, house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = sorted(rows(200, size=1), key=lambda r: str(r["label"]))
    page, doc = tmp_path / "page.html", tmp_path / "o.json"
    args = ("--refits", "30", "--report", str(page), "--json", str(doc))
    main(["rubric", "tune", str(house), str(save(items)), *args])
    printed = " ".join(capsys.readouterr().out.split())
    expected = {
        "other raters": "there is one rater",
        "later items, fitted on the earlier ones": "to check, 0 of the 8 needed accepted items",
        "other sites": "no item names its site",
    }
    for name, reason in expected.items():
        assert f"{name}: {reason}" in printed
        assert name in page.read_text()
    found = {c["name"]: c for c in json.loads(doc.read_text())["checks"]}
    assert {name: c["outcome"] for name, c in found.items()} == dict.fromkeys(expected, "not made")


def test_a_gain_of_some_sites_is_checked_on_the_others(save: Save) -> None:
    items: list[dict[str, Any]] = []
    for k, beta in enumerate([(4.0, 2.0, 0.0, 0.0)] * 3 + [(-1.0, 0.0, 4.0, 4.0)]):
        for r in rows(60 if k == 3 else 160, beta, seed=k + 1):
            key = "site" if k % 2 else "project"
            ids = {"id": f"{k}/{r['id']}", "group": f"{k}/{r['group']}"}
            items.append(r | ids | {key: f"s{k}"})
    items += [r | {"id": f"t/{r['id']}", "group": f"t/{r['group']}", "site": "tiny"}
              for r in rows(10, seed=9)]  # fmt: skip
    found = checks_of(save(items))
    outcome = {k: found[f"site 's{k}', fitted on the others"].outcome for k in range(4)}
    assert outcome == {0: "holds", 1: "holds", 2: "holds", 3: "fails"}
    assert "all 5 sites, each fitted on the others" in found
    tiny = found["site 'tiny', fitted on the others"]
    assert (tiny.outcome, tiny.reason) == ("not made", "to check, 10 of the 30 needed items")


def test_later_is_what_the_times_say_and_else_the_order_of_the_files(
    save: Save, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = rows(160)
    for n, r in enumerate(made):
        r["at"] = f"2026-0{1 + n // 40}-{1 + n % 28:02}T10:00:00+0{n % 3}:00"
    shuffled = [made[n] for n in np.random.default_rng(3).permutation(160)]
    found = []
    for number, items in enumerate((made, shuffled)):
        path = save(items, f"{number}.jsonl")
        data = data_of(path)
        assert data.order == "time"
        comparison = checks_of(path)["later items, fitted on the earlier ones"].comparison
        assert comparison is not None
        found.append(comparison.change.value)
    assert found[0] == pytest.approx(found[1])
    del shuffled[0]["at"]
    path = save(shuffled, "some.jsonl")
    assert data_of(path).items[0].group == shuffled[0]["group"]
    main(["rubric", "tune", str(house), str(path), "--refits", "20"])
    out = " ".join(capsys.readouterr().out.split())
    assert "later in the order of the files, since 1 item without a time 'at'" in out


def label_set(
    rng: np.random.Generator, raters: int, labels: int, items: int, right: float, random: int = 0
) -> tuple[TrainingData, np.ndarray]:
    """Raters who are right with a probability, the last ones by chance; and a score of each row."""
    truth = rng.random(items) < 0.5
    score = np.clip(0.5 + np.where(truth, 0.2, -0.2) + rng.normal(size=items) * 0.25, 0, 1)
    made = [Item(f"i{n}", f"g{n}", {k: float(score[n]) for k in NAMES}) for n in range(items)]
    said = []
    for k in range(raters):
        share = 0.5 if k >= raters - random else right
        for n in rng.permutation(items)[:labels]:
            yes = truth[n] == (rng.random() < share)
            said.append(Label(f"i{n}", f"r{k}", "accept" if yes else "reject"))
    data = build_training_data(rubric_of(), made, said, infer_scale(said, None))
    return data, data.sample.x[:, 0]


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("raters", "labels", "items", "right"),
    [(6, 20, 60, 0.85), (6, 20, 60, 0.75), (3, 60, 60, 0.75), (12, 30, 120, 0.85)],
)
def test_good_raters_are_hardly_ever_named(
    raters: int, labels: int, items: int, right: float
) -> None:
    rng, times = np.random.default_rng(5), draws(8, 400)
    named = [
        any(r.at_chance for r in generalization.measure_raters(*label_set(rng, *given)))
        for given in [(raters, labels, items, right)] * times
    ]
    assert np.mean(named) <= (0.05 if times == 400 else 0.25)


@pytest.mark.simulation
def test_a_random_rater_among_three_with_sixty_labels_is_mostly_found() -> None:
    rng, times = np.random.default_rng(6), draws(30, 300)
    named = [
        [r.at_chance for r in generalization.measure_raters(*label_set(rng, 3, 60, 60, 0.85, 1))]
        for _ in range(times)
    ]
    assert np.mean([who == [False, False, True] for who in named]) >= 0.8


@pytest.mark.parametrize("shared", [False, True])
def test_a_rater_who_labels_at_random_is_named(
    shared: bool, save: Save, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(4)
    items = rows(270)
    for i, r in enumerate(items):
        r["rater"] = ("ana", "bo", "cy")[i % 3]
    if shared:  # everybody labels the first 60
        for name in ("ana", "bo", "cy"):
            items += [r | {"rater": name} for r in items[:60] if r["rater"] != name]
    for r in items:
        if r["rater"] == "cy":
            r["label"] = "accept" if rng.random() < 0.5 else "reject"
    data = data_of(path := save(items))
    x = data.sample.x
    found = generalization.measure_raters(data, x[:, 0] + 0.5 * x[:, 1])
    assert [r.at_chance for r in found] == [False, False, True]
    assert (found[2].kappa is not None) is shared
    main(["rubric", "tune", str(house), str(path), "--refits", "30"])
    assert "rater 'cy' labels as if at random: AUC" in " ".join(capsys.readouterr().out.split())
