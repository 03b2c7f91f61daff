"""`make test` leaves out the tests of the table, `make test-long` runs them and no others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import STALE
from tests.long_tests import TABLE, LongTests, read_table

ROOT = Path(__file__).resolve().parents[1]
FILE = "tests/tuning/test_jury.py"
LONG = "test_judges_are_worth_as_many_as_err_independently"
COLLECT = """
import json, sys, pytest

class Seen:
    def pytest_collection_finish(self, session):
        self.names = [item.name for item in session.items]

def names(args):
    seen = Seen()
    assert pytest.main(["-qq", "--collect-only", *args], plugins=[seen]) == 0
    return seen.names

found = [names(args) for args in json.loads(sys.argv[1])]
print("\\n" + json.dumps(found))
"""


def test_long_tests_are_left_out_unless_they_are_chosen_by_mark_name_or_place() -> None:
    everything = ["-o", f"testpaths={FILE}"]
    runs = [
        everything,
        [*everything, "-m", "long"],
        [*everything, "-k", LONG],
        [FILE],
        [f"{FILE}::{LONG}"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, json.dumps(runs)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    quick, by_mark, by_name, by_file, by_id = json.loads(done.stdout.splitlines()[-1])
    assert sorted(quick + by_mark) == sorted(by_file)
    assert len(by_id) > 1
    assert by_id == by_name
    assert set(by_id) & set(quick)  # one stays
    assert set(by_id) - set(quick) <= set(by_mark)


def test_a_line_names_a_file_or_a_test_and_what_stays() -> None:
    table = LongTests("# All of it\na.py  stays\n\na/b.py::test_c  d\n")
    assert "tests/a.py::test_x" in table
    assert "tests/a.py::test_it_stays" not in table
    assert "tests/a/b.py::test_c[asyncio-e]" in table
    assert "tests/a/b.py::test_c[asyncio-d]" not in table
    assert "tests/a/b.py::test_c_d" not in table


def test_a_line_that_no_test_has_is_stale() -> None:
    table = LongTests(
        "test_structure.py  gone\ntest_long_tests.py::test_gone\nno.py\nconftest.py\n"
    )
    assert "tests/test_structure.py::test_x" in table
    collected = ["tests/test_structure.py", "tests/test_long_tests.py"]
    assert table.stale(collected) == [
        "tests/no.py",
        "tests/test_long_tests.py::test_gone",
        "tests/test_structure.py gone",
    ]


def test_each_line_of_the_table_has_a_test(request: pytest.FixtureRequest) -> None:
    """Whole, where the whole suite is collected; else that its files exist."""
    assert request.config.stash.get(STALE, []) == []
    names = [name.partition("::")[0] for name in read_table(TABLE.read_text())]
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_a_release_needs_both_suites_and_each_night_runs_the_long_one() -> None:
    release, nightly = (
        yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())
        for name in ("release", "nightly")
    )
    steps = "\n".join(step.get("run", "") for step in release["jobs"]["test"]["steps"])
    assert ".ci/run\n" in steps
    assert "make test-long" in steps
    assert "test" in release["jobs"]["attest"]["needs"]
    assert release["jobs"]["publish"]["needs"] == "attest"
    assert {"schedule", "workflow_dispatch"} <= nightly[True].keys()  # YAML reads `on` so
    targets = {case["target"] for case in nightly["jobs"]["long"]["strategy"]["matrix"]["include"]}
    assert targets == {"test-long", "torture"}
