"""What `make mutants` names is there: its modules, their tests, and the lines of known survivors."""

import pytest

from tests.mutants.__main__ import MODULES, ROOT, read_survivors
from tests.mutants.session import file_of


@pytest.mark.parametrize("module", MODULES)
def test_the_module_and_its_tests_and_its_known_survivors_exist(module: str) -> None:
    lines = {line.strip() for line in (ROOT / file_of(module)).read_text().splitlines()}
    assert [name for name in MODULES[module] if not (ROOT / "tests" / name).is_file()] == []
    listed = read_survivors().get(module, {})
    assert [one for one in listed if not lines.issuperset(one.removed.splitlines())] == []


def test_known_survivors_are_of_mutated_modules() -> None:
    assert read_survivors().keys() <= MODULES.keys()
