"""Agreement statistics against independent implementations, to 1e-9."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from orchestrator.tuning.fitting import calibration
from orchestrator.tuning.labels.label_assessment import InterRaterAgreement, _find_low_agreement
from orchestrator.tuning.statistics import agreement as ag
from orchestrator.tuning.statistics.confidence_intervals import Interval

RNG = np.random.default_rng(11)
NAN = float("nan")

# Three raters and what irrCAC 0.4.1 says of them; it needs numpy 1, so it is not a dependency.
RATINGS = np.array(
    [
        [3, NAN, 4], [3, 4, 4], [4, 1, 2], [3, 2, 2], [3, 4, 3], [1, 3, NAN],
        [1, 3, 2], [4, 1, 2], [4, 2, 1], [4, 4, 4], [4, 2, 3], [4, 3, 4],
    ]
).T  # fmt: skip
IRRCAC_AC1 = -0.06043676993398


@pytest.mark.parametrize("levels", [2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_kappa_and_weighted_kappa(levels: int, seed: int) -> None:
    from sklearn.metrics import cohen_kappa_score, confusion_matrix  # it takes a second

    rng = np.random.default_rng(seed)
    a = rng.integers(0, levels, 80)
    b = np.where(rng.random(80) < 0.6, a, rng.integers(0, levels, 80))
    table = ag.confusion_matrix(a, b, levels)
    assert np.array_equal(table, confusion_matrix(a, b, labels=range(levels)))
    schemes: tuple[ag.Scheme, ...] = ("nominal", "linear", "quadratic")
    for scheme in schemes:
        weights = None if scheme == "nominal" else scheme
        oracle = cohen_kappa_score(a, b, weights=weights, labels=list(range(levels)))
        assert ag.cohen_kappa(table, scheme) == pytest.approx(oracle, abs=1e-9)


ALPHAS = yaml.safe_load(Path(__file__).with_name("krippendorff_alpha.yaml").read_text())


@pytest.mark.parametrize("case", ALPHAS, ids=range(len(ALPHAS)))
def test_alpha_with_missing_ratings_and_weights(case: dict[str, Any]) -> None:
    rows = [[NAN if cell == "-" else float(cell) for cell in row] for row in case["ratings"]]
    weights = np.array(case["weights"], float) if "weights" in case else None
    assert set(case["alpha"]) == {"nominal", "ordinal", "interval"}
    for scheme, alpha in case["alpha"].items():
        found = ag.krippendorff_alpha(np.array(rows), scheme, weights)
        assert found == pytest.approx(alpha, abs=1e-9), scheme


def test_ac1_as_irrcac_gives_it() -> None:
    assert ag.gwet_ac1(RATINGS - 1, 4) == pytest.approx(IRRCAC_AC1, abs=1e-9)


def test_ac1_counts_an_item_of_weight_three_as_three_items() -> None:
    weight = RNG.integers(0, 4, RATINGS.shape[1])
    repeated = np.repeat(RATINGS, weight, axis=1)
    assert ag.gwet_ac1(RATINGS - 1, 4, weight.astype(float)) == pytest.approx(
        ag.gwet_ac1(repeated - 1, 4), abs=1e-9
    )


def test_ac1_of_two_raters_from_its_definition() -> None:
    a, b = RNG.integers(0, 3, 50), RNG.integers(0, 3, 50)
    share = np.array([((a == k).mean() + (b == k).mean()) / 2 for k in range(3)])
    chance = (share * (1 - share)).sum() / 2
    expected = ((a == b).mean() - chance) / (1 - chance)
    assert ag.gwet_ac1(np.stack([a, b]).astype(float), 3) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_auc_with_ties_and_weights(seed: int) -> None:
    from sklearn.metrics import roc_auc_score  # it takes a second

    rng = np.random.default_rng(seed)
    score, y, w = rng.integers(0, 6, 70) / 5, rng.random(70) < 0.4, rng.random(70)
    assert ag.roc_auc(score, y) == pytest.approx(roc_auc_score(y, score), abs=1e-9)
    assert ag.roc_auc(score, y, w) == pytest.approx(
        roc_auc_score(y, score, sample_weight=w), abs=1e-9
    )


def test_unknown_statistics_are_none() -> None:
    one = np.array([1, 1, 1])
    assert ag.cohen_kappa(ag.confusion_matrix(one, one, 2)) is None
    assert ag.roc_auc(np.array([0.1, 0.2]), np.array([True, True])) is None
    alone = np.array([[1.0, NAN], [NAN, 2.0]])
    assert ag.krippendorff_alpha(alone, "nominal") is None
    assert ag.gwet_ac1(alone, 3) is None
    assert ag.krippendorff_alpha(np.ones((2, 5)), "nominal") is None


def test_calibration_error_by_hand() -> None:
    p = np.array([0.05, 0.05, 0.95, 0.95])
    y = np.array([False, True, True, True])
    curve = calibration.reliability_curve(p, y)
    assert [(b.mean_predicted, b.fraction_accepted, b.weight) for b in curve] == [
        (0.05, 0.5, 2),
        (0.95, 1.0, 2),
    ]
    assert calibration.expected_calibration_error(curve) == pytest.approx(0.5 * 0.45 + 0.5 * 0.05)


@pytest.mark.parametrize(
    ("alpha", "refused"),
    [((0.35, 0.05, 0.65), False), ((0.1, -0.2, 0.38), True), ((0.1, np.nan, np.nan), False)],
)
def test_raters_are_refused_only_where_their_agreement_is_surely_too_low(
    alpha: tuple[float, float, float], refused: bool
) -> None:
    people = InterRaterAgreement(20, None, Interval(*alpha), None, None, None)
    assert bool(_find_low_agreement(people)) is refused
