"""A check that compares two sides says so where there is nothing to compare."""

from types import ModuleType

import pytest

from diffchecks.api import api_breakage
from diffchecks.check_io import NOTHING_TO_COMPARE
from diffchecks.doc_quality import changelog
from diffchecks.test_quality import weakened_tests
from tests.diffchecks.python.conftest import Compare

LONG = "".join(f"y{at} = compute({at})\n" for at in range(20))
LIBRARY = {"pyproject.toml": "[project]\nname = 'shop'\n", "shop/__init__.py": ""}
LOG = "# Changelog\n\n## Unreleased\n\n- A\n"


@pytest.mark.parametrize(
    ("check", "others", "why"),
    [
        (api_breakage, {}, "no changed file is a public module of a library in base"),
        (api_breakage, LIBRARY, ""),
        (changelog, {}, "the project keeps no changelog in its root directory"),
        (changelog, {"CHANGES.md": "# 1.0\n"}, "CHANGES.md has no heading for unreleased"),
        (changelog, {"CHANGES.md": LOG}, ""),
        (weakened_tests, {}, "the project has no tests"),
        (weakened_tests, {"tests/test_a.py": "def test_a():\n    assert 1\n"}, ""),
        (weakened_tests, {"web/a.test.js": "test('a', () => {})\n"}, ""),
    ],
)
def test_a_check_without_a_counterpart_examines_nothing_and_says_why(
    compare: Compare, check: ModuleType, others: dict[str, str], why: str
) -> None:
    base = {**others, "shop/pay.py": "x = 1\n"}
    reply = compare(check, base, {**base, "shop/pay.py": LONG})
    assert str(reply.facts.get(NOTHING_TO_COMPARE, "")).startswith(why)
    assert bool(reply.facts) == bool(why)
    assert reply.examined == ([] if why else ["shop/pay.py"])
    assert reply.gaps == {}
