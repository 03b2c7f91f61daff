"""A sample of each torture; `make torture` runs them whole."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.torture import kill_points

ROOT = Path(__file__).resolve().parents[2]


def test_a_review_killed_at_any_journal_write_ends_as_if_it_had_not_been() -> None:
    said: list[str] = []
    assert (kill_points.run(4, said.append), said) == ((4, 0), [])


@pytest.mark.parametrize(("body", "code", "last"), [
    ("def run(count): return count, 0", 0, "3 passed, 0 failed"),
    ("def run(count): return count - 1, 1", 1, "2 passed, 1 failed"),
    ("def run(count): raise OSError('gone')", 1, "0 passed, 1 failed"),
])  # fmt: skip
def test_the_runner_counts_and_a_crash_is_a_failure(
    tmp_path: Path, body: str, code: int, last: str
) -> None:
    (tmp_path / "one_more.py").write_text(f'"""one more"""\nFULL = 3\n{body}\n')
    script = (
        "import sys, tests.torture; tests.torture.__path__.append(sys.argv.pop(1))\n"
        "from tests.torture.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), "one_more"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, last)
    assert "one more" in done.stdout.splitlines()[-2]
