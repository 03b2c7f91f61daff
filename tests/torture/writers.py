"""two resumers at once, a writer that is paused past its lease, a lease that ran out: one writes"""

import re
import signal
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from os import kill
from pathlib import Path

import anyio

from orchestrator.engine.journal_hash_chain import verify_chain
from orchestrator.engine.ports import Row
from orchestrator.stores.sqlite_journal import SqliteStore
from tests.torture.kill_points import Whole, whole
from tests.torture.processes import PATIENCE, Outcome, Watched, spread, tally
from tests.torture.session import CutAt, Desk

FULL = 100_000
SAMPLE = 1
"""All there are."""

TTL = 0.3
"""Seconds of the leases here: nobody waits half a minute for each case."""

STRIDE = 4
KINDS = ("two resumers", "paused writer", "paused and alone")
HELD = re.compile(
    r"run \S+ is being written by process \d+ on \S+; wait until it ends, or \d+ s .*"
)
FENCED = re.compile(r"run \S+ has another writer now, or was removed; this one stops")


@dataclass(frozen=True)
class Case:
    """What happens when the first writer has come to write ``at``."""

    kind: str
    at: int


def rows(desk: Desk) -> list[Row]:
    """The rows of its one run, which must be whole."""
    with closing(SqliteStore(desk.journal)) as store:
        (run,) = anyio.run(store.runs)
        found = anyio.run(store.rows, run.run_id)
    verify_chain(found)
    return found


def two_resumers(case: Case, desk: Desk, expected: Whole) -> str:
    """The writer is killed, and two go on at once."""
    if not desk.sit(CutAt(case.at)).killed:
        return "it was to be killed"
    before = desk.ended()
    racers = [desk.begin(desk.folder / name) for name in ("one", "two")]
    ends = [racer.outcome() for racer in racers]
    if not any(end.digest == expected.digest for end in ends):
        return f"nobody finished: {[end.line for end in ends]}"
    for end in ends:
        if end.digest != expected.digest and not HELD.fullmatch(end.line):
            return f"the other one said: {end.line or end.digest}"
    performed = [key for end in ends for key in end.performed]
    if len(performed) != len(set(performed)) or before & set(performed):
        return "an effect was done by both, or again"
    rows(desk)
    return ""


def _stopped(watched: Watched) -> None:
    """Wait until a process has been stopped."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        state = Path(f"/proc/{watched.pid}/stat").read_text().rpartition(") ")[2][0]
        if state == "T":
            return
        time.sleep(0.05)
    raise TimeoutError("it was never stopped")


def _woken(watched: Watched) -> Outcome:
    kill(watched.pid, signal.SIGCONT)
    return watched.outcome()


def paused_writer(case: Case, desk: Desk, expected: Whole) -> str:
    """The writer is stopped past the end of its lease, another takes over, and it wakes up."""
    paused = desk.begin(desk.folder / "paused", CutAt(case.at, signal.SIGSTOP, TTL))
    _stopped(paused)
    early = desk.sit()
    time.sleep(TTL)
    other = desk.sit()
    if other.digest != expected.digest:
        return f"the other one did not finish: {other.line}"
    if early.digest != expected.digest and not HELD.fullmatch(early.line):
        return f"the early one said: {early.line or early.digest}"
    written = rows(desk)
    woken = _woken(paused)
    if woken.digest != expected.digest and not FENCED.fullmatch(woken.line):
        return f"the paused one said: {woken.line or woken.digest}"
    return "" if rows(desk) == written else "the paused one wrote"


def paused_and_alone(case: Case, desk: Desk, expected: Whole) -> str:
    """The writer is stopped past the end of its lease, nobody takes over, and it goes on."""
    paused = desk.begin(desk.folder / "paused", CutAt(case.at, signal.SIGSTOP, TTL))
    _stopped(paused)
    time.sleep(TTL)
    woken = _woken(paused)
    if woken.digest != expected.digest:
        return f"it did not go on: {woken.line}"
    rows(desk)
    return ""


ATTEMPTS = dict(zip(KINDS, (two_resumers, paused_writer, paused_and_alone), strict=True))


def run(count: int, say: Callable[[str], None] = print) -> tuple[int, int]:
    """So many cases, spread evenly; returns how many passed and failed."""
    expected = whole()
    # From the third write on: before it the first writer has no lease to lose.
    cases = [Case(kind, at) for kind in KINDS for at in range(3, expected.writes, STRIDE)]
    return tally(
        spread(cases, count),
        lambda case, place: ATTEMPTS[case.kind](case, Desk(expected.source, place), expected),
        say,
    )
