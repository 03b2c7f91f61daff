"""store faults: EIO, full disk, short write, power cut, at every operation of the disk"""

import hashlib
import os
import resource
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from orchestrator.engine.journal import EffectResult, open_journal
from orchestrator.engine.ports import SystemClock
from orchestrator.stores.sqlite_journal import SqliteStore
from orchestrator.stores.writer_identity import this_process
from tests.torture.faulty_disk import KINDS, FaultyDisk, available
from tests.torture.processes import Figures, Outcome, Watched, nothing, report, spread, tally
from tests.torture.session import Desk, template

FULL = 100_000
SAMPLE = 3
"""All there are."""

STEPS = 6
REVIEW_STRIDE = 10
"""A whole review meets a fault at every tenth operation, the short run at each."""

LIMITS = range(20_000, 1_000_000, 40_000)
"""Bytes that a file may have at most, held by the kernel: a real short write, then a real error."""


@dataclass(frozen=True)
class BadDisk:
    """A disk that fails at an operation."""

    kind: str
    at: int
    lies: bool = False

    def __call__(self) -> FaultyDisk:
        disk = FaultyDisk(self.kind, self.at, self.lies)
        disk.install()
        return disk


@dataclass(frozen=True)
class SmallFiles:
    """A disk on which no file grows beyond a size."""

    size: int

    def __call__(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, resource.RLIM_INFINITY))


@dataclass(frozen=True)
class Case:
    """A fault under a short run, or under a whole review."""

    fault: BadDisk | SmallFiles
    review: bool


async def _short_run(journal: Path, note: Callable[[str], object]) -> str:
    """A run of a few effects, each on disk before the next; goes on where it was cut off."""
    store = SqliteStore(journal)
    try:
        if not await store.runs():
            await store.create("r", 1.0, {})
        told = []
        async with open_journal("r", store, SystemClock(), holder=this_process()) as opened:
            for step in range(STEPS):

                async def perform(step: int = step) -> EffectResult:
                    note(f"did {step}")
                    return EffectResult("x" * 3000 + str(step))

                told.append(await opened.effect(f"step{step}", step, perform))
                note(f"kept {step}")
        return hashlib.sha256("".join(told).encode()).hexdigest()
    finally:
        store.close()


def _sit_short(folder: Path, prepare: Callable[[], Any]) -> None:
    file = os.open(folder / "ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    work = partial(_short_run, folder / "j.db", lambda line: os.write(file, f"{line}\n".encode()))
    report(folder / "said", prepare, lambda: anyio.run(work))


def short_session(folder: Path, prepare: Callable[[], Any] = nothing) -> Outcome:
    """One session of the short run."""
    return Watched(folder, _sit_short, folder, prepare).outcome()


def _stopped_badly(first: Outcome, digest: str) -> str:
    """What is wrong with how a run met its fault: a line, the right outcome, or a power cut."""
    if first.killed or first.digest == digest:
        return ""
    if first.digest:
        return "another outcome"
    return "" if "\n" not in first.line and "resume" in first.line else first.line


def attempt_short(fault: Callable[[], Any], folder: Path, digest: str) -> str:
    """A fault under the short run, then a session on a sound disk; returns what went wrong."""
    first = short_session(folder, fault)
    if problem := _stopped_badly(first, digest):
        return problem
    kept = {line[5:] for line in first.performed if line.startswith("kept ")}
    last = short_session(folder)
    if last.digest != digest:
        return f"not resumed: {last.line}"
    again = kept & {line[4:] for line in last.performed if line.startswith("did ")}
    return f"kept, and lost all the same: {sorted(again)}" if again else ""


def attempt_review(fault: Callable[[], Any], desk: Desk, digest: str) -> str:
    """The same under a whole review."""
    first = desk.sit(prepare=fault)
    if problem := _stopped_badly(first, digest):
        return problem
    before = desk.ended()
    last = desk.sit()
    if last.digest != digest:
        return f"not resumed: {last.line}"
    again = before & set(last.performed)
    return f"recorded and done again: {sorted(again)}" if again else ""


class _Bench:
    """What a run of all cases needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        sound = BadDisk("eio", 1 << 60)
        (folder / "short").mkdir()
        self.source = template(folder / "template")
        self.short = short_session(folder / "short", sound)
        self.whole = Desk(self.source, folder / "whole").sit(prepare=sound)
        for session in (self.short, self.whole):
            assert session.digest, f"on a sound disk it ended: {session.line}"

    def cases(self) -> list[Case]:
        short, whole = self.short.operations, self.whole.operations
        return [
            *(Case(BadDisk(kind, at), False) for at in range(1, short + 1) for kind in KINDS),
            *(
                Case(BadDisk(kind, at + offset), True)
                for at in range(1, whole + 1, REVIEW_STRIDE)
                for offset, kind in enumerate(KINDS)
            ),
            *(Case(SmallFiles(size), True) for size in LIMITS),
        ]

    def attempt(self, case: Case, place: Path) -> str:
        if case.review:
            return attempt_review(case.fault, Desk(self.source, place), self.whole.digest)
        return attempt_short(case.fault, place, self.short.digest)


def run(count: int, say: Callable[[str], None] = print) -> Figures:
    """So many cases, spread evenly; returns how many passed and failed."""
    with tempfile.TemporaryDirectory() as name:
        if not available():
            hidden = "this Python hides SQLite's functions, so its disk cannot be made to fail"
            return Figures(0, 0, (hidden,))
        bench = _Bench(Path(name))
        return Figures(*tally(spread(bench.cases(), count), bench.attempt, say))
