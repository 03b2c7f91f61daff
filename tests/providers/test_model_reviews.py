"""What models find reaches the verdict once, and what they invent does not; ``bench/`` measures more."""

from pathlib import Path

from tests.providers.model_review_kit import (
    KINDS,
    checks_not_run,
    cost,
    duplicates,
    refuted,
    slips,
    trivial_tokens,
)


def test_slips_cost_no_finding_and_an_invented_quote_gains_none(tmp_path: Path) -> None:
    found = list(slips(tmp_path / "repo", 1))
    assert {one.slip for one, _ in found} == {*KINDS, "invented"}
    wrong = [
        (one.slip, one.said["title"]) for one, held in found if held == (one.slip == "invented")
    ]
    assert wrong == []


def test_a_defect_that_four_agents_report_in_other_words_is_one_finding(tmp_path: Path) -> None:
    assert duplicates(tmp_path / "repo") == 0


def test_an_invented_critical_that_a_colleague_refutes_or_shares_does_not_block(
    tmp_path: Path,
) -> None:
    assert refuted(tmp_path / "refuted", 1) == 0
    assert refuted(tmp_path / "agreed", 1, agreed=True) == 0


def test_required_checks_run_for_any_replies_of_models(tmp_path: Path) -> None:
    missing = checks_not_run(tmp_path / "repo", ["empty reports"])
    assert set(missing.values()) == {0}


def test_a_team_that_code_forms_costs_at_most_a_fifth_more_than_one_agent(tmp_path: Path) -> None:
    single = cost(tmp_path / "single", "single")
    team = cost(tmp_path / "team", None, "effort: {level: thorough}\n")
    assert team.uncached <= 1.2 * single.uncached
    assert team.usd <= 1.2 * single.usd
    assert team.requests == single.requests == 2


def test_four_changed_lines_take_at_most_15_000_tokens_with_two_looks(tmp_path: Path) -> None:
    at_once, looking = (trivial_tokens(tmp_path / str(n), looks=n) for n in (0, 2))
    assert at_once <= 5_000
    assert looking <= 15_000
