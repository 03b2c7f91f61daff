"""Reviews: start one, or go on with one that was cut off."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from msgspec import convert, to_builtins
from msgspec.structs import replace

from orchestrator.app import partial_verdict, state_directory
from orchestrator.app.own_secrets import redactor
from orchestrator.app.partial_verdict import VERDICT
from orchestrator.app.policy_sources import sources
from orchestrator.app.types import Answer, ReviewOptions
from orchestrator.app.worker_pool import new_pool
from orchestrator.engine.events import Event, Observer
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_records import EffectResult
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.redaction import Redactor
from orchestrator.engine.task_group import task_group
from orchestrator.errors import ConfigError, InputError, Interrupted, ProviderRefused
from orchestrator.review.change import serialization
from orchestrator.review.change.intake import from_refs, from_worktree
from orchestrator.review.change.types import Change
from orchestrator.sandbox.worker_pool import WorkerPool

if TYPE_CHECKING:
    from orchestrator.review.verdict.model import Verdict

BACKEND = "asyncio"

Begin = Callable[[], Awaitable[None]]
"""Enters a new run; there is none for one that is resumed."""


def review(
    options: ReviewOptions,
    observer: Observer,
    *,
    pool: WorkerPool | None = None,
    backend: str = BACKEND,
) -> Verdict:
    """Review a change.

    Args:
        pool: the workers, where they were started ahead.
        backend: the event loop, ``asyncio`` or ``trio``.

    Raises:
        DiffcourtError: it cannot be reviewed; says what to do.
        Interrupted: the person stopped it; what was done is kept.
    """
    need_something(options)
    folder = state_directory.home(options.repo)
    run_id = state_directory.new_run_id()
    with state_directory.open_store(folder) as store:
        scratch = state_directory.scratch(folder, run_id)
        run = state_directory.Run(run_id, options, folder, scratch, store, pool or new_pool())
        if options.diff is not None:
            state_directory.keep_patch(folder, run_id, options.diff)
        try:
            return _sit(run, observer, partial(_begin, run), backend)
        except (InputError, ConfigError):
            # It never began, and asking again would not help: there is nothing to go on with.
            anyio.run(store.forget, run_id, backend=backend)
            state_directory.forget_scratch(folder, run_id)
            raise


def need_something(options: ReviewOptions) -> None:
    """See that there is a patch or a repository.

    Raises:
        InputError: there is neither.
    """
    if options.diff is None and not state_directory.inside_repository(options.repo or Path()):
        raise InputError(
            f"{options.repo or '.'} is not a git repository; name one with --repo, or a patch "
            "with --diff"
        )


def resume(
    repo: Path | None,
    run_id: str,
    observer: Observer,
    *,
    answer: Answer | None = None,
    pool: WorkerPool | None = None,
    backend: str = BACKEND,
) -> Verdict:
    """Go on with a run; one that has a verdict returns it.

    Args:
        answer: what a person says to what the run asked.

    Raises:
        RunNotFound: there is none of that name.
        InputError: nothing waits for this answer.
    """
    folder = state_directory.home(repo)
    with state_directory.open_run(folder, run_id) as (store, found):
        kept = found.meta["options"]
        diff = state_directory.kept_patch(folder, found.run_id) if kept["has_diff"] else None
        options, workers = ReviewOptions.of_meta(kept, diff), pool or new_pool()
        scratch = state_directory.scratch(folder, found.run_id)
        run = state_directory.Run(found.run_id, options, folder, scratch, store, workers, answer)
        return _sit(run, observer, None, backend)


async def _begin(run: state_directory.Run) -> None:
    asked = redactor(os.environ).json({"options": run.options.as_meta()})
    await run.store.create(run.run_id, SystemClock().now(), asked)


def _sit(
    run: state_directory.Run, observer: Observer, begin: Begin | None, backend: str
) -> Verdict:
    with _terminable():
        try:
            return anyio.run(_work, run, observer, begin, backend=backend)
        except KeyboardInterrupt:
            raise Interrupted(run.run_id, run.options.repo) from None
        except ProviderRefused as refusal:
            raise refusal.of(run.run_id, run.options.repo) from None


@contextmanager
def _terminable() -> Iterator[None]:
    """A CI system ends a job with SIGTERM: the same as Ctrl-C, so that nothing is left running."""
    try:
        before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    except ValueError:  # not the main thread: whoever runs us there deals with signals
        yield
        return
    # A script that starts us with & has us ignore Ctrl-C, and with it what SIGTERM is turned into.
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


async def _work(run: state_directory.Run, observer: Observer, begin: Begin | None) -> Verdict:
    if begin is not None:
        await begin()
    async with state_directory.open_writing(run.store, run.run_id) as journal:
        if begin is not None:
            state_directory.see_that_it_is_new(journal, run.folder)
        observer = _discreet(observer, journal.redact)
        if run.answer is not None:
            await partial_verdict.record(journal, run.answer)
        known = journal.noted(VERDICT)
        if known is not None:
            from orchestrator.review.verdict.model import Verdict  # noqa: PLC0415 - as below

            return convert(known, Verdict)
        observer(Event("run_started", journal.elapsed(), detail=run.run_id))
        async with task_group() as group:
            # Most of the program is imported beside git, which is what this waits for.
            group.start_soon(to_thread.run_sync, _import_the_rest)
            change = await take_in(run.options, run.scratch, journal)
            layers = await sources(change)
        from orchestrator.app.run_review import reviewed  # noqa: PLC0415 - see above

        for note in change.notes:
            observer(Event("note", journal.elapsed(), detail=note))
        verdict = await reviewed(run, change, layers, journal, observer)
        place = partial_verdict.place(journal) if partial_verdict.awaited(verdict) else VERDICT
        journal.note(place, to_builtins(verdict))
        await journal.flush()
        observer(Event("run_finished", journal.elapsed(), detail=verdict.stop.reason))
    return verdict


def _import_the_rest() -> None:
    import_module("orchestrator.app.run_review")


async def take_in(given: ReviewOptions, scratch: Path, journal: Journal) -> Change:
    """What is reviewed, by object id: found out once, the same at every resumption.

    Args:
        scratch: a folder for the objects of a patch or a work tree.
    """
    repo = given.repo or Path()

    async def perform() -> EffectResult:
        if given.diff is not None:
            from orchestrator.review.change.patch.apply import from_patch  # noqa: PLC0415 - 2 ms; rare

            inside = repo if state_directory.inside_repository(repo) else None
            change = await from_patch(given.diff, given.diff_name, inside, given.base, scratch)
        elif given.worktree:
            change = await from_worktree(repo, given.base, scratch)
        else:
            change = await from_refs(repo, given.base, given.head)
        return EffectResult(serialization.to_json(change))

    asked = {
        "base": given.base,
        "head": given.head,
        "worktree": given.worktree,
        "diff": hashlib.sha256(given.diff).hexdigest() if given.diff is not None else None,
    }
    return serialization.from_json(await journal.effect("intake", asked, perform))


def _discreet(observer: Observer, redact: Redactor) -> Observer:
    """Has no secret of ours shown to whoever watches."""

    def tell(event: Event) -> None:
        said = redact.json([event.agent, event.tool, event.key, event.detail])
        agent, tool, key, detail = said
        observer(replace(event, agent=agent, tool=tool, key=key, detail=detail))

    return tell
