"""Small applications of every framework: each labeled defect is found, the fixed ones are quiet."""

from pathlib import Path

import pytest

from tests.diffchecks.taint.web_applications import APPLICATIONS, Application, measure


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda application: application.name)
def test_the_labeled_defects_are_found_and_nothing_else(
    application: Application, tmp_path: Path
) -> None:
    outcome = measure(application, tmp_path)
    assert (outcome.missed, outcome.false) == ([], [])
