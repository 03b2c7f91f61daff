"""Reviews: start one, or go on with one that was cut off."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import asdict, replace

from orchestrator.app import state, waiting
from orchestrator.app.answers import kept_answers
from orchestrator.app.approvals import head_now
from orchestrator.app.coverage import taken_in
from orchestrator.app.keys import signing_key
from orchestrator.app.mcp import open_tools
from orchestrator.app.policy import environment, sources, tier
from orchestrator.app.pool import new_pool
from orchestrator.app.providers import serve
from orchestrator.app.rollback import scopes
from orchestrator.app.secrets import redactor
from orchestrator.app.ticker import Ticker
from orchestrator.app.types import Answer, ReviewOptions
from orchestrator.catalog.settings import Settings
from orchestrator.engine import machine
from orchestrator.engine.approvals import RecordedApprovals
from orchestrator.engine.events import Event, Observer
from orchestrator.engine.journal import Journal, open_journal
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.records import Done
from orchestrator.engine.redaction import Redactor
from orchestrator.errors import ConfigError, InputError, Interrupted, ProviderRefused
from orchestrator.review.assemble import conclude
from orchestrator.review.change import wire
from orchestrator.review.change.intake import from_refs, from_worktree
from orchestrator.review.change.patch import from_patch
from orchestrator.review.change.types import Change
from orchestrator.review.flow import FLOW
from orchestrator.review.opening import Opening, open_case
from orchestrator.review.verdict import Verdict
from orchestrator.sandbox.worker import WorkerPool
from orchestrator.stores.base import RunStore
from orchestrator.stores.holder import this_process

VERDICT = "verdict"
BACKEND = "asyncio"


class _Run(Struct, frozen=True):
    """One sitting of a run: what was asked, and where its things lie."""

    run_id: str
    options: ReviewOptions
    folder: Path
    store: RunStore
    pool: WorkerPool
    answer: Answer | None = None

    @property
    def scratch(self) -> Path:
        return state.scratch(self.folder, self.run_id)


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
    folder = state.home(options.repo)
    run_id = state.new_run_id()
    with state.open_store(folder) as store:
        run = _Run(run_id, options, folder, store, pool or new_pool())
        if options.diff is not None:
            state.keep_patch(folder, run_id, options.diff)
        try:
            return _sit(run, observer, partial(_begin, run), backend)
        except (InputError, ConfigError):
            # It never began, and asking again would not help: there is nothing to go on with.
            anyio.run(store.forget, run_id, backend=backend)
            state.forget_scratch(folder, run_id)
            raise


def need_something(options: ReviewOptions) -> None:
    """See that there is a patch or a repository.

    Raises:
        InputError: there is neither.
    """
    if options.diff is None and not state.inside_repository(options.repo or Path()):
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
    folder = state.home(repo)
    with state.open_store(folder) as store:
        found = state.resolve(run_id, anyio.run(store.runs, backend=backend))
        given: dict[str, Any] = {**found.meta["options"]}
        given["diff"] = state.kept_patch(folder, found.run_id) if given.pop("has_diff") else None
        given["repo"] = Path(given["repo"]) if given["repo"] else None
        options, workers = ReviewOptions(**given), pool or new_pool()
        run = _Run(found.run_id, options, folder, store, workers, answer)
        return _sit(run, observer, _nothing, backend)


async def _nothing() -> None:
    """A run that is resumed is in the index already."""


async def _begin(run: _Run) -> None:
    asked = redactor(os.environ).json({"options": _asked(run.options)})
    await run.store.create(run.run_id, SystemClock().now(), asked)


def _asked(given: ReviewOptions) -> dict[str, Any]:
    """What was asked for, as the store's index keeps it."""
    return {
        **{name: value for name, value in asdict(given).items() if name not in {"diff", "repo"}},
        "repo": os.fspath(given.repo.absolute()) if given.repo else None,
        "has_diff": given.diff is not None,
    }


def _sit(run: _Run, observer: Observer, begin: Callable[[], Any], backend: str) -> Verdict:
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


async def _work(run: _Run, observer: Observer, begin: Callable[[], Any]) -> Verdict:
    await begin()
    key, holder, redact = signing_key(os.environ), this_process(), redactor(os.environ)
    observer = _discreet(observer, redact)
    async with open_journal(
        run.run_id, run.store, SystemClock(), holder=holder, key=key, redact=redact
    ) as journal:
        if run.answer is not None:
            await waiting.record(journal, run.answer)
        known = journal.noted(VERDICT)
        if known is not None:
            return Verdict.model_validate(known)
        observer(Event("run_started", journal.elapsed(), detail=run.run_id))
        change = await take_in(run.options, run.scratch, journal)
        for note in change.notes:
            observer(Event("note", journal.elapsed(), detail=note))
        ticker = Ticker(observer)
        opening = Opening(
            sources=await sources(change),
            adjust=partial(adjusted, run.options),
            serve=serve,
            environment=environment(),
            tier=tier(),
            observer=ticker,
            pool=run.pool,
            approver=partial(_approver, run, change),
            rollback=scopes(run.options.repo, run.folder, run.run_id),
            coverage=partial(
                taken_in, run.options, state.top(run.options.repo or Path()), run.scratch
            ),
            more_tools=partial(open_tools, repo=run.options.repo, environment=os.environ),
        )
        with kept_answers(run.options) as answers:
            opening = replace(opening, answers=answers)
            async with run.pool, open_case(change, journal, opening) as case:
                ticker.account = case.budget
                await machine.run(FLOW, case, journal, ticker)
                verdict = await conclude(case)
        place = waiting.place(journal) if waiting.awaited(verdict) else VERDICT
        journal.note(place, verdict.model_dump(mode="json"))
        await journal.flush()
        observer(Event("run_finished", journal.elapsed(), detail=verdict.stop.reason))
    return verdict


def _approver(run: _Run, change: Change, journal: Journal) -> RecordedApprovals:
    """What a person said counts while the head that they were shown is still the head."""
    head = partial(head_now, _asked(run.options), change.head)
    return RecordedApprovals(journal, SystemClock(), head)


async def take_in(given: ReviewOptions, scratch: Path, journal: Journal) -> Change:
    """What is reviewed, by object id: found out once, the same at every resumption.

    Args:
        scratch: a folder for the objects of a patch or a work tree.
    """
    repo = given.repo or Path()

    async def perform() -> Done:
        if given.diff is not None:
            inside = repo if state.inside_repository(repo) else None
            change = await from_patch(given.diff, given.diff_name, inside, given.base, scratch)
        elif given.worktree:
            change = await from_worktree(repo, given.base, scratch)
        else:
            change = await from_refs(repo, given.base, given.head)
        return Done(wire.to_json(change))

    asked = {
        "base": given.base,
        "head": given.head,
        "worktree": given.worktree,
        "diff": hashlib.sha256(given.diff).hexdigest() if given.diff is not None else None,
    }
    return wire.from_json(await journal.effect("intake", asked, perform))


def adjusted(options: ReviewOptions, settings: Settings) -> Settings:
    """The settings with what the person said on top."""
    bounds = {
        "iterations": options.max_iterations,
        "tool_calls": options.max_tool_calls,
        "minutes": options.max_minutes,
        "usd": options.max_usd,
    }
    said = {name: value for name, value in bounds.items() if value is not None}
    chosen = {"provider": options.provider, "pattern": options.pattern}
    update: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
    update["bounds"] = settings.bounds.model_copy(update=said)
    return settings.model_copy(update=update)


def _discreet(observer: Observer, redact: Redactor) -> Observer:
    """Has no secret of ours shown to whoever watches."""

    def tell(event: Event) -> None:
        said = redact.json([event.agent, event.tool, event.key, event.detail])
        agent, tool, key, detail = said
        observer(replace(event, agent=agent, tool=tool, key=key, detail=detail))

    return tell if redact else observer
