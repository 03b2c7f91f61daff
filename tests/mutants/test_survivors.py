"""What `make mutants` names is there: its modules, their tests, and the lines of known survivors."""

import pytest

from tests.mutants.__main__ import MODULES, ROOT, Known, Mutant, Row, read_survivors, report
from tests.mutants.session import file_of


@pytest.mark.parametrize("module", MODULES)
def test_the_module_and_its_tests_and_its_known_survivors_exist(module: str) -> None:
    lines = {line.strip() for line in (ROOT / file_of(module)).read_text().splitlines()}
    assert [name for name in MODULES[module] if not (ROOT / "tests" / name).is_file()] == []
    listed = read_survivors().get(module, {})
    assert [one for one in listed if not lines.issuperset(one.removed.splitlines())] == []


def test_known_survivors_are_of_mutated_modules() -> None:
    assert read_survivors().keys() <= MODULES.keys()


def test_an_accepted_survivor_is_reported_and_does_not_fail_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    survivor, killed = (
        Row(f"x_windows__mutmut_{number}", f"-yield {number}\n+yield None", outcome)
        for number, outcome in enumerate(["survived", "noticed"])
    )
    accepted = {Mutant("windows", "yield 0", "yield None"): Known(False, "found a little later")}
    assert report("module.py", [survivor, killed], accepted)
    assert "1 of 2 noticed; 1 accepted, 0 equivalent" in capsys.readouterr().out
    assert not report("module.py", [survivor, survivor, killed], accepted)
    assert not report("module.py", [survivor, killed], {})
    assert not report("module.py", [killed._replace(outcome="not run")], accepted)
