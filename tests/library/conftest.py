"""A verdict as a review writes it."""

import json

import pytest
from msgspec import to_builtins

from tests.report.verdict_samples import finding, verdict


@pytest.fixture
def verdict_json() -> str:
    return json.dumps(to_builtins(verdict(findings=(finding(),))))
