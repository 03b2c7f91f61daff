"""A worker: takes jobs from the queue and runs each as a child process.

The queue delivers every job at least once. The journal makes that once: a job that runs again, on
any worker, resumes its run and reaches the same verdict.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from procrastinate import App
from procrastinate.exceptions import JobAborted
from procrastinate.job_context import AbortReason, JobContext
from procrastinate.jobs import Job
from psycopg import AsyncConnection

from orchestrator.app.runs.state_directory import STORE, new_run_id
from orchestrator.app.tracing.export import LIVE
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.shared_literals import OUTCOMES
from orchestrator.errors import EXIT_INCOMPLETE, EXIT_USAGE, DiffcourtError, InputError
from orchestrator.sandbox.kernel_calls import hide_from_other_processes
from orchestrator.service import changes, metrics
from orchestrator.service.changes import COMMAND_TASK, POST_TASK, REVIEW_TASK, StoredChange
from orchestrator.service.child_process import (
    MOVED,
    ChildExit,
    CommandRequest,
    JobLost,
    Left,
    PostRequest,
    ReviewRequest,
    run_child,
)
from orchestrator.service.forge_tokens import POSTING, READING, ForgeTokens
from orchestrator.service.installations import Tenants, cost_so_far, reserve, settle
from orchestrator.service.job_queue import (
    DATABASE_ERRORS,
    LOG,
    MAX_TRIES,
    POSTS,
    RECONNECT_SECONDS,
    REVIEWS,
    OwnedJobs,
    PermanentFailure,
    RetryStrategy,
    TemporaryFailure,
    describe_job,
    end_stalled_job,
    make_queue,
    may_retry,
    owns_job,
    require_answer,
    retry_later,
    sweep_stalled_jobs,
)
from orchestrator.service.queue_state import is_draining, remove_old_rows
from orchestrator.service.repository_cache import RepositoryCache
from orchestrator.service.settings import ForgeSettings, NoSecret, ServiceSettings
from orchestrator.service.traces import context_of, make_spans, send_spans

TURN_SECONDS = 60.0
CLEAN_UP_SECONDS = 3600.0
GIVEN_UP = "given_up"
_POST_ENDED = {0: "posted", MOVED: "moved"}


class Worker:
    """The jobs that a worker can run, over an open queue."""

    def __init__(self, settings: ServiceSettings, queue: App, jobs: OwnedJobs) -> None:
        self._settings, self._queue, self._jobs = settings, queue, jobs
        self._cache = RepositoryCache(Path(settings.worker.cache))
        self._tokens, self._tenants = ForgeTokens(), Tenants(settings)
        self._entering = asyncio.Lock()
        self._places = asyncio.Semaphore(settings.worker.concurrency)
        retry = RetryStrategy()
        queue.task(name=REVIEW_TASK, pass_context=True, retry=retry, queue=REVIEWS)(self.review)
        queue.task(name=POST_TASK, pass_context=True, retry=retry, queue=POSTS)(self.post)
        queue.task(name=COMMAND_TASK, pass_context=True, retry=retry, queue=POSTS)(self.command)

    async def review(self, context: JobContext, change: str) -> None:
        """Review the newest push of a change."""
        if not await self._jobs.free_waiting_place(context.job):
            raise JobAborted
        async with self._connection() as db:
            if await is_draining(db):
                raise TemporaryFailure("the queue is draining", self._settings.queue.poll)
            row = await changes.choose_run(db, change, new_run_id())
            if row is not None:
                await self._require_turn(db, context.job, row)
        if row is None or row.is_paused:
            return
        LOG.info("%s: the review of %s begins, run %s", change, row.head[:12], row.run)
        began = time.monotonic()
        try:
            ended = await _ended(context, self._review(context, row))
        finally:
            await asyncio.shield(self._settle_cost(row))
        await self._settle(row, ended, time.monotonic() - began)

    async def _require_turn(self, db: AsyncConnection, job: Job, row: StoredChange) -> None:
        """Make a review wait if its installation or repository reached its hourly limit."""
        limits = self._settings.limits
        most = (limits.installation_hourly, limits.repository_hourly)
        if most == (None, None):
            return
        assert job.id is not None
        for begun, limit in zip(
            await changes.count_recent_reviews(db, row, job.id), most, strict=True
        ):
            if limit is not None and begun >= limit:
                why = f"{row.change} waits: {begun} reviews began this hour"
                LOG.info("%s", why)
                raise TemporaryFailure(why, TURN_SECONDS)

    @asynccontextmanager
    async def _place(self, row: StoredChange) -> AsyncIterator[None]:
        """A place for a review; all of them after a crash, so that it harms no other one."""
        alone = row.crashes > 0
        async with self._connection() as db:
            await changes.update_change(db, row.change, is_alone=False)
        async with AsyncExitStack() as held:
            async with self._entering:  # two that want all places would wait for each other
                for _ in range(self._settings.worker.concurrency if alone else 1):
                    await held.enter_async_context(self._places)
            if alone:
                async with self._connection() as db:
                    await changes.update_change(db, row.change, is_alone=True)
            yield

    async def _review(self, context: JobContext, row: StoredChange) -> ChildExit:
        """Fetch a change and review it in a child, once there is a place for it."""
        async with self._place(row):
            forge = self._forge(row)
            token = await asyncio.to_thread(self._tokens.get, forge, row, READING)
            base = await self._cache.fetch(row, forge.kind, token)
            async with self._connection() as db:
                # So that the run is resumed with the same.
                await changes.update_change(db, row.change, {"run": row.run}, base_commit=base)
                max_usd = await reserve(db, self._settings, row)
            limits = self._settings.review
            options = ReviewOptions(
                repo=self._cache.place(row),
                base=base,
                head=row.run_head,
                title=row.title,
                description=row.description,
                provider=limits.provider,
                max_usd=max_usd,
                max_minutes=limits.max_minutes,
                no_cache=row.is_full,
            )
            request = ReviewRequest(
                worker=os.getpid(),
                repo=str(options.repo),
                run_id=row.run,
                options=options.as_meta(),
            )
            return await self._run_child(context, "review_process", request, row)

    def _forge(self, row: StoredChange) -> ForgeSettings:
        """The configuration of a change's forge."""
        forge = self._settings.forges.get(row.forge)
        if forge is None:
            raise InputError(f"the configuration no longer has the forge {row.forge}")
        return forge

    async def _run_child(
        self, context: JobContext, module: str, request: Struct, row: StoredChange
    ) -> ChildExit:
        """Run a child for a job, as long as this worker owns the job."""
        return await run_child(
            f"orchestrator.service.{module}",
            msgspec.json.encode(request),
            await asyncio.to_thread(self._environment, row),
            still_own=lambda: self._jobs.is_own(context.job),
            ask_seconds=self._settings.queue.poll,
        )

    async def _settle_cost(self, row: StoredChange) -> None:
        """Return the unused part of a run's reservation to the day's budget."""
        limits = self._settings.limits
        if limits.installation_daily_usd is None and limits.repository_daily_usd is None:
            return
        address = await asyncio.to_thread(self._tenants.address, row.forge, row.installation)
        usd = await asyncio.to_thread(cost_so_far, address, self._cache.place(row), row.run)
        if usd is None:
            return  # all of it stays reserved
        async with self._connection() as db:
            await settle(db, row.run, usd)

    async def _settle(self, row: StoredChange, ended: ChildExit, seconds: float) -> None:
        """Enqueue the posting of the verdict, retry the job, or record why there is no verdict.

        Raises:
            TemporaryFailure: another attempt may succeed.
            PermanentFailure: no attempt can.
        """
        change = row.change
        if ended.code == 0:
            summary = ended.line.split(", ", 2)[-1]
            LOG.info("%s: reviewed in %.1f s, run %s: %s", change, seconds, row.run, summary)
            async with self._connection() as db, db.transaction():
                await metrics.count_review(db, _result(ended.line), seconds)
                await changes.enqueue_post(db, self._queue, change)
            return
        why = ended.line or f"the review ended with {ended.code}"
        async with self._connection() as db, db.transaction():
            if ended.code == EXIT_INCOMPLETE:  # the forge or the database is away
                again = await changes.count_failure(db, change, MAX_TRIES)
            else:
                most = self._settings.worker.most_crashes
                again = ended.code != EXIT_USAGE and await changes.count_crash(db, change, most)
            if not again:
                await self._give_up(db, row, why)
                await metrics.count_review(db, "failed", seconds)
        raise (
            retry_later(change, why, row.failures + row.crashes, self._settings.queue.retry)
            if again
            else PermanentFailure(why)
        )

    async def _give_up(self, db: AsyncConnection, row: StoredChange, why: str) -> None:
        """Record why there is no verdict for the head, and enqueue a post of its check."""
        LOG.error("%s is parked: %s", row.change, why)
        await metrics.count(db, metrics.PARKED)
        await changes.update_change(db, row.change, {"head": row.head}, problem=why)
        await changes.enqueue_post(db, self._queue, row.change)

    async def post(self, context: JobContext, change: str) -> None:
        """Post the verdict of a change's newest push, or why there is none."""
        if not await self._jobs.free_waiting_place(context.job):
            raise JobAborted
        async with self._connection() as db:
            row = await changes.load_change(db, change)
        if row is None or not (row.problem or row.is_reviewed_head):
            return  # a newer push arrived, whose review enqueues another post
        began = time.time()
        run_id = row.run if row.is_reviewed_head else ""
        more = {"run_id": run_id, "head": row.head, "problem": row.problem}
        ended = await _ended(context, self._ask_forge(context, PostRequest, row, more))
        failed = "failed" if may_retry(context.job, ended) else GIVEN_UP
        async with self._connection() as db:
            await metrics.count_result(
                db, metrics.POST_RESULTS, _POST_ENDED.get(ended.code, failed)
            )
        require_answer(context.job, ended, _POST_ENDED, self._settings.queue.retry)
        if ended.code == MOVED:
            LOG.info("%s: nothing is posted: it is closed or has a newer head", change)
            return
        what, seconds = ended.line or "posted", time.time() - began
        LOG.info("%s: %s in %.1f s, run %s", change, what, seconds, row.run or "none")
        async with self._connection() as db:
            await changes.update_change(db, change, posted_head=row.head)
            spans = await make_spans(db, row, began) if self._settings.traces else []
        if spans:
            await asyncio.to_thread(send_spans, self._settings.traces, row, spans)

    async def command(self, context: JobContext, change: str, comment: int, body: str) -> None:
        """Answer a command in a comment on a change, and carry it out."""
        async with self._connection() as db:
            row = await changes.load_change(db, change)
            is_running = await changes.is_reviewing(db, change)
        if row is None:  # opened before the first webhook, and not listed yet
            LOG.warning("a command on %s: no push of it is known; reopen it", change)
            return
        more = {"run_id": row.run, "run_head": row.run_head, "is_running": is_running}
        more |= {"comment": comment, "body": body}
        ended = await _ended(context, self._ask_forge(context, CommandRequest, row, more))
        require_answer(context.job, ended, {0, *Left}, self._settings.queue.retry)
        LOG.info("a command on %s: %s", change, ended.line)
        async with self._connection() as db, db.transaction():
            if ended.code in {Left.REVIEW, Left.FULL}:
                await changes.review_again(db, self._queue, change, full=ended.code == Left.FULL)
            elif ended.code == Left.PAUSE:
                await changes.update_change(db, change, is_paused=True)
            elif ended.code == Left.POST:
                await changes.enqueue_post(db, self._queue, change)

    async def _ask_forge(
        self,
        context: JobContext,
        kind: type[PostRequest | CommandRequest],
        row: StoredChange,
        more: dict[str, Any],
    ) -> ChildExit:
        """Write to the forge in a child, the only process with the token for that."""
        forge = self._forge(row)
        request = kind(
            worker=os.getpid(),
            repo=str(self._cache.place(row)),
            kind=forge.kind,
            url=forge.url,
            project=row.repository,
            number=row.number,
            token=await asyncio.to_thread(self._tokens.get, forge, row, POSTING),
            **more,
        )
        module = "posting_process" if kind is PostRequest else "command_process"
        return await self._run_child(context, module, request, row)

    async def show_alive(self) -> None:
        """Touch the configured file periodically, as long as the database answers."""
        path = self._settings.worker.alive_file
        while path:
            with suppress(*DATABASE_ERRORS):
                async with self._connection() as db:
                    await db.execute("SELECT 1")
                await asyncio.to_thread(Path(path).touch)
            await asyncio.sleep(self._settings.queue.heartbeat)
        await asyncio.Event().wait()

    async def clean_up(self) -> None:
        """Remove jobs that ended long ago, once an hour."""
        while True:
            with suppress(*DATABASE_ERRORS):
                async with self._connection() as db:
                    await remove_old_rows(db)
            await asyncio.sleep(CLEAN_UP_SECONDS)

    async def take_over(self, job: Job) -> None:
        """Retry a dead worker's job, or park it if that happened too often; the first one does."""
        async with self._connection() as db, db.transaction():
            if not await owns_job(db, job):
                return
            again = await self._count_death(db, job)
            await end_stalled_job(db, job, again=again)
        if again:
            LOG.warning("%s runs again: its worker died", describe_job(job))
        else:
            LOG.error("%s is parked: its workers died too often", describe_job(job))

    async def _count_death(self, db: AsyncConnection, job: Job) -> bool:
        """Count that a worker died with a job; False if too often.

        Only the death of a review counts for its verdict. A post is tried as often as if the forge
        had refused it.
        """
        change, most = str(job.task_kwargs["change"]), self._settings.worker.most_crashes
        if job.task_name != REVIEW_TASK:
            again = job.attempts + 1 < MAX_TRIES
            if not again and job.task_name == POST_TASK:
                await metrics.count_result(db, metrics.POST_RESULTS, GIVEN_UP)
        else:
            again = await changes.count_crash(db, change, most)
            row = None if again else await changes.load_change(db, change)
            if row is not None:
                await self._give_up(db, row, f"the review's worker died {most} times")
        if again:
            await metrics.count(db, metrics.RESUMED)
        return again

    def _connection(self) -> Any:
        connector: Any = self._queue.connector
        return connector.pool.connection()

    def _environment(self, row: StoredChange) -> Mapping[str, str]:
        """A child's environment: no forge token, and no secret of the service but its store's."""
        passed = ("PATH", "LANG", "TZ")
        own = self._settings.installations.get(f"{row.forge}:{row.installation}")
        env = {**self._settings.review.env, **(own.env if own else {})}
        request = (
            {"CI_MERGE_REQUEST_IID": str(row.number)}
            if self._forge(row).kind == "gitlab"
            else {"GITHUB_REF": f"refs/pull/{row.number}/head"}
        )
        traces = {
            "TRACEPARENT": context_of(row).header("review"),
            LIVE: "1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self._settings.traces,
        }
        return {
            **(traces if self._settings.traces else {}),
            **{name: os.environ[name] for name in passed if name in os.environ},
            **{name: secret.read() for name, secret in env.items()},
            # The name by which the previous review of this request is found.
            **({} if row.is_full else request),
            "HOME": str(self._cache.place(row)),
            STORE: self._tenants.address(row.forge, row.installation),
            "DIFFCOURT_ALLOW_SPENDING": str(int(self._settings.review.allow_spending)),
        }


def _result(line: str) -> str:
    """The result of a review that ended, by its child's last line, for the metrics."""
    verdict, status, *_ = [*line.split(", "), ""]
    return verdict if verdict in OUTCOMES and status == "complete" else "incomplete"


async def _ended(context: JobContext, child: Awaitable[ChildExit]) -> ChildExit:
    """The end of a child; an error before its start counts as one."""
    try:
        return await child
    except NoSecret as error:
        return ChildExit(EXIT_INCOMPLETE, str(error))
    except DiffcourtError as error:
        return ChildExit(error.exit_code, str(error))
    except OSError as error:  # our own disk is full, or no process can be started
        return ChildExit(EXIT_INCOMPLETE, f"the worker cannot go on: {error.strerror or error}")
    except JobLost:
        raise JobAborted from None
    except asyncio.CancelledError:
        if context.abort_reason() == AbortReason.USER_REQUEST:
            raise JobAborted from None
        raise


async def run_worker(settings: ServiceSettings) -> None:
    """Work until SIGTERM or SIGINT; the database may be unavailable for a while."""
    hide_from_other_processes()  # our environment may hold tokens
    while True:
        try:
            if await _work(settings):
                return
        except DATABASE_ERRORS as error:
            why = " ".join(str(error.__cause__ or error).split())
            LOG.warning("the database cannot be used (%s); trying again", why)
        await asyncio.sleep(RECONNECT_SECONDS)


async def _work(settings: ServiceSettings) -> bool:
    """Work until asked to end; False if something else ended it."""
    times = settings.queue
    queue, jobs = make_queue(settings.database.read)
    worker = Worker(settings, queue, jobs)
    stopping = asyncio.Event()
    async with queue.open_async():
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        work = (
            sweep_stalled_jobs(jobs, times, worker.take_over),
            worker.clean_up(),
            worker.show_alive(),
            stopping.wait(),
            queue.run_worker_async(
                queues=[POSTS, REVIEWS],
                concurrency=settings.worker.concurrency,
                fetch_job_polling_interval=times.poll,
                abort_job_polling_interval=times.poll,
                update_heartbeat_interval=times.heartbeat,
                stalled_worker_timeout=times.stalled,
                shutdown_graceful_timeout=settings.worker.grace,
                install_signal_handlers=False,
            ),
        )
        tasks = [asyncio.ensure_future(each) for each in work]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result
    return stopping.is_set()
