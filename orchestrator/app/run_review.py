"""Runs a review from its options to its verdict: a new one or an interrupted one."""

import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from diffchecks.check_io import decode_text
from diffchecks.safe_paths import read_safely
from diffchecks.skipped_files import BIG_FILE_BYTES
from orchestrator.app.check_worker_startup import new_pool
from orchestrator.app.configuration_consent import ALLOW_SPENDING, decide_consent
from orchestrator.app.find_change import resolve_change
from orchestrator.app.human_decisions.approvals import current_head, current_user
from orchestrator.app.human_decisions.run_decisions import (
    record_grant,
    require_stopped_by_limit,
    with_grants,
)
from orchestrator.app.mcp.open_server_tools import open_tools
from orchestrator.app.model_opening import open_model
from orchestrator.app.notify.channels import notify_of
from orchestrator.app.policy_sources import load_policy, read_layers, required_prices
from orchestrator.app.previous_reviews import KnownChange, find_previous
from orchestrator.app.process_secrets import make_redactor
from orchestrator.app.review_inputs.copied_inputs import copy_given_files
from orchestrator.app.runs import state_directory, verdict_recording
from orchestrator.app.runs.cancellation import refuse_cancelled, watch_cancellation
from orchestrator.app.runs.rollback import make_rollback
from orchestrator.app.runs.run_progress import record_progress
from orchestrator.app.runs.verdict_recording import VERDICT
from orchestrator.app.types import Answer, ReviewOptions
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.code_review.assemble_verdict import assemble_verdict, conclude_review
from orchestrator.code_review.change.change_construction import UNCOMMITTED
from orchestrator.code_review.change.contents import split_lines
from orchestrator.code_review.change.path_limits import normalize_path
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.findings.previous_review import (
    ReadHead,
    RememberedReview,
    compare_with_previous,
)
from orchestrator.code_review.fixes.patch_files import write_patch_files
from orchestrator.code_review.review_flow import FLOW, end_cancelled
from orchestrator.code_review.review_setup import open_review
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.data_directories import user_directory
from orchestrator.engine import state_machine
from orchestrator.engine.approvals import RecordedApprovals
from orchestrator.engine.budget import Account
from orchestrator.engine.journal import IMPORTED, Journal
from orchestrator.engine.journal_keys import FORK_NOTE, Key
from orchestrator.engine.observer_events import Event, Observer
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.engine.trace_context import TRACEPARENT, TRACEPARENT_VARIABLE, parse_traceparent
from orchestrator.errors import ConfigError, InputError, Interrupted, ProviderRefused
from orchestrator.providers.calling_agent import HostModel
from orchestrator.sandbox.worker_pool import WorkerPool
from orchestrator.stores.result_cache import SqliteResultCache, open_result_cache
from orchestrator.stores.sql_store import RunStore
from orchestrator.stores.used_approvals import UsedApprovalsLog

NO_GRANT: Mapping[str, float] = MappingProxyType({})


class ReviewSession(Struct, frozen=True):
    """A run of a review, new or interrupted, with its store open and its files in their place.

    Attributes:
        answer: a person's answer to the question that the run waits for.
        grant: limits that a person raises, as ``resume_review`` takes them.
        host: the coding agent that answers if the provider is ``host``.
    """

    run_id: str
    options: ReviewOptions
    observer: Observer
    state_dir: Path
    scratch: Path
    store: RunStore
    pool: WorkerPool
    answer: Answer | None = None
    grant: Mapping[str, float] = NO_GRANT
    host: HostModel | None = None
    resumed: bool = False

    async def review(self) -> Verdict:
        """Review the change in the caller's event loop, and record the verdict."""
        try:
            async with self._open_journal() as journal:
                return await self._ended_before(journal) or await self._review(journal)
        except ProviderRefused as refusal:
            raise refusal.of(self.run_id, self.options.repo) from None
        except (InputError, ConfigError):
            if not self.resumed:  # nothing was reviewed, and a resumed run would fail as well
                await self.store.forget(self.run_id)
                state_directory.remove_scratch_dir(self.state_dir, self.run_id)
            raise

    @asynccontextmanager
    async def _open_journal(self) -> AsyncIterator[Journal]:
        if not self.resumed:
            meta = make_redactor(os.environ).json({"options": self.options.as_meta()})
            await self.store.create(self.run_id, SystemClock().now(), meta)
        async with state_directory.open_writing(self.store, self.run_id) as journal:
            if not self.resumed:
                state_directory.ensure_unwritten(journal, self.state_dir)
            known = journal.noted(TRACEPARENT)  # a resumed run stays in the trace that it began in
            found = parse_traceparent(os.environ.get(TRACEPARENT_VARIABLE, ""))
            if known is None and found is not None and journal.log.length <= 1:
                journal.note(TRACEPARENT, {"trace": found[0], "span": found[1]})
            yield journal

    async def _ended_before(self, journal: Journal) -> Verdict | None:
        """The verdict of a run that has ended; None if it goes on, with the person's answer."""
        if self.answer is not None:
            verdict_recording.require_answerable(journal, self.answer)
        known = journal.noted(VERDICT)
        if known is not None and self.grant:
            require_stopped_by_limit(convert(known, Verdict))
        elif known is not None and verdict_recording.has_ended(journal):
            return convert(known, Verdict)
        refuse_cancelled(journal)
        return None

    async def _review(self, journal: Journal) -> Verdict:
        """Find the change, run the flow over it, and record the verdict."""
        shown = record_progress(self.state_dir, self.run_id, self.observer)
        observer = BudgetReporter(_redacting(shown, journal.redact))
        async with watch_cancellation(self.store, journal) as cancellation:
            change = await resolve_change(self.options, self.scratch, journal)
            known = await find_previous(self.options, change, self.store, journal, os.environ)
            async with self._open_review(change, journal, observer, known) as state:
                observer.account = state.given.budget
                if self.answer is not None:  # now that the review can go on
                    await verdict_recording.answer_question(journal, self.answer, current_user())
                # A run whose options or policy are invalid is not kept, and not reported.
                observer(Event("run_started", journal.elapsed(), detail=self.run_id))
                for note in change.notes:
                    observer(Event("note", journal.elapsed(), detail=note))
                with cancellation.interruptible():
                    await state_machine.run(FLOW, state, journal, observer)
                    verdict = await conclude_review(state)
                if cancellation.detail:
                    cancellation.record(journal)
                    await end_cancelled(state, cancellation.detail)
                    verdict = assemble_verdict(state)
                if known.previous is not None:
                    verdict = await compare_with_previous(
                        verdict,
                        known.previous,
                        _present_lines(state, known.previous, self.options),
                        state.why_unsettled,
                        [normalize_path(path) for path in self.options.paths],
                    )
        verdict_recording.record_verdict(journal, verdict)
        await journal.flush()
        if not journal.noted(FORK_NOTE) and not journal.noted(str(Key(IMPORTED, number=1))):
            write_patch_files(self.scratch, verdict)
        await notify_of(verdict, self.options.repo, journal, observer)
        observer(Event("run_finished", journal.elapsed(), detail=verdict.stop.reason))
        return verdict

    @asynccontextmanager
    async def _open_review(
        self, change: Change, journal: Journal, observer: Observer, known: KnownChange
    ) -> AsyncIterator[ReviewState]:
        """The policy of the change's base, and all that a review needs, closed at the end."""
        layers = await read_layers(change)
        options = with_grants(self.options, journal)
        if self.grant:
            bounds = load_policy(layers, options).settings.bounds
            await record_grant(journal, bounds, self.grant)
            options = with_grants(options, journal)
        top = state_directory.repo_root(options.repo or Path())
        async with AsyncExitStack() as opened:
            await opened.enter_async_context(self.pool)
            policy = load_policy(layers, options)
            change = known.note_unnamed(change, options, policy.settings.provider)
            cache = opened.enter_context(_open_cache(options, top))
            model = await opened.enter_async_context(
                open_model(
                    policy.settings,
                    policy.catalog,
                    journal,
                    observer,
                    required_prices=required_prices(policy, options),
                    host=self.host,
                )
            )
            tools = await opened.enter_async_context(
                open_tools(policy, journal, repo=options.repo, environment=os.environ)
            )
            given = await copy_given_files(
                options,
                policy.settings,
                change,
                journal,
                pool=self.pool,
                root=top,
                scratch=self.scratch,
            )
            review = open_review(
                policy,
                change,
                journal,
                model=model,
                pool=self.pool,
                tools=tools,
                approver=_approver(options, change, journal),
                rollback=make_rollback(options.repo, self.state_dir, self.run_id),
                given=given,
                cache=cache,
                run_directory=self.scratch,
                handed_over=known.handed_over,
                observer=observer,
            )
            state = await opened.enter_async_context(review)
            if forked := journal.noted(FORK_NOTE):
                # Imported here: only forks need it.
                from orchestrator.app.runs.forking import dropped_findings  # noqa: PLC0415

                state.dropped = dropped_findings(forked)
            yield state


def run_review(
    options: ReviewOptions,
    observer: Observer,
    *,
    pool: WorkerPool | None = None,
    backend: str = "asyncio",
    run_id: str | None = None,
) -> Verdict:
    """Review a change.

    Args:
        backend: the event loop, ``asyncio`` or ``trio``.
        run_id: the new run's id, as ``new_run_id`` makes them; None: a new one.

    Raises:
        DiffcourtError: the change cannot be reviewed; says what to do.
        Interrupted: the user stopped it; it can be resumed.
    """
    with open_new_run(options, observer, pool, run_id) as session, _interruptible(session):
        return anyio.run(session.review, backend=backend)


@contextmanager
def open_new_run(
    options: ReviewOptions,
    observer: Observer,
    pool: WorkerPool | None = None,
    run_id: str | None = None,
    host: HostModel | None = None,
) -> Iterator[ReviewSession]:
    """A new run of the repository, with its store open.

    Raises:
        InputError: there is nothing to review.
    """
    require_source(options)
    options = decide_consent(options, os.environ)
    state_dir = state_directory.state_dir(options.repo)
    run_id = run_id or state_directory.new_run_id()
    with state_directory.open_store(options.repo) as store:
        scratch = state_directory.make_scratch_dir(state_dir, run_id)
        if options.diff is not None:
            state_directory.save_patch(state_dir, run_id, options.diff)
        pool = pool or new_pool()
        yield ReviewSession(run_id, options, observer, state_dir, scratch, store, pool, host=host)


def resume_review(
    repo: Path | None,
    run_id: str,
    observer: Observer,
    *,
    answer: Answer | None = None,
    grant: Mapping[str, float] = NO_GRANT,
    pool: WorkerPool | None = None,
    backend: str = "asyncio",
) -> Verdict:
    """Continue an interrupted or waiting run; of a finished one, return the verdict.

    Args:
        grant: limits that a person raises: ``max_usd``, ``max_tokens``, ``max_minutes`` or
            ``max_tool_calls`` → the new limit of the whole run.

    Raises:
        RunNotFound: no run has that name.
        InputError: the run has no such question, or the grant raises no limit that stopped it.
    """
    opened = open_kept_run(repo, run_id, observer, answer=answer, grant=grant, pool=pool)
    with opened as session, _interruptible(session):
        return anyio.run(session.review, backend=backend)


@contextmanager
def open_kept_run(
    repo: Path | None, run_id: str, observer: Observer, *, pool: WorkerPool | None, **how: Any
) -> Iterator[ReviewSession]:
    """A run of the store, to be continued; ``how`` holds fields of the session."""
    state_dir = state_directory.state_dir(repo)
    with state_directory.open_run(repo, run_id) as (store, found):
        options = state_directory.load_options(state_dir, found)
        scratch = state_directory.make_scratch_dir(state_dir, found.run_id)
        _require_own_spending(options)
        place = found.run_id, options, observer, state_dir, scratch, store, pool or new_pool()
        yield ReviewSession(*place, **how, resumed=True)


def _require_own_spending(options: ReviewOptions) -> None:
    """Check that an imported run, which has no consents, may use a paid provider here."""
    paid = ", ".join(name for name in (options.provider, *options.models) if name)
    is_open = paid not in {"", OFFLINE} and options.allow_spending is None
    if is_open and not decide_consent(options, os.environ).allow_spending:
        raise InputError(
            f"the imported run uses the provider {paid}, which nobody allowed here; "
            f"allow it with {ALLOW_SPENDING}=1"
        )


def require_source(options: ReviewOptions, instead: str = ", or a patch with --diff") -> None:
    """Check that there is a patch or a repository."""
    if options.diff is None and not state_directory.inside_repository(options.repo or Path()):
        raise InputError(
            f"{options.repo or '.'} is not a git repository; name one with --repo{instead}"
        )


@contextmanager
def _interruptible(session: ReviewSession) -> Iterator[None]:
    """Say how to resume the run if the user interrupts it."""
    with end_signals_as_interrupt():
        try:
            yield
        except KeyboardInterrupt:
            raise Interrupted(session.run_id, session.options.repo) from None


@contextmanager
def end_signals_as_interrupt() -> Iterator[None]:
    """Treat what ends a CI job (SIGTERM) or a terminal (SIGHUP) as Ctrl-C: child processes end too.

    Under ``nohup``, SIGHUP stays ignored.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    if before[signal.SIGHUP] is signal.SIG_IGN:
        del before[signal.SIGHUP]
    try:
        for number in before:
            signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    except ValueError:  # not the main thread: the calling program handles signals
        yield
        return
    # A shell that starts a process with & makes it ignore SIGINT, into which they are turned.
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _present_lines(
    state: ReviewState, before: RememberedReview, options: ReviewOptions
) -> ReadHead:
    """Reads a file of head, and of the work tree if only the previous review read that."""
    read_head = state.given.workspace.read_head
    if options.worktree or before.review.head not in UNCOMMITTED:
        return read_head

    async def read(path: str) -> list[str]:
        lines, root = await read_head(path), state_directory.repo_root(options.repo or Path())
        with suppress(OSError):
            lines += split_lines(decode_text(read_safely(root, path, BIG_FILE_BYTES)))
        return lines

    return read


def _approver(options: ReviewOptions, change: Change, journal: Journal) -> RecordedApprovals:
    """The approver: an approval is valid once, while the reviewed state is unchanged."""
    head = partial(current_head, options.as_meta(), change.head)
    return RecordedApprovals(journal, SystemClock(), head, UsedApprovalsLog(os.environ))


@contextmanager
def _open_cache(options: ReviewOptions, repo_root: Path) -> Iterator[SqliteResultCache | None]:
    """The user's cache of analyzer results, never in the repository; may be None."""
    directory = user_directory(os.environ, "XDG_CACHE_HOME", ".cache")
    if options.no_cache or directory is None:
        yield None
        return
    with open_result_cache(directory, outside=repo_root) as cache:
        yield cache


class BudgetReporter:
    """Forwards events, and adds the used budget after each call."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.account: Account | None = None

    def __call__(self, event: Event) -> None:
        """Pass the event on."""
        self._observer(event)
        if self.account and event.kind in {"tool_finished", "model_finished"}:
            used = {**self.account.used.to_json(), "seconds": event.at}
            limits = to_builtins(self.account.bounds)
            self._observer(Event("budget", event.at, data={"used": used, "limits": limits}))


def _redacting(observer: Observer, redact: Redactor) -> Observer:
    """An observer that receives events without our own secrets."""

    def observe(event: Event) -> None:
        agent, tool, key, detail = redact.json([event.agent, event.tool, event.key, event.detail])
        observer(replace(event, agent=agent, tool=tool, key=key, detail=detail))

    return observe
