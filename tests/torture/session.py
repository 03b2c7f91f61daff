"""One session of a whole review in a process of its own, which may be killed at a journal write.

The store underneath is real. Around it stands one that counts the writes (the run's entry, the
lease, each row, the release) and kills the process with SIGKILL before the chosen one takes effect:
the journal then holds exactly what came before, as after a crash at that point. Around every
effect's ``perform`` stands one that notes, in a file that outlives the process, that it was done.
"""

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.app.run_review import resume_review, run_review
from orchestrator.app.runs import state_directory
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.ports import Row
from orchestrator.engine.types import Json
from orchestrator.errors import RunNotFound
from orchestrator.stores.sql_store import RunStore
from tests.review.review_kit import change, options
from tests.torture.processes import Outcome, Watched, nothing, report

BASE = {"app.py": "X = 1\n"}
HEAD = {
    "app.py": "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n",
    "note.md": "See [there](nowhere.md).\n",
}


class CutStore:
    """A store whose process is sent a signal before a write takes effect: SIGKILL, or SIGSTOP.

    Args:
        at: which write, from 1.
        ttl: seconds of its leases, in place of what is asked.
    """

    def __init__(
        self, inner: RunStore, at: int, sent: int = signal.SIGKILL, ttl: float | None = None
    ) -> None:
        self._inner, self._left, self._sent, self._ttl = inner, at, sent, ttl

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def strike(self) -> None:
        os.kill(os.getpid(), self._sent)

    def _write(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.strike()

    async def create(self, run_id: str, started: float, meta: Json) -> None:
        self._write()
        await self._inner.create(run_id, started, meta)

    async def acquire(self, run_id: str, holder: str, ttl: float) -> int:
        self._write()
        return await self._inner.acquire(run_id, holder, self._ttl or ttl)

    async def append(self, run_id: str, fence: int, rows: Sequence[Row], ttl: float) -> None:
        if 0 < self._left <= len(rows):
            first, rows = rows[: self._left - 1], rows[self._left - 1 :]
            await self._inner.append(run_id, fence, first, self._ttl or ttl)
            self.strike()
            self._left = 0
        self._left -= len(rows)
        await self._inner.append(run_id, fence, rows, self._ttl or ttl)

    async def release(self, run_id: str, fence: int) -> None:
        self._write()
        await self._inner.release(run_id, fence)


@contextmanager
def _spied(ledger: Path) -> Iterator[None]:
    """Note each effect that is performed, before it is."""
    real = Journal.effect
    file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def effect(
        self: Journal, key: Key | str, request: Json, perform: Any, **more: Any
    ) -> Json:
        async def noted(*given: object) -> EffectResult:
            os.write(file, f"{key}\n".encode())
            result: EffectResult = await perform(*given)
            return result

        return await real(self, key, request, noted, **more)

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Journal, "effect", effect)
            yield
    finally:
        os.close(file)


def _sit(
    repo: Path, place: Path, wrap: Callable[[RunStore], Any], prepare: Callable[[], Any]
) -> None:
    """In the child: review, or go on with the run that is there."""
    os.environ |= {"HOME": str(place), "XDG_STATE_HOME": str(place), "XDG_CONFIG_HOME": str(place)}
    opened = state_directory.open_store

    @contextmanager
    def open_store(repo: Path | None) -> Iterator[Any]:
        with opened(repo) as store:
            yield wrap(store)

    state_directory.open_store = open_store
    with _spied(place / "ledger"):
        report(place / "said", prepare, lambda: _go_on(repo).digest)


def _go_on(repo: Path) -> Any:
    try:
        return resume_review(repo, state_directory.LATEST, print_nothing)
    except RunNotFound:
        return run_review(options(repo, provider="offline"), print_nothing)


def print_nothing(event: object) -> None:
    """An observer."""


@dataclass(frozen=True)
class CutAt:
    """Makes a ``CutStore``. A class, since it travels to another process."""

    at: int
    sent: int = signal.SIGKILL
    ttl: float | None = None

    def __call__(self, store: RunStore) -> CutStore:
        return CutStore(store, self.at, self.sent, self.ttl)


def as_it_is(store: RunStore) -> RunStore:
    """No fault at all."""
    return store


class Desk:
    """A repository of its own for one case, with its journal, and the sessions that it sees."""

    def __init__(self, template: Path, folder: Path) -> None:
        self.repo, self.folder = folder / "repo", folder
        folder.mkdir(exist_ok=True)
        shutil.copytree(template, self.repo)

    @property
    def journal(self) -> Path:
        return self.repo / state_directory.STATE / state_directory.JOURNAL

    def sit(
        self, wrap: Callable[[RunStore], Any] = as_it_is, prepare: Callable[[], Any] = nothing
    ) -> Outcome:
        """One session in another process; see ``begin``."""
        return self.begin(self.folder, wrap, prepare).outcome()

    def begin(
        self,
        place: Path,
        wrap: Callable[[RunStore], Any] = as_it_is,
        prepare: Callable[[], Any] = nothing,
    ) -> Watched:
        """Start a session in another process.

        Args:
            place: a folder for what it tells.
            wrap: what stands around the store.
            prepare: called in that process before its work.
        """
        place.mkdir(exist_ok=True)
        return Watched(place, _sit, self.repo, place, wrap, prepare)

    def ended(self) -> set[str]:
        """The keys of the effects that have an outcome on disk."""
        return {key for key, kind in self._rows() if kind in {"outcome", "refusal"}}

    def length(self) -> int:
        """The number of rows on disk."""
        return len(self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        if not self.journal.exists():
            return []
        with closing(sqlite3.connect(self.journal)) as db:
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'journal'").fetchone():
                return []  # cut off while it was made
            return db.execute("SELECT key, kind FROM journal ORDER BY place").fetchall()


def template(folder: Path) -> Path:
    """A repository with a change in it."""
    return change(folder, BASE, HEAD).path
