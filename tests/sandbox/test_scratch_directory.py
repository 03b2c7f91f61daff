"""What a process that was killed leaves in the folder for temporary files."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.sandbox import scratch_directory
from tests.review.review_kit import change

OWNER = """
import sys, threading, time
from orchestrator.sandbox import scratch_directory
(scratch_directory.work_directory() / "head").mkdir()
(scratch_directory.work_directory() / "head/app.py").write_text("x = 1")
for thread in threading.enumerate()[1:]:
    thread.join()  # it removes what others left
print(scratch_directory.work_directory().parent, flush=True)
time.sleep(60)
"""
Start = Callable[[], tuple[subprocess.Popen[str], Path]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process that has a folder, and tells both."""
    started: list[subprocess.Popen[str]] = []

    def it() -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen(
            [sys.executable, "-c", OWNER],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout
        return process, Path(process.stdout.readline().strip())

    yield it
    for process in started:
        process.kill()
        process.communicate()


def _soon(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 20
    while not holds() and time.monotonic() < until:
        time.sleep(0.01)
    return holds()


def test_the_next_process_removes_what_a_killed_one_left_and_nothing_else(
    start: Start, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "held").touch()
    (tmp_path / "diffcourt-link").symlink_to(other)
    (tmp_path / "diffcourt-file").touch()
    (tmp_path / "diffcourt-unmarked").mkdir()
    spared = ["diffcourt-file", "diffcourt-link", "diffcourt-unmarked", "other"]
    if os.geteuid() == 0:
        foreign = tmp_path / "diffcourt-foreign"
        foreign.mkdir()
        (foreign / "held").touch()
        os.chown(foreign, 12345, 12345)
        spared.append(foreign.name)
    (killed, left), (_, held) = start(), start()
    assert (left / "work/head/app.py").exists()
    killed.kill()
    killed.wait()
    _, fresh = start()
    assert not left.exists()
    assert (held / "work/head/app.py").exists()
    assert sorted(os.listdir(tmp_path)) == sorted([*spared, held.name, fresh.name])


def test_files_of_a_killed_review_are_removed(start: Start, tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {"app.py": "x = 1\n"}, {"app.py": "x = 2\n"})
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "review", "--base", "HEAD~1", "--head", "HEAD"],
        cwd=repo.path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert _soon(lambda: any(tmp_path.glob("diffcourt-*/work/*/head")))
    process.kill()
    process.wait()
    (left,) = tmp_path.glob("diffcourt-*")
    start()
    assert _soon(lambda: not left.exists())


def test_a_tree_of_any_depth_is_removed_and_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept").write_text("x")
    place = tmp_path / "tree"
    place.mkdir()
    here = os.open(place, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        os.mkdir("e", dir_fd=here)
        os.symlink(tmp_path / "outside", "link", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    scratch_directory.remove_tree(place)
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (tmp_path / "outside/kept").exists()
