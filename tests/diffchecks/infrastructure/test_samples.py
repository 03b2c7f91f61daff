"""Planted defects by kind of file: how many are found, and that what is safe is quiet."""

from pathlib import Path

import pytest

from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.code_review.policy_loading import load_rules
from tests.diffchecks.infrastructure.infrastructure_kit import SAMPLES, cases, codes, samples

FOUND_AT_LEAST = 0.8


@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_most_planted_defects_are_found_and_nothing_else(tmp_path: Path, kind: str) -> None:
    pairs = samples(kind)
    assert 8 <= len(pairs) <= 20
    missed = []
    for number, pair in enumerate(pairs):
        assert not codes(tmp_path / f"good{number}", pair["path"], pair["good"]), pair["what"]
        found = codes(tmp_path / f"bad{number}", pair["path"], pair["bad"])
        missed += [] if found else [pair["what"]]
        assert pair.get("code", found[0] if found else "") in [*found, ""]
    assert len(missed) <= (1 - FOUND_AT_LEAST) * len(pairs), missed


CASES = cases()


@pytest.mark.parametrize("code", sorted(CASES))
def test_a_code_is_found_in_its_bad_example_alone(tmp_path: Path, code: str) -> None:
    path, bad, good = CASES[code]
    assert set(codes(tmp_path / "bad", path, bad)) == {code}
    assert not codes(tmp_path / "good", path, good)


def test_every_code_has_a_rule_and_the_reverse() -> None:
    assert load_rules([read_shipped_layer()]).codes("infrastructure") == set(CASES)
