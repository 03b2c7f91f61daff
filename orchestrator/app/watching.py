"""Reviews the work tree again whenever it changes, and says what is new, open and fixed."""

import hashlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from msgspec.structs import replace

from orchestrator.app.check_worker_startup import start_workers
from orchestrator.app.run_review import require_source, run_review, sigterm_as_interrupt
from orchestrator.app.runs.state_directory import new_run_id, repo_root
from orchestrator.app.runs.stored_runs import prune_runs
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.path_limits import normalize_path
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

Document = dict[str, Any]

POLL_SECONDS = 0.2
IDLE_SHARE = 8
"""Looking at a large work tree is followed by a pause so many times as long."""

QUIET_SECONDS, MOST_SECONDS = 0.1, 2.0
"""Nothing was written for so long, or it is reviewed while writing goes on."""

RETRY_SECONDS = 5.0
"""After a review that failed, for example because another process held a lock."""

MAX_GAPS = 10


def watch(
    options: ReviewOptions, *, once: bool = False, has_reader: Callable[[], bool] = lambda: True
) -> Iterator[Document]:
    """Review the work tree with analyzers alone now, and after each change of it.

    The change is everything since the base or, without one, since the commit of the start: what is
    committed meanwhile stays part of it. Of the runs, only the newest is kept.

    Args:
        has_reader: asked while nothing happens; False ends it.

    Yields:
        For each pass one document for each open or fixed finding, and one for the pass. One of
        event ``error`` in place of a pass that failed.

    Raises:
        InputError, ConfigError: the first pass cannot begin.
        KeyboardInterrupt: the user ended it; the run in progress is removed.
    """
    require_source(options)
    top = repo_root(options.repo or Path())
    base = options.base or anyio.run(_read_commit, top)
    options = replace(options, base=base, worktree=True, provider=OFFLINE)
    known: RememberedReview | None = None
    names: dict[str, str] = {}
    seen, said, kept = "", "", ""
    with sigterm_as_interrupt():
        while True:
            run_id = new_run_id()
            try:
                with start_workers(options.repo) as pool:  # they start while nothing happens
                    patience = RETRY_SECONDS if said else math.inf
                    seen = anyio.run(_wait_for_change, top, seen, patience, has_reader)
                    if not seen:
                        return
                    started = time.monotonic()
                    verdict = run_review(options, ignore_event, pool=pool, run_id=run_id)
                verdict = replace(verdict, previous=None)  # of another review than the last pass
                if known is not None:
                    verdict = anyio.run(_compare, verdict, known, options.paths)
            except Interrupted:
                _forget(options.repo, run_id)
                raise KeyboardInterrupt from None
            except DiffcourtError as error:
                _forget(options.repo, run_id)
                if once or (known is None and isinstance(error, InputError | ConfigError)):
                    raise
                if str(error) != said:
                    yield {"event": "error", "error": str(error)}
                said = str(error)
                continue
            yield from _describe(verdict, names, time.monotonic() - started)
            if once:
                return
            if kept:
                _forget(options.repo, kept)
            known, kept, said = _remember(verdict, known), run_id, ""


def _forget(repo: Path | None, run_id: str) -> None:
    with suppress(DiffcourtError):  # it was not stored, or another process uses it
        prune_runs(repo, None, None, names=[run_id])


async def _read_commit(top: Path) -> str | None:
    """The commit that is checked out, None before the first one."""
    done = await (await Git.open(top)).attempt("rev-parse", "--verify", "HEAD^{commit}")
    return None if done.code else done.stdout.decode().strip()


async def _wait_for_change(
    top: Path, seen: str, patience: float, has_reader: Callable[[], bool]
) -> str:
    """Wait until the work tree is another than ``seen``, and nothing is written to it.

    Returns:
        What it is now, to be given as ``seen``; empty if nobody reads any more.
    """
    git = await Git.open(top)
    git = replace(git, work_tree=top, index=git.git_dir / "index")
    give_up = anyio.current_time() + patience
    while True:
        began = anyio.current_time()
        now = await _look(git, top)
        if now != seen or began > give_up:
            break
        if not has_reader():
            return ""
        spent = anyio.current_time() - began
        await anyio.sleep(max(POLL_SECONDS, IDLE_SHARE * spent))
    until = anyio.current_time() + MOST_SECONDS
    while seen and anyio.current_time() < until:
        await anyio.sleep(QUIET_SECONDS)
        before, now = now, await _look(git, top)
        if before == now:
            break
    return now


async def _look(git: Git, top: Path) -> str:
    """A text that is another one after any change of the files or of the commit."""
    head = await git.attempt("rev-parse", "HEAD")
    listed = await git.run("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return await to_thread.run_sync(_mark, head.stdout, os.fsencode(top), listed)


def _mark(head: bytes, top: bytes, listed: bytes) -> str:
    digest = hashlib.sha256(head)
    outputs = [os.fstat(number) for number in (1, 2)]  # our own lines are no change
    for path in sorted(set(listed.split(b"\0"))):
        try:
            found = os.lstat(os.path.join(top, path))
        except OSError:
            continue  # deleted
        if any(os.path.samestat(found, one) for one in outputs):
            continue
        about = found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
        digest.update(b"%s\0%s\0" % (path, repr(about).encode()))
    return digest.hexdigest()


async def _compare(verdict: Verdict, known: RememberedReview, paths: Sequence[str]) -> Verdict:
    async def read(_path: str) -> list[str]:
        return []  # analyzers that read the file and are silent say that it is fixed

    limits = [normalize_path(path) for path in paths]
    return await compare_with_previous(verdict, known, read, paths=limits)


def _remember(verdict: Verdict, known: RememberedReview | None) -> RememberedReview:
    """What the next pass is compared with; findings of files with a gap stay as they were."""
    new = remember_review(verdict)
    silent = {one.fingerprint for one in verdict.previous.not_reported} if verdict.previous else ()
    kept = [one for one in known.findings if one.finding.fingerprint in silent] if known else ()
    reported = [one for one in new.findings if one.finding.fingerprint not in silent]
    return replace(new, findings=(*reported, *kept))


def _describe(verdict: Verdict, names: dict[str, str], seconds: float) -> Iterator[Document]:
    """The documents of a pass.

    Args:
        names: fingerprint → that of the first pass that had the finding; those of this are added.
    """
    rows = [
        _describe_finding("open" if names and finding.since_previous == "open" else "new", finding)
        for finding in sorted(verdict.findings, key=lambda one: one.rank)
        if finding.state == "open"
    ]
    names.update({finding.fingerprint: finding.identity for finding in verdict.findings})
    gone = verdict.previous.fixed if verdict.previous else ()
    rows += [_describe_finding("fixed", finding) for finding in gone]
    for row in rows:
        row["fingerprint"] = names.get(row["fingerprint"], row["fingerprint"])
    yield from rows
    states = [row["state"] for row in rows]
    gaps = list(dict.fromkeys(f"{skip.path}: {skip.why}" for skip in verdict.skipped if skip.gap))
    yield {
        "event": "pass",
        "run": verdict.run_id,
        "verdict": verdict.verdict,
        "status": verdict.status,
        "exit_code": exit_code(verdict.verdict, verdict.status, verdict.fail_on, verdict.findings),
        **{state: states.count(state) for state in ("new", "open", "fixed")},
        "not_examined": gaps[:MAX_GAPS],
        "seconds": round(seconds, 2),
    }


def _describe_finding(state: str, finding: Finding | PreviousFinding) -> Document:
    fields = ("fingerprint", "path", "severity", "rule", "title")
    told = {name: getattr(finding, name) for name in fields}
    return {"event": "finding", "state": state, **told, "line": finding.start_line}
