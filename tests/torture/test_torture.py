"""A sample of each torture; `make torture` runs them whole."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from orchestrator.sandbox import bubblewrap
from tests.torture import (
    budget_sequences,
    hostile_calls,
    hostile_tests,
    journal_edits,
    kill_points,
    malformed,
    malformed_replies,
    own_secrets,
    path_races,
    sandbox_probes,
    service_database,
    service_kills,
    store_faults,
    writers,
    writing_effects,
)
from tests.torture.__main__ import modules
from tests.torture.faulty_disk import available
from tests.torture.processes import Figures

ROOT = Path(__file__).resolve().parents[2]
FIND = bubblewrap.find_bwrap  # before the suite runs without


SAMPLES: dict[ModuleType, int] = {
    service_kills: 1,  # the longest first
    service_database: 2,
    kill_points: 2,
    store_faults: 3,
    writing_effects: 4,
    writers: 1,
    budget_sequences: 30,
    own_secrets: 160,
    malformed: 16,
    path_races: 1000,
    hostile_calls: 150,
    hostile_tests: 5,
    journal_edits: 20,
    sandbox_probes: 1,
}
PROBES = 50
"""At each level of the sandbox, at least."""


def test_every_part_has_a_sample() -> None:
    assert set(SAMPLES) == set(modules().values())


@pytest.mark.attack("a sample of `make torture`")
@pytest.mark.parametrize(
    ("module", "count"), SAMPLES.items(), ids=lambda given: getattr(given, "__name__", "")
)
def test_a_sample_of_the_cases_passes(
    module: ModuleType, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if module in {hostile_tests, sandbox_probes}:
        monkeypatch.setattr(bubblewrap, "find_bwrap", FIND)
    said: list[str] = []
    figures = Figures(*module.run(count, said.append))
    assert (figures.failed, said) == (0, [])
    if figures.untried:
        pytest.skip("; ".join(figures.untried))
    assert figures.passed == count or (module is sandbox_probes and figures.passed > 2 * PROBES)


def test_malformed_replies_are_many_and_the_same_each_time() -> None:
    made = {malformed_replies.malformed("openai", seed) for seed in range(300)}
    assert len(made) > 250
    assert all(malformed_replies.malformed("openai", seed) in made for seed in range(0, 300, 50))


@pytest.mark.skipif(not available(), reason="this Python hides SQLite's functions")
def test_a_disk_that_lies_about_syncing_is_found_out(tmp_path: Path) -> None:
    """The torture can fail: what the store was told is safe is lost with the power."""
    whole = store_faults.short_session(tmp_path, store_faults.BadDisk("eio", 0))
    (tmp_path / "j.db").unlink()
    cut = store_faults.BadDisk("lost", whole.operations - 10, lies=True)
    fault = store_faults.attempt_short(cut, tmp_path, whole.digest)
    assert fault.startswith("kept, and lost all the same")


GOOD = "def run(count): return count, 0"
BAD = ("def run(count): return count - 1, 1", "def run(count): raise OSError", "import no_such")
NOTHING = "def run(count): return 0, 0"
UNTRIED = "def run(count): return 0, 0, ('bubblewrap is not installed',)"
PARTLY = "def run(count): return count, 0, ('no cgroups', 'no netns')"


CASES = [
    ([GOOD], 0, "3 passed, 0 failed, 0 not tried"),
    ([GOOD, *BAD], 1, "5 passed, 3 failed, 0 not tried"),
    ([GOOD, NOTHING], 1, "3 passed, 1 failed, 0 not tried"),
    ([GOOD, UNTRIED], 1, "3 passed, 0 failed, 1 not tried"),
    ([GOOD, PARTLY], 1, "6 passed, 0 failed, 2 not tried"),
]


def test_the_runner_counts_and_a_crash_is_a_failure(tmp_path: Path) -> None:
    """All in one process, and its exit codes."""
    runs = []
    for case, (bodies, _, _) in enumerate(CASES):
        names = [f"more{case}_{number}" for number in range(len(bodies))]
        for name, body in zip(names, bodies, strict=True):
            (tmp_path / f"{name}.py").write_text(f'"""what {name} is"""\nFULL = 3\n{body}\n')
        runs.append(names)
    script = (
        "import json, sys, tests.torture; tests.torture.__path__.append(sys.argv[1])\n"
        "from tests.torture.__main__ import main\n"
        "for names in json.loads(sys.argv[2]): print('ended:', main(names))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), json.dumps(runs)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    parts = re.split(r"(?m)^ended: (\d)\n", done.stdout)
    assert [int(code) for code in parts[1::2]] == [code for _, code, _ in CASES]
    for case, (text, (bodies, _, last)) in enumerate(zip(parts[::2], CASES, strict=False)):
        assert text.splitlines()[-1] == last
        assert f"3       0      0.0  what more{case}_0 is" in text
        untried = f"not tried: what more{case}_1 is: bubblewrap is not installed"
        assert (untried in text.splitlines()) == (UNTRIED in bodies)
