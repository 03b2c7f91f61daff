"""Who a holder is, and when it is certain that it is no more."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from orchestrator.stores.writer_identity import display_name, is_gone, this_process

SAY = "from orchestrator.stores.writer_identity import this_process; print(this_process(), flush=True)"


@contextmanager
def child() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that waits, and its holder text."""
    with subprocess.Popen(
        [sys.executable, "-c", f"{SAY}; input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def test_a_holder_is_displayed_as_process_and_host() -> None:
    assert display_name(this_process()) == f"process {os.getpid()} on {os.uname().nodename}"


def test_a_process_that_runs_is_not_gone() -> None:
    assert not is_gone(this_process())
    with child() as (_, holder):
        assert not is_gone(holder)


def test_a_killed_process_is_gone_even_before_its_parent_has_noticed() -> None:
    with child() as (process, holder):
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_gone(holder)
    assert is_gone(holder)


def test_another_process_under_a_recycled_id_is_not_taken_for_the_holder() -> None:
    head, _, started = this_process().rpartition("started=")
    assert is_gone(f"{head}started={int(started.rstrip(']')) - 1}]")


def test_a_stopped_process_is_not_gone() -> None:
    with child() as (process, holder):
        os.kill(process.pid, signal.SIGSTOP)
        assert not is_gone(holder)
        os.kill(process.pid, signal.SIGCONT)


@pytest.mark.parametrize(
    "part", ["boot=", "namespace="], ids=["another boot", "another container's process ids"]
)
def test_processes_of_another_machine_are_never_considered_dead(part: str) -> None:
    with child() as (_, holder):
        pass
    assert is_gone(holder)
    assert not is_gone(holder.replace(part, f"{part}0"))


@pytest.mark.parametrize("holder", ["", "me", f"process {2**31} on {os.uname().nodename}"])
def test_a_holder_of_unknown_form_is_never_considered_dead(holder: str) -> None:
    assert not is_gone(holder)


def test_impossible_marks_are_no_evidence() -> None:
    marks = this_process().partition(" [")[2]
    assert not is_gone(f"process {2**70} on x [{marks}")
