"""A sample of each torture; `make torture` runs them whole."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from multiprocessing import forkserver
from multiprocessing.connection import wait
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import pytest

from orchestrator.sandbox import bubblewrap
from tests.service.service_kit import is_gone
from tests.torture import (
    hostile_tests,
    malformed_replies,
    sandbox_probes,
    service_kills,
    store_faults,
)
from tests.torture.__main__ import modules
from tests.torture.faulty_disk import available
from tests.torture.processes import Figures, Watched

ROOT = Path(__file__).resolve().parents[2]
FIND = bubblewrap.find_bwrap  # before the suite runs without


PROBES = 50
"""At each level of the sandbox, at least."""


@pytest.mark.attack("a sample of `make torture`")
@pytest.mark.parametrize(
    "name", sorted(modules(), reverse=True)
)  # those of the service take longest
def test_a_sample_of_the_cases_passes(
    name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    module = modules()[name]
    assert module
    if module is service_kills:  # which leaves the server alone, unlike service_database
        shared = nullcontext(request.getfixturevalue("postgres"))
        monkeypatch.setattr(service_kills, "server", lambda: shared)
    if module in {hostile_tests, sandbox_probes}:
        monkeypatch.setattr(bubblewrap, "find_bwrap", FIND)
    said: list[str] = []
    figures = Figures(*module.run(module.SAMPLE, said.append))
    assert (figures.failed, said) == (0, [])
    if figures.untried:
        pytest.skip("; ".join(figures.untried))
    many = module is sandbox_probes and figures.passed > 2 * PROBES
    assert many or figures.passed == module.SAMPLE


def test_malformed_replies_are_many_and_the_same_each_time() -> None:
    made = {malformed_replies.malformed("openai", seed) for seed in range(300)}
    assert len(made) > 250
    assert all(malformed_replies.malformed("openai", seed) in made for seed in range(0, 300, 50))


def _die(folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_how_a_process_ended_is_known_while_another_thread_starts_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each asks after the other, and a status can be read once."""
    first, read, both = Watched(tmp_path, _die, tmp_path), forkserver.read_signed, Barrier(2)
    (ended,) = wait([first._process.sentinel])
    met: list[int] = []

    def read_together(file: int) -> int:
        if file == ended:
            with suppress(BrokenBarrierError):
                both.wait(0.2)
                met.append(file)
        return int(read(file))

    monkeypatch.setattr(forkserver, "read_signed", read_together)
    with ThreadPoolExecutor(2) as pool:
        ended_first = pool.submit(first.outcome)
        second = pool.submit(Watched, tmp_path, _die, tmp_path)
    assert ended_first.result().killed
    assert second.result().outcome().killed
    assert not met


def test_attackers_of_paths_end_with_who_started_them(tmp_path: Path) -> None:
    script = (
        "import multiprocessing, sys; from pathlib import Path\n"
        "from tests.torture.path_races import attacked\n"
        "with attacked(Path(sys.argv[1])):\n"
        "    print(multiprocessing.active_children()[0].pid, flush=True)\n"
        "    sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as started:  # fmt: skip
        assert started.stdout
        attacker = int(started.stdout.readline())
        assert not is_gone(attacker)
        started.kill()
    while not is_gone(attacker):
        time.sleep(0.05)


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
            (tmp_path / f"{name}.py").write_text(
                f'"""what {name} is"""\nFULL = 3\nSAMPLE = 1\n{body}\n'
            )
        runs.append(names)
    runs.append(["more0_0", "--samples", "2"])
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
    assert [int(code) for code in parts[1::2]] == [*(code for _, code, _ in CASES), 0]
    assert parts[2 * len(CASES)].splitlines()[-1] == "2 passed, 0 failed, 0 not tried"
    for case, (text, (bodies, _, last)) in enumerate(zip(parts[::2], CASES, strict=False)):
        assert text.splitlines()[-1] == last
        assert f"3       0      0.0  what more{case}_0 is" in text
        untried = f"not tried: what more{case}_1 is: bubblewrap is not installed"
        assert (untried in text.splitlines()) == (UNTRIED in bodies)
