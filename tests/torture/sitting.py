"""One sitting of a whole review in a process of its own, which may be killed at a journal write.

The store underneath is real. Around it stands one that counts the writes (the run's entry, the
lease, each row, the release) and kills the process with SIGKILL before the chosen one takes effect:
the journal then holds exactly what came before, as after a crash at that point. Around every
effect's ``perform`` stands one that notes, in a file that outlives the process, that it was done.
"""

import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.app import service, state
from orchestrator.engine.journal import Journal, Perform
from orchestrator.engine.ports import Row
from orchestrator.engine.records import Done
from orchestrator.engine.types import Json
from orchestrator.errors import DiffcourtError, RunNotFound
from orchestrator.stores.base import RunStore
from tests.review.review_kit import change, options

T = TypeVar("T")

BASE = {"app.py": "X = 1\n"}
HEAD = {
    "app.py": "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n",
    "note.md": "See [there](nowhere.md).\n",
}

PATIENCE = 60
"""Seconds that a sitting may take: many times what it does take."""

FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["__main__", __name__])


class CutStore:
    """A store whose process is sent a signal before a write takes effect: SIGKILL, or SIGSTOP.

    Args:
        at: which write, from 1.
        ttl: seconds of its leases, in place of what is asked.
    """

    def __init__(self, inner: RunStore, at: int, sent: int, ttl: float | None) -> None:
        self._inner, self._left, self._sent, self._ttl = inner, at, sent, ttl

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _write(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), self._sent)

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
            os.kill(os.getpid(), self._sent)
            self._left = 0
        self._left -= len(rows)
        await self._inner.append(run_id, fence, rows, self._ttl or ttl)

    async def release(self, run_id: str, fence: int) -> None:
        self._write()
        await self._inner.release(run_id, fence)


@dataclass(frozen=True)
class Outcome:
    """How a sitting ended: a digest, or one line that says why there is none, or neither when it
    was killed. ``performed`` are the keys of the effects that were really done, ``operations`` what
    was asked of a faulty disk."""

    digest: str
    line: str
    performed: list[str]
    operations: int = 0

    @property
    def killed(self) -> bool:
        return not self.digest and not self.line


@contextmanager
def _spied(ledger: Path) -> Iterator[None]:
    """Note each effect that is performed, before it is."""
    real = Journal.effect
    file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def effect(self: Journal, key: str, request: Json, perform: Perform, **more: Any) -> Json:
        async def noted() -> Done:
            os.write(file, f"{key}\n".encode())
            return await perform()

        return await real(self, key, request, noted, **more)

    Journal.effect = effect  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Journal.effect = real  # type: ignore[method-assign]
        os.close(file)


def _sit(
    repo: Path, place: Path, wrap: Callable[[RunStore], Any], prepare: Callable[[], Any]
) -> None:
    """In the child: review, or go on with the run that is there."""
    os.environ |= {"HOME": str(place), "XDG_STATE_HOME": str(place), "XDG_CONFIG_HOME": str(place)}
    opened = state.open_store

    @contextmanager
    def open_store(folder: Path) -> Iterator[Any]:
        with opened(folder) as store:
            yield wrap(store)

    state.open_store = open_store  # type: ignore[assignment]
    with _spied(place / "ledger"):
        report(place / "said", prepare, lambda: _go_on(repo).digest)


def report(said: Path, prepare: Callable[[], Any], work: Callable[[], str]) -> None:
    """Write down how a sitting ended: its digest, or the one line that a person would have."""
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


def _go_on(repo: Path) -> Any:
    try:
        return service.resume(repo, state.LATEST, print_nothing)
    except RunNotFound:
        return service.review(options(repo, provider="offline"), print_nothing)


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


def nothing() -> None:
    """Prepare nothing."""


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
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def outcome(self) -> Outcome:
        """Wait for its end."""
        self._process.join(PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
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
    cases: list[T], attempt: Callable[[T, Path], str], folder: Path, say: Callable[[str], None]
) -> tuple[int, int]:
    """Run cases, two at a time, each in a folder of its own; returns how many passed and failed.

    Args:
        attempt: returns what went wrong, empty when nothing did.
    """

    def one(case: T) -> str:
        with tempfile.TemporaryDirectory(dir=folder) as name:
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


class Desk:
    """A repository of its own for one case, with its journal, and the sittings that it sees."""

    def __init__(self, template: Path, folder: Path) -> None:
        self.repo, self.folder = folder / "repo", folder
        shutil.copytree(template, self.repo)

    @property
    def journal(self) -> Path:
        return self.repo / state.STATE / state.JOURNAL

    def sit(
        self, wrap: Callable[[RunStore], Any] = as_it_is, prepare: Callable[[], Any] = nothing
    ) -> Outcome:
        """One sitting in another process; see ``begin``."""
        return self.begin(self.folder, wrap, prepare).outcome()

    def begin(
        self,
        place: Path,
        wrap: Callable[[RunStore], Any] = as_it_is,
        prepare: Callable[[], Any] = nothing,
    ) -> Watched:
        """Start a sitting in another process.

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
            return db.execute("SELECT key, kind FROM journal ORDER BY seq").fetchall()


def template(folder: Path) -> Path:
    """A repository with a change in it."""
    return change(folder, BASE, HEAD).path
