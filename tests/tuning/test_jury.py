"""Several judges of the same items: agreement, independence, majority and cascades."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.cli.main import main
from orchestrator.engine.types import Criterion, Rubric
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.file_formats.rubric_file import MET_LEVELS, write_rubric
from orchestrator.tuning.jury import Jury, measure_jury
from orchestrator.tuning.labels.label_files import Label, infer_scale
from tests.tuning.simulations import draws

Save = Callable[..., Path]
RUBRIC = Rubric("q", 1, "One criterion.", 0.5, (Criterion("q", "judged", "q", levels=MET_LEVELS),))
COSTS = {"cheap": 0.001, "dear": 0.02}


def scores(
    rng: np.random.Generator, n: int, noises: tuple[float, ...], common: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """What people say, and each judge's score, whose error grows with its noise."""
    y = rng.random(n) < 0.5
    shared = rng.normal(0, common, n) if common else np.zeros(n)
    latent = [2.0 * y - 1.0 + shared + rng.normal(0, noise, n) for noise in noises]
    return y, 1.0 / (1.0 + np.exp(-1.5 * np.array(latent)))


def judge(
    y: np.ndarray, given: np.ndarray, names: tuple[str, ...] = ("cheap", "dear"), **more: Any
) -> Jury:
    items = [
        Item(f"i{i}", f"g{i // 2}", {"q": float(x)}, judge=name)
        for name, own in zip(names, given, strict=True)
        for i, x in enumerate(own)
    ]
    labels = [Label(f"i{i}", "ana", "accept" if yes else "reject") for i, yes in enumerate(y)]
    return measure_jury(RUBRIC, items, labels, infer_scale(labels, None), more.get("costs", COSTS))


def test_a_cascade_that_asks_the_dear_judge_where_the_cheap_one_is_unsure_is_proven() -> None:
    """Half the cost of the dear judge, or less, at equal agreement."""
    found = judge(*scores(np.random.default_rng(1), 1_000, (0.6, 0.45)))
    (one,) = found.cascades
    assert (one.cheap, one.dear, one.proven) == ("cheap", "dear", True)
    assert one.usd <= 0.5 * COSTS["dear"]
    assert one.usd == pytest.approx(COSTS["cheap"] + one.asked * COSTS["dear"])
    assert abs(one.comparison.change.value) < 0.02


def test_a_cheap_judge_who_guesses_saves_nothing() -> None:
    rng = np.random.default_rng(2)
    y, (_, dear) = scores(rng, 600, (1.0, 0.4))
    (one,) = judge(y, np.stack([rng.random(600), dear])).cascades
    assert not one.proven
    assert one.asked > 0.9


@pytest.mark.simulation
def test_a_cascade_that_loses_the_margin_is_hardly_ever_proven() -> None:
    """The true loss is that of the chosen width on many further items."""
    rng, times, wrong = np.random.default_rng(3), draws(20, 200), 0
    for _ in range(times):
        y, given = scores(rng, 300, (1.2, 0.5))
        (one,) = judge(y, given).cascades
        y, (cheap, dear) = scores(rng, 20_000, (1.2, 0.5))
        asks = np.abs(cheap - 0.5) <= one.within
        right = (np.where(asks, dear, cheap) >= 0.5) == y
        lost = 2 * (((dear >= 0.5) == y).mean() - right.mean())
        wrong += one.proven and lost > 0.05
    assert wrong / times <= 0.05


@pytest.mark.parametrize(
    ("noises", "common", "least", "most"),
    [((0.8, 0.8), 0.0, 1.8, 2.0), ((0.8,) * 4, 0.0, 3.2, 4.0), ((0.3,) * 3, 1.2, 1.0, 1.6)],
)
def test_judges_are_worth_as_many_as_err_independently(
    noises: tuple[float, ...], common: float, least: float, most: float
) -> None:
    y, given = scores(np.random.default_rng(4), 600, noises, common)
    names = tuple(f"m{k}" for k in range(len(noises)))
    found = judge(y, given, names, costs={})
    assert found.independent is not None
    assert least <= found.independent.value <= most
    assert found.cascades == ()
    copies = judge(y, np.stack([given[0]] * 3), ("a", "b", "c"), costs={})
    assert copies.independent is not None
    assert copies.independent.value == pytest.approx(1.0)
    assert copies.between is not None
    assert copies.between.value == 1.0
    assert judge(y, np.stack([y, y]).astype(float)).independent is None  # none errs


def test_a_majority_of_independent_judges_beats_each_and_a_tie_goes_to_the_surer() -> None:
    found = judge(*scores(np.random.default_rng(5), 900, (1.0,) * 5), tuple("abcde"), costs={})
    assert all(one.majority_gain.low > 0.0 for one in found.judges)
    y = np.array([True] * 10 + [False] * 10)
    sure = judge(y, np.stack([np.where(y, 0.9, 0.1), np.where(y, 0.4, 0.6)]))
    assert sure.majority is not None
    assert sure.majority.value == 1.0


def rows_of(name: str, given: np.ndarray, y: np.ndarray) -> list[dict[str, Any]]:
    return [
        {
            "id": f"i{i}", "group": f"g{i // 2}", "scores": {"q": float(x)}, "rater": "ana",
            "label": "accept" if yes else "reject", **({"judge": name} if name else {}),
        }
        for i, (x, yes) in enumerate(zip(given, y, strict=True))
    ]  # fmt: skip


def test_the_command_prints_and_draws_what_the_judges_amount_to(
    save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rubric(tmp_path / "q.yaml", RUBRIC)
    y, (cheap, dear) = scores(np.random.default_rng(1), 1_000, (0.6, 0.45))
    # The second file names no judge: its name is the judge's.
    files = [save(rows_of("cheap", cheap, y), "a.jsonl"), save(rows_of("", dear, y), "dear.jsonl")]
    paid = [f"--cost={name}={usd}" for name, usd in COSTS.items()]
    call = ["rubric", "jury", str(tmp_path / "q.yaml"), *map(str, files)]
    page = tmp_path / "page.html"
    assert main([*call, *paid, "--report", str(page)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "CASCADE PROVEN" in out
    assert "cheap, and dear where the total is within" in out
    assert 'aria-label="kappa of judges"' in page.read_text()
    assert main(call) == 1
    assert "costs that differ" in " ".join(capsys.readouterr().out.split())
    assert main([*call, "--cost", "other=1"]) == 2
    assert main([*call[:-1], "--json"]) == 2
    assert "a jury has two judges or more" in capsys.readouterr().err


def test_scores_of_two_judges_are_never_mixed_in_silence(
    save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where one names itself and the other does not, or one's name is a part of the other's."""
    write_rubric(tmp_path / "q.yaml", RUBRIC)
    y, (a, b) = scores(np.random.default_rng(6), 80, (0.8, 0.8))
    halves = [*rows_of("m1", a[:40], y[:40]), *rows_of("", b, y)[40:]]
    call = ["rubric", "eval", str(tmp_path / "q.yaml"), str(save(halves))]
    assert main(call) == 2
    assert "scored by 2 judges: judge unnamed (40); m1 (40)" in capsys.readouterr().err
    assert main([*call, "--judge", "any"]) == 0
    both = save([*rows_of("m1", a, y), *rows_of("m10", b, y)], "both.jsonl")
    said = {}
    for name in ("m1", "m10"):
        given = ["rubric", "eval", str(tmp_path / "q.yaml"), str(both), "--judge", name, "--json"]
        capsys.readouterr()
        assert main(given) == 0
        said[name] = json.loads(capsys.readouterr().out)["kappa"]["value"]
    assert said["m1"] != said["m10"]
