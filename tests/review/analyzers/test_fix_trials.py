"""Fixes of analyzers and of templates, tried on samples of the rules that they are for.

The suite takes every third sample, `make properties` all of them.
"""

from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

from tests.review.analyzers.fix_trials import Sample, Trial, new_elsewhere, samples, try_all

pytestmark = pytest.mark.hypothesis
EVERY = 1 if settings.get_current_profile_name() == "search" else 3


def _some_of_each_tool() -> list[Sample]:
    of_tools = defaultdict[str, list[Sample]](list)
    for sample in samples():
        of_tools[sample.tool].append(sample)
    return [sample for each in of_tools.values() for sample in each[::EVERY]]


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> list[Trial]:
    root: Path = tmp_path_factory.mktemp("trials")
    return [trial for trial in try_all(root, _some_of_each_tool()) if trial.proposals]


def test_the_finding_is_gone_and_nothing_is_new(trials: list[Trial]) -> None:
    failed = [
        (trial.sample.tool, trial.finding.code, trial.results, trial.troubles)
        for trial in trials
        if not trial.is_good
    ]
    assert len(failed) <= 0.02 * len(trials), failed


def test_no_other_tool_says_anything_new(trials: list[Trial], tmp_path: Path) -> None:
    good = [trial for trial in trials if trial.is_good]
    assert new_elsewhere(tmp_path, good) == []


def test_many_samples_of_many_rules_have_a_fix(trials: list[Trial]) -> None:
    assert len({trial.number for trial in trials}) >= 330 // EVERY
    assert len({trial.rule for trial in trials}) >= 100 * 2 // (EVERY + 1)
    assert {trial.sample.tool for trial in trials} == {
        *("ruff", "shellcheck", "hadolint", "oxlint", "zizmor"),
        *("sql", "patterns", "infrastructure", "templates", "taint"),
    }


def test_other_code_is_unchanged_by_a_fix(trials: list[Trial]) -> None:
    """Most fixes change one line, and add one for an import or remove one."""
    for trial in trials:
        before = trial.sample.text.splitlines()
        for result in trial.results:
            kept = set(before) & set(result.splitlines())
            assert len(set(before) - kept) <= 3, (trial.rule, result)
