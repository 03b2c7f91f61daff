"""``rubric compare``: paired change of kappa, power, changed decisions, exit codes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.cli.commands.rubric.scoring import ScoringStopped
from orchestrator.engine.types import Criterion, Json, Response, Rubric, ScoreLevel
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.file_formats.rubric_file import write_rubric
from orchestrator.tuning.rubric_comparison import LabeledRows, compare_paired, judge_change
from orchestrator.tuning.statistics.confidence_intervals import (
    estimate_labels_needed,
    smallest_detectable_change,
)
from tests.tuning.item_models import PROVIDER, judge_line, serving
from tests.tuning.labelsets import rubric_of
from tests.tuning.simulations import draws
from tests.tuning.test_rubric_cli import run

Save = Callable[..., Path]


def scored(n: int, right: float, seed: int, judge: str, size: int = 1) -> list[dict[str, Any]]:
    """Items of a judge of one criterion who is right with a probability."""
    truth = np.random.default_rng(7).random(n) < 0.5
    hit = np.random.default_rng(seed).random(n) < right
    return [
        {
            "id": f"i{i}",
            "group": f"g{i // size}",
            "scores": {"a": float(truth[i] == hit[i])},
            "text": f"comment {i}",
            "rater": "ana",
            "label": "accept" if truth[i] else "reject",
            "judge": judge,
            "usd": 0.001,
        }
        for i in range(n)
    ]


@pytest.fixture
def one(tmp_path: Path) -> Path:
    path = tmp_path / "house.yaml"
    write_rubric(path, rubric_of(("a",)))
    return path


@pytest.mark.parametrize(
    ("n", "right", "code", "says"),
    [
        (200, (0.6, 0.9), 0, "B IS BETTER"),
        (200, (0.9, 0.6), 1, "B IS WORSE"),
        (40, (0.75, 0.8), 3, "CANNOT TELL"),
    ],
)
def test_the_exit_code_says_what_is_proven(
    n: int,
    right: tuple[float, float],
    code: int,
    says: str,
    save: Save,
    one: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    a = save(scored(n, right[0], 1, "model-x"), "a.jsonl")
    b = save(scored(n, right[1], 2, "model-y"), "b.jsonl")
    assert run("compare", a, b, "--rubric", one) == code
    out = capsys.readouterr().out
    assert out.startswith(says)
    assert ("80% power" in out) == (code == 3)
    assert f"judge: model-y; {n * 0.001:.4f} USD" in " ".join(out.split())
    assert all(len(line) <= 80 for line in out.splitlines())


def test_two_rubrics_are_compared_on_the_same_scores(
    save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = save(scored(120, 0.9, 1, "x"))
    for name, threshold in (("low", 0.5), ("none", 0.0)):
        rubric = rubric_of(("a",), threshold)
        write_rubric(tmp_path / f"{name}.yaml", type(rubric)(name, *rubric_fields(rubric)))
    sides = tmp_path / "low.yaml", tmp_path / "none.yaml"
    assert run("compare", *sides, "--items", items, "--json", "-") == 1
    found = json.loads(capsys.readouterr().out)
    changed = [c["id"] for c in found["changed"]]
    rejected = [r["id"] for r in scored(120, 0.9, 1, "x") if r["scores"]["a"] == 0.0]
    assert changed == rejected  # the rubric with threshold 0 accepts them, the other does not
    assert found["outcome"] == "worse"
    assert found["comparison"]["after"]["value"] == 0.0


def rubric_fields(rubric: Any) -> list[Any]:
    return [getattr(rubric, f) for f in rubric.__struct_fields__ if f != "name"]


def test_equal_decisions_are_no_worse_only_with_enough_labels(save: Save, one: Path) -> None:
    few, many = (save(scored(n, 0.8, 1, "x"), f"{n}.jsonl") for n in (30, 400))
    assert run("compare", few, few, "--rubric", one) == 3
    assert run("compare", many, many, "--rubric", one) == 0


def test_items_that_only_one_side_scored_are_left_out_and_named(
    save: Save, one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = scored(60, 0.8, 1, "x")
    a, b = save(rows, "a.jsonl"), save(rows[:50], "b.jsonl")
    run("compare", a, b, "--rubric", one, "--json", "-")
    assert json.loads(capsys.readouterr().out)["left_out"] == sorted(f"i{i}" for i in range(50, 60))
    other = save([{**r, "id": f"x{r['id']}"} for r in rows], "c.jsonl")
    with pytest.raises(InputError, match="no labeled item was scored by both"):
        run("compare", a, other, "--rubric", one)
    with pytest.raises(InputError, match="give the rubric that decides them: --rubric"):
        run("compare", a, b)


def sides(
    rng: np.random.Generator, n: int, size: int, differ: float, gain: float
) -> tuple[LabeledRows, Any, Any]:
    """Labels, a judge who is right in 75%, and one that decides a share of groups otherwise."""
    group = np.arange(n) // size
    y = rng.random(n) < 0.5
    a = np.where(rng.random(n) < 0.75, y, ~y)
    moved = rng.random(n) < differ
    better = rng.random(n) < (1 + gain) / 2
    b = np.where(moved, np.where(better, y, ~y), a)
    items = tuple(Item(str(i), str(g), {}) for i, g in enumerate(group))
    return LabeledRows(items, np.arange(n), y, np.ones(n), group), a, b


@pytest.mark.simulation
@pytest.mark.parametrize(("n", "size", "differ"), [(60, 1, 0.1), (120, 3, 0.2), (250, 5, 0.05)])
def test_judges_that_are_equally_good_are_rarely_called_different(
    n: int, size: int, differ: float
) -> None:
    """A decision that moves is right in 75%, as the one that it replaces: the true change is 0."""
    rng, times = np.random.default_rng(1), draws(150, 400)
    said = [judge_change(compare_paired(*sides(rng, n, size, differ, 0.5))) for _ in range(times)]
    most = 0.035 if times == 400 else 0.045  # 2.5%, and the error of so many draws
    assert said.count("better") / times <= most
    assert said.count("worse") / times <= most


def test_the_stated_number_of_labels_has_the_stated_power() -> None:
    """80%: measured with as many labels as a smaller comparison asks for."""
    rng = np.random.default_rng(2)
    paired = compare_paired(*sides(rng, 200, 1, 0.3, 1.0))
    true = 0.3 * 0.25 * 2  # a quarter of the moved decisions was wrong; kappa is twice the share
    needed = estimate_labels_needed(200, paired.standard_error, 200, true)
    proven = [
        judge_change(compare_paired(*sides(rng, needed, 1, 0.3, 1.0))) == "better"
        for _ in range(300)
    ]
    assert 0.72 <= np.mean(proven) <= 0.95
    assert smallest_detectable_change(paired.standard_error, 2) == float("inf")


def test_two_models_are_called_once_and_not_again(
    save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    levels = (ScoreLevel(0.0, "no"), ScoreLevel(1.0, "yes"))
    line = Criterion("a", "judged", "Is it right?", levels=levels)
    write_rubric(tmp_path / "ask.yaml", Rubric("ask", 1, "A rubric.", 0.5, (line,)))
    rows = [{**r, "scores": {}, "judge": "", "usd": 0} for r in scored(40, 1.0, 1, "")]
    truth = {str(r["text"]): float(r["label"] == "accept") for r in rows}

    def reply(body: dict[str, Json]) -> Response:
        weak = body["model"] == "model-x"
        return judge_line(lambda text, _: 0.0 if weak else truth[text])(body)

    given = ("ask.yaml", "ask.yaml", "--items", save(rows), "--provider", PROVIDER)
    models = ("--model", "model-x", "--model", "model-y", "--max-tokens", 9_000_000)
    with serving(monkeypatch, {"item-judge": [reply] * 80}) as server:
        assert run("compare", *given, *models, "--estimate") == 0
        assert "A: 40 items by 1 judged criteria, by model-x" in capsys.readouterr().out
        assert not server.requests
        with pytest.raises(ScoringStopped, match="the scoring of A ended early") as stopped:
            run("compare", *given, *models[:4], "--max-tokens", 5_000)
        assert stopped.value.exit_code == 3
        assert run("compare", *given, *models) == 0
        assert run("compare", *given, *models) == 0
        assert len(server.requests) == 80
    out = capsys.readouterr().out
    assert out.startswith("B IS BETTER")
    assert "judge: model-y, prompt " in out
