"""kills at every journal write of a whole review: resumed once, killed again, torn"""

import atexit
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.torture.processes import spread, tally
from tests.torture.session import CutAt, Desk, template

FULL = 100_000
SAMPLE = 2
"""All there are."""

WAL_HEADER, WAL_FRAME = 32, 24 + 4096
"""Bytes; see https://sqlite.org/fileformat.html#walformat."""

KINDS = ("single", "double", "torn")


@dataclass(frozen=True)
class Case:
    """A kill before write ``at``; ``double``: another during the recovery; ``torn``: the last
    record on disk is cut in its middle before the recovery."""

    kind: str
    at: int

    def __str__(self) -> str:
        return f"{self.kind} kill at write {self.at}"


@dataclass(frozen=True)
class Whole:
    """An uninterrupted review: of what, its digest, and how many writes it makes."""

    source: Path
    digest: str
    writes: int


@cache
def whole() -> Whole:
    """Review without a kill, once for all."""
    folder = Path(tempfile.mkdtemp(prefix="torture-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    desk = Desk(template(folder / "template"), folder / "desk")
    done = desk.sit()
    if not done.digest:
        raise AssertionError(f"the uninterrupted review failed: {done.line}")
    if not any("/tool1/" in key for key in done.performed):
        raise AssertionError(f"the uninterrupted review called no tool: {done.performed}")
    # Its entry, its lease and its release, beside the rows.
    return Whole(folder / "template", done.digest, desk.length() + 3)


def tear(wal: Path, rng: random.Random) -> None:
    """Cut the write-ahead log somewhere in its last frame."""
    index = wal.with_name(f"{wal.name.removesuffix('-wal')}-shm")
    if index.exists():
        # The file is longer than what is in it; the index has the number of frames at its byte 16.
        frames = int.from_bytes(index.read_bytes()[16:20], sys.byteorder)
        if frames:
            with wal.open("r+b") as file:
                file.truncate(WAL_HEADER + frames * WAL_FRAME - rng.randrange(1, WAL_FRAME))


def attempt(case: Case, desk: Desk, expected: Whole) -> str:
    """Run one case; returns what went wrong, empty when nothing did."""
    rng = random.Random(f"{case.kind} {case.at}")
    first = desk.sit(CutAt(case.at))
    if not first.killed:
        return f"it was to be killed, and ended: {first.line or first.digest}"
    if case.kind == "torn":
        tear(desk.journal.with_name("journal.db-wal"), rng)
    if case.kind == "double":
        before = desk.ended()
        second = desk.sit(CutAt(rng.randrange(1, max(expected.writes - case.at, 3))))
        if not second.killed and second.digest != expected.digest:
            return f"the recovery ended: {second.line or second.digest}"
        if again := before & set(second.performed):
            return f"recorded and done again in the recovery: {sorted(again)}"
    before = desk.ended()
    last = desk.sit()
    if last.digest != expected.digest:
        return f"another outcome: {last.line or last.digest}"
    if again := before & set(last.performed):
        return f"recorded and done again: {sorted(again)}"
    if len(last.performed) != len(set(last.performed)):
        return "done twice in one session"
    if desk.sit().performed:
        return "a finished run did something"
    return ""


def run(count: int, say: Callable[[str], None] = print) -> tuple[int, int]:
    """So many cases, spread evenly; returns how many passed and failed."""
    expected = whole()
    cases = [Case(kind, at) for kind in KINDS for at in range(1, expected.writes + 1)]
    return tally(
        spread(cases, count),
        lambda case, place: attempt(case, Desk(expected.source, place), expected),
        say,
    )
