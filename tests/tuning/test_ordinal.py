"""Ordinal labels, such as 1 to 5, as they are: from a CSV file to held-out weighted kappa."""

import json
from pathlib import Path

import numpy as np
import pytest

from orchestrator.cli.main import main
from orchestrator.tuning.file_formats.item_files import read_items
from orchestrator.tuning.labels.label_files import extract_labels, infer_scale
from orchestrator.tuning.ordinal_agreement import OrdinalAgreement, measure_ordinal_agreement
from orchestrator.tuning.statistics.agreement import rank_correlation
from orchestrator.tuning.training_data import TrainingData, build_training_data
from tests.tuning.labelsets import NAMES, rubric_of
from tests.tuning.simulations import draws


def write_csv(
    path: Path, n: int = 200, noise: float = 0.6, beta: float = 4.0, levels: int = 5, seed: int = 1
) -> Path:
    """Labels of two raters, from 1 up, that follow the scores of ``a`` and ``b``."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, len(NAMES)))
    mean = 1 + (levels - 1) * (0.5 + beta * ((2 * x[:, 0] + x[:, 1]) / 3 - 0.5) / 4)
    lines = ["id,group,rater,label," + ",".join(f"scores.{name}" for name in NAMES)]
    for rater in ("ana", "bo"):
        given = np.clip(np.round(mean + rng.normal(0, noise, n)), 1, levels)
        for i in range(n):
            scores = ",".join(f"{v:.3f}" for v in x[i])
            lines.append(f"i{i},g{i // 2},{rater},{given[i]:g},{scores}")
    path.write_text("\n".join(lines) + "\n")
    return path


def load(path: Path) -> TrainingData:
    items = read_items([path])
    labels = extract_labels(items, None)
    return build_training_data(rubric_of(), items, labels, infer_scale(labels, None))


def measure(data: TrainingData, seed: int = 1) -> OrdinalAgreement:
    t = data.sample.totals(data.sample.w0[None, :])
    found = measure_ordinal_agreement(data, t, t[0], seed)
    assert found is not None
    return found


def test_a_csv_file_becomes_a_held_out_weighted_kappa_with_plots_in_three_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = str(write_csv(tmp_path / "labels.csv"))
    rubric, page, out = (str(tmp_path / name) for name in ("house.yaml", "page.html", "t.json"))
    assert main(["rubric", "new", table, "--out", rubric]) == 0
    assert main(["rubric", "eval", rubric, table]) == 0
    assert "cut points: 2 from ." in capsys.readouterr().out
    more = ["--refits", "20", "--report", page, "--json", out]
    assert main(["rubric", "tune", rubric, table, *more]) == 0
    found = json.loads(Path(out).read_text())["ordinal"]
    before, after = (found[side]["weighted_kappa"]["value"] for side in ("before", "after"))
    assert found["change"]["value"] == pytest.approx(after - before)
    assert found["change"]["low"] > 0.0
    assert after == pytest.approx(0.7, abs=0.1)
    text, drawn = capsys.readouterr().out, Path(page).read_text()
    assert "weighted kappa (quadratic)" in text
    for name in ("weighted kappa", "levels of people and rubric"):
        assert f'aria-label="{name}"' in drawn


def test_statistics_of_the_whole_scale_are_those_of_other_libraries(tmp_path: Path) -> None:
    from scipy.stats import spearmanr  # both take a second
    from sklearn.metrics import cohen_kappa_score

    data = load(write_csv(tmp_path / "labels.csv"))
    found, s = measure(data), data.sample
    table = np.array(found.table)
    rows, columns = (part.ravel() for part in np.indices(table.shape))
    oracle = cohen_kappa_score(
        rows, columns, weights="quadratic", sample_weight=table.ravel(), labels=range(5)
    )
    # Mean over five splits, and of their pooled table.
    assert found.weighted_kappa.value == pytest.approx(oracle, abs=2e-3)
    off = np.abs(rows - columns)
    assert found.mean_error.value == pytest.approx(np.average(off, weights=table.ravel()))
    assert found.two_off.value == pytest.approx(table.ravel()[off >= 2].sum() / table.sum())
    people, t = data.ratings[data.rater, s.item], s.totals(s.w0[None, :])[0]
    assert found.rank_correlation is not None
    assert found.rank_correlation.value == pytest.approx(spearmanr(t, people)[0])
    times = np.random.default_rng(1).integers(0, 4, t.size)
    repeated = spearmanr(np.repeat(t, times), np.repeat(people, times))[0]
    assert rank_correlation(t, people, times.astype(float)) == pytest.approx(repeated)


def test_a_cut_point_is_learned_on_other_groups_than_it_decides(tmp_path: Path) -> None:
    """Labels that follow nothing give no agreement, however the cut points lie."""
    found = measure(load(write_csv(tmp_path / "noise.csv", beta=0.0, noise=1.5)))
    assert found.weighted_kappa.low <= 0.0 <= found.weighted_kappa.high
    assert list(found.cut_points) == sorted(found.cut_points)


def test_a_level_that_nobody_gave_is_a_step_all_the_same(tmp_path: Path) -> None:
    """Labels 1, 2, 4 and 5: a rubric that says 4 for 2 is two steps off."""
    path = write_csv(tmp_path / "labels.csv")
    head, *lines = path.read_text().splitlines()
    path.write_text("\n".join([head, *(x for x in lines if x.split(",")[3] != "3")]) + "\n")
    data = load(path)
    assert data.scale.values == (1.0, 2.0, 3.0, 4.0, 5.0)
    found = measure(data)
    assert len(found.table) == 5
    assert found.table[2] == (0.0,) * 5


def test_accept_or_reject_and_few_labels_have_no_whole_scale(tmp_path: Path) -> None:
    t = np.zeros((1, 400))
    two = load(write_csv(tmp_path / "two.csv", levels=2))
    assert measure_ordinal_agreement(two, t, t[0], 1) is None
    few = load(write_csv(tmp_path / "few.csv", n=20))
    assert measure_ordinal_agreement(few, t[:, :40], t[0, :40], 1) is None


@pytest.mark.simulation
@pytest.mark.parametrize(("n", "noise"), [(60, 0.3), (200, 0.8)])
def test_intervals_of_weighted_kappa_cover(n: int, noise: float, tmp_path: Path) -> None:
    """Against the mean of held-out kappas of other draws."""
    times = draws(20, 300)
    found = [
        measure(load(write_csv(tmp_path / "x.csv", n=n, noise=noise, seed=seed)), seed)
        for seed in range(times)
    ]
    true = np.mean([one.weighted_kappa.value for one in found])
    hits = [one.weighted_kappa.low <= true <= one.weighted_kappa.high for one in found]
    assert np.mean(hits) >= (0.9 if times == 300 else 0.8)
