"""Reviews the work tree again whenever it changes, and says what is new, open and fixed."""

import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from msgspec.structs import replace

from orchestrator.app.check_worker_startup import start_workers
from orchestrator.app.process_secrets import make_redactor
from orchestrator.app.run_review import end_signals_as_interrupt, require_source, run_review
from orchestrator.app.runs.state_directory import new_run_id, repo_root
from orchestrator.app.runs.stored_runs import prune_runs
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.code_review.analyzers.own_checks import warm_up
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.findings.previous_review import (
    RememberedReview,
    compare_with_previous,
    remember_review,
)
from orchestrator.code_review.verdict.decision import exit_code
from orchestrator.code_review.verdict.document_parts import PreviousFinding
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import ConfigError, DiffcourtError, InputError, Interrupted
from orchestrator.sandbox.worker_pool import WorkerPool

Document = dict[str, Any]

POLL_SECONDS, QUIET_SECONDS, MAX_SECONDS = 0.2, 0.1, 2.0
"""Between two looks; without a change before a review begins; to wait for that at most."""

IDLE_SHARE = 12  # a look is followed by a pause so many times its processor time, git's left out
RETRY_SECONDS = 3.0
MAX_GAPS = 10
SERVED_PASSES = 50  # then other workers serve, as for another commit: what files did to them ends


def watch(
    options: ReviewOptions, *, once: bool, has_reader: Callable[[], bool]
) -> Iterator[Document]:
    """Review the work tree with analyzers alone now, and after each change of it.

    The change is everything since the base or, without one, since the commit of the start: what is
    committed meanwhile stays part of it. Only the newest run is kept.

    Args:
        has_reader: asked while nothing happens; False ends it.

    Yields:
        For each pass a document for each open or fixed finding and one for the pass, or one of
        event ``error`` for a pass that failed and is tried again.

    Raises:
        InputError, ConfigError: the first pass cannot begin, or the repository was removed.
        KeyboardInterrupt: the user ended it; the run in progress is removed.
    """
    require_source(options, "")
    top = repo_root(options.repo or Path())
    base = options.base or anyio.run(_read_commit, top)
    options = replace(options, base=base, worktree=True, provider=OFFLINE)
    known: RememberedReview | None = None
    names: dict[str, str] = {}
    seen, last_error, last_run = "", "", ""
    looking = _with_interrupts(has_reader)
    with end_signals_as_interrupt(), looking as goes_on, start_workers(options.repo) as pool:
        for number in takewhile(lambda _: goes_on(), count()):
            run_id = new_run_id()
            try:
                if number % SERVED_PASSES == 1:
                    pool.close()
                    pool.start()
                    anyio.run(warm_up, pool, top)
                seen = anyio.run(_wait_for_change, pool, top, seen, goes_on)
                if not seen:
                    return
                started = time.monotonic()
                verdict = run_review(options, ignore_event, pool=pool, run_id=run_id)
                verdict = anyio.run(_compare, verdict, known)
                _forget(options, last_run)
                yield from _describe(verdict, names, time.monotonic() - started)
                if once:
                    return
                known, last_run, last_error = _remember(verdict, known), run_id, ""
            except Interrupted:
                _forget(options, run_id)
                raise KeyboardInterrupt from None
            except DiffcourtError as error:
                _forget(options, run_id)
                if not top.is_dir():
                    raise InputError(f"{top} was removed, so there is nothing to watch") from None
                if once or (known is None and isinstance(error, InputError | ConfigError)):
                    raise
                why = make_redactor(os.environ)(str(error))
                if why != last_error:
                    yield {"event": "error", "error": why}
                last_error, seen = why, ""
                time.sleep(RETRY_SECONDS)


@contextmanager
def _with_interrupts(goes_on: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
    """``goes_on``, which raises ``KeyboardInterrupt`` once this, the main thread, got a signal.

    The signal's own exception can be lost: Python drops it in a destructor, and an error of the
    clean-up after a cancellation takes its place.
    """
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(writing)

    def looks_and_goes_on() -> bool:
        with suppress(BlockingIOError):  # no signal
            os.read(reading, 1)
            raise KeyboardInterrupt
        return goes_on()

    try:
        yield looks_and_goes_on
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)


def _forget(options: ReviewOptions, run_id: str) -> None:
    if run_id:
        with suppress(DiffcourtError):  # it was not stored, or another process uses it
            prune_runs(options.repo, None, None, names=[run_id])


async def _read_commit(top: Path) -> str | None:
    """The commit that is checked out, None before the first one."""
    done = await (await Git.open(top)).attempt("rev-parse", "--verify", "HEAD^{commit}")
    return None if done.code else done.stdout.decode().strip()


async def _wait_for_change(
    pool: WorkerPool, top: Path, seen: str, has_reader: Callable[[], bool]
) -> str:
    """Wait until the work tree is another than ``seen``, and nothing is written to it.

    Returns:
        What it is now; empty if nobody reads any more.
    """
    git = await Git.open(top)
    git = replace(git, work_tree=top, index=git.git_dir / "index")
    current, pause = await _look(git, top), POLL_SECONDS
    while current == seen and has_reader():
        await anyio.sleep(pause)
        began = time.process_time()
        current = await _look(git, top)
        pause = max(POLL_SECONDS, IDLE_SHARE * (time.process_time() - began))
    if not has_reader():
        return ""
    until = anyio.current_time() + MAX_SECONDS
    previous = ""
    while seen and current != previous and anyio.current_time() < until:
        await anyio.sleep(QUIET_SECONDS)
        previous, current = current, await _look(git, top)
    if seen and seen.partition("\n")[0] != current.partition("\n")[0]:
        pool.close()
        pool.start()
    return current


async def _look(git: Git, top: Path) -> str:
    """A text that is another one after any change of the files or of the commit, its beginning."""
    head = await git.attempt("rev-parse", "HEAD")
    listed = await git.run("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return await to_thread.run_sync(_mark, head.stdout, os.fsencode(top), listed)


def _mark(head: bytes, top: bytes, listed: bytes) -> str:
    digest = hashlib.sha256()
    outputs = {(one.st_dev, one.st_ino) for one in map(os.fstat, (1, 2))}  # our lines: no change
    for path in sorted({*listed.split(b"\0")} - {b""}):
        with suppress(OSError):  # deleted
            found = os.lstat(b"%s/%s" % (top, path))
            if (found.st_dev, found.st_ino) not in outputs:
                about = found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns
                digest.update(b"%s\0%d %d %d %d %d\0" % (path, *about, found.st_ino))
    return f"{head.decode()}{digest.hexdigest()}"


async def _compare(verdict: Verdict, known: RememberedReview | None) -> Verdict:
    if known is None:  # another review may have come before, but no pass
        return replace(verdict, previous=None)

    async def read(_path: str) -> list[str]:
        return []  # of what they examined, analyzers that are silent say that it is fixed

    return await compare_with_previous(verdict, known, read)


def _remember(verdict: Verdict, known: RememberedReview | None) -> RememberedReview:
    """What the next pass is compared with; findings in files with a gap stay as they were."""
    new = remember_review(verdict)
    rows = {one.finding.fingerprint: one for one in new.findings}
    for one in known.findings if known else ():
        if one.finding in (verdict.previous.not_reported if verdict.previous else ()):
            rows[one.finding.fingerprint] = one
    return replace(new, findings=tuple(rows.values()))


def _describe(verdict: Verdict, names: dict[str, str], seconds: float) -> Iterator[Document]:
    """The documents of a pass.

    Args:
        names: fingerprint → that of the first pass that had the finding; those of this are added.
    """
    counts = {"new": 0, "open": 0, "fixed": 0}
    found = sorted(verdict.findings, key=lambda one: one.rank)
    was_open = {one.fingerprint for one in found if names and one.since_previous == "open"}
    names.update({one.fingerprint: one.identity for one in found})
    gone = verdict.previous.fixed if verdict.previous else ()
    shown: list[Finding | PreviousFinding] = [one for one in found if one.state == "open"]
    shown.extend(gone)
    for one in shown:
        known = "open" if one.fingerprint in was_open else "new"
        state = "fixed" if one in gone else known
        counts[state] += 1
        fields = {name: getattr(one, name) for name in ("path", "severity", "rule", "title")}
        place = {"fingerprint": names[one.fingerprint], "line": one.start_line}
        yield {"event": "finding", "state": state, **place, **fields}
    code = exit_code(verdict.verdict, verdict.status, verdict.fail_on, verdict.findings)
    gaps = dict.fromkeys(f"{skip.path}: {skip.why}" for skip in verdict.skipped if skip.gap)
    yield {
        "event": "pass",
        "run": verdict.run_id,
        "verdict": verdict.verdict,
        "status": verdict.status,
        "exit_code": code,
        **counts,
        "not_examined": list(gaps)[:MAX_GAPS],
        "seconds": round(seconds, 2),
    }
