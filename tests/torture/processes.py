"""Work in processes that may be killed, and cases counted two at a time."""

import json
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from orchestrator.errors import DiffcourtError

T = TypeVar("T")

PATIENCE = 600
"""Seconds until something counts as hanging: on a busy machine a start alone takes two minutes."""

FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["__main__", "tests.torture.session"])

_STATUS = Lock()
"""Held to read how a process ended. To start one asks after all others, those of other threads too,
and each status can be read once: to the second reader it is 255."""


class Figures(NamedTuple):
    """What a part came to.

    Attributes:
        passed, failed: the comparisons that it made; a part that made none has failed.
        untried: what could not be tried here and why, a line each.
    """

    passed: int
    failed: int
    untried: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """How a session ended: a digest, or one line that says why there is none, or neither when it
    was killed. ``performed`` are the keys of the effects that were really done, ``operations`` what
    was asked of a faulty disk."""

    digest: str
    line: str
    performed: list[str]
    operations: int = 0

    @property
    def killed(self) -> bool:
        return not self.digest and not self.line


def nothing() -> None:
    """Prepare nothing."""


def report(said: Path, prepare: Callable[[], Any], work: Callable[[], str]) -> None:
    """Write down how a session ended: its digest, or the one line that a person would have."""
    told: dict[str, Any] = {"digest": "", "line": ""}
    file = os.open(said, os.O_WRONLY | os.O_CREAT)  # before the disk begins to fail
    disk = prepare()
    try:
        told["digest"] = work()
    except DiffcourtError as fault:
        told["line"] = str(fault)
    except BaseException as fault:  # a traceback where a person would have had a line
        told["line"] = f"TRACEBACK\n{fault!r}"
    told["operations"] = getattr(disk, "done", 0)
    os.write(file, json.dumps(told).encode())
    os.close(file)


class Watched:
    """Work in another process; it writes ``said`` and ``ledger`` in the folder.

    Attributes:
        pid: that process.
    """

    def __init__(self, folder: Path, work: Callable[..., None], *given: Any) -> None:
        self._said, self._ledger = folder / "said", folder / "ledger"
        for file in (self._said, self._ledger):
            file.unlink(missing_ok=True)
        self._process = FORK.Process(target=work, args=given)
        with _STATUS:
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def outcome(self) -> Outcome:
        """Wait for its end."""
        ended = wait([self._process.sentinel], PATIENCE)
        with _STATUS:
            if not ended:
                self._process.kill()
            self._process.join()
        if not ended:
            return Outcome("", f"TIMEOUT: it did not end within {PATIENCE} s", [])
        told = json.loads(self._said.read_text() or "{}") if self._said.exists() else {}
        if not told and self._process.exitcode != -signal.SIGKILL:
            told = {"line": f"TRACEBACK: it ended with {self._process.exitcode}"}
        return Outcome(
            told.get("digest", ""),
            told.get("line", ""),
            self._ledger.read_text().splitlines() if self._ledger.exists() else [],
            told.get("operations", 0),
        )


def spread(cases: list[T], count: int) -> list[T]:
    """So many of them, evenly spread; all where that is fewer."""
    size = min(count, len(cases))
    return [cases[(2 * i + 1) * len(cases) // (2 * size)] for i in range(size)]


def tally(
    cases: list[T], attempt: Callable[[T, Path], str], say: Callable[[str], None]
) -> tuple[int, int]:
    """Run cases, two at a time, each in a folder of its own; returns how many passed and failed.

    Args:
        attempt: returns what went wrong, empty when nothing did.
    """

    def one(case: T) -> str:
        with tempfile.TemporaryDirectory() as name:
            try:
                return attempt(case, Path(name))
            except Exception as fault:
                return f"crashed: {fault!r}"

    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for case, problem in zip(cases, pool.map(one, cases), strict=True):
            if problem:
                failed += 1
                say(f"{case}: {problem}")
    return len(cases) - failed, failed
