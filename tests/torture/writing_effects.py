"""kills around and inside writing effects: undone and done again, or handed to a person; never twice"""

import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from orchestrator.engine.journal import EffectResult, open_journal
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.types import Level
from orchestrator.stores.sqlite_journal import SqliteStore
from orchestrator.stores.writer_identity import this_process
from tests.torture.processes import Outcome, Watched, nothing, report, spread, tally
from tests.torture.session import CutAt

FULL = 100_000
SAMPLE = 4
"""All there are."""

STEPS = 4
WRITES = 3 + 1 + 2 * STEPS
"""Entry, lease, release; the session's row; an intent and an outcome for each step."""

MOMENTS = ("before", "middle", "after")
NEVER = 1 << 30
WHOLE = "".join(f"line {step}\n" for step in range(STEPS))


@dataclass(frozen=True)
class Kill:
    """Where a session dies: before a journal write, or at a moment inside an effect."""

    write: int = NEVER
    step: int = NEVER
    moment: str = ""


@dataclass(frozen=True)
class Case:
    """Kills of the sessions one after the other; ``undo``: the effect knows how to take it back."""

    undo: bool
    kills: tuple[Kill, ...]


class Tool:
    """Appends a line to a file, in two halves."""

    def __init__(self, folder: Path, kill: Kill) -> None:
        self._out, self._begun, self._kill = folder / "out", folder / "begun", kill

    def _dies(self, step: int, moment: str) -> None:
        if (self._kill.step, self._kill.moment) == (step, moment):
            os.kill(os.getpid(), signal.SIGKILL)

    async def write(self, step: int) -> EffectResult:
        self._out.touch()
        beside = self._begun.with_suffix(".new")
        beside.write_text(str(self._out.stat().st_size))
        beside.replace(self._begun)
        self._dies(step, "before")
        with self._out.open("a") as file:
            file.write("line ")
            file.flush()
            self._dies(step, "middle")
            file.write(f"{step}\n")
        self._dies(step, "after")
        return EffectResult(step)

    async def undo(self, step: int) -> None:
        """Cut the file back to what it was when the effect began, if it began."""
        begun = int(self._begun.read_text()) if self._begun.exists() else 0
        if self._out.exists() and begun >= len(WHOLE) // STEPS * step:
            os.truncate(self._out, begun)


async def _work(folder: Path, undo: bool, kill: Kill) -> str:
    store = SqliteStore(folder / "j.db")
    try:
        cut = CutAt(kill.write)(store)
        if not await store.runs():
            await cut.create("r", 1.0, {})
        tool = Tool(folder, kill)
        async with open_journal("r", cut, SystemClock(), holder=this_process()) as journal:
            for step in range(STEPS):
                await journal.effect(
                    f"step{step}",
                    step,
                    partial(tool.write, step),
                    level=Level.WRITE,
                    undo=partial(tool.undo, step) if undo else None,
                )
        return "done"
    finally:
        store.close()


def _sit(folder: Path, undo: bool, kill: Kill) -> None:
    report(folder / "said", nothing, lambda: anyio.run(_work, folder, undo, kill))


def session(folder: Path, undo: bool, kill: Kill) -> Outcome:
    """One session in another process."""
    return Watched(folder, _sit, folder, undo, kill).outcome()


def attempt(case: Case, folder: Path) -> str:
    """Run one case; returns what went wrong."""
    for kill in case.kills:
        session(folder, case.undo, kill)
    for _ in range(2):
        last = session(folder, case.undo, Kill())
        written = (folder / "out").read_text() if (folder / "out").exists() else ""
        if last.digest:
            if written != WHOLE:
                return f"finished, and the file holds {written!r}"
        elif case.undo or "was under way when the run was cut off" not in last.line:
            return f"it ended: {last.line}"
        elif not WHOLE.startswith(written):
            return f"handed to a person, and the file holds {written!r}"
    return ""


def cases() -> list[Case]:
    """Each kill alone, and followed by another."""
    rng = random.Random(1)
    kills = [Kill(write=write) for write in range(1, WRITES + 1)]
    kills += [Kill(step=step, moment=moment) for step in range(STEPS) for moment in MOMENTS]
    found = []
    for undo in (True, False):
        for kill in kills:
            found += [Case(undo, (kill,)), Case(undo, (kill, rng.choice(kills)))]
            found += [Case(undo, (kill, kill, rng.choice(kills)))]
    return found


def run(count: int, say: Callable[[str], None] = print) -> tuple[int, int]:
    """So many cases, spread evenly; returns how many passed and failed."""
    return tally(spread(cases(), count), attempt, say)
