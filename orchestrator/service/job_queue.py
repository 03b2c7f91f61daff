"""The queue of jobs: Procrastinate on PostgreSQL, with job ownership added (decision 0027).

A job may run more than once: after a crash another worker takes it over. A worker that was only
suspended still believes that it owns the job. So ending or retrying a job requires the number of
the attempt, and is ignored if that is not the present one.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Container
from contextlib import suppress
from copy import copy
from typing import Any

import procrastinate
import psycopg
from procrastinate import App
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager
from procrastinate.retry import BaseRetryStrategy, RetryDecision
from psycopg import AsyncConnection
from psycopg_pool import PoolTimeout
from tenacity import AsyncRetrying, retry_if_exception_type, wait_fixed

from orchestrator.app.process_secrets import make_redactor
from orchestrator.engine.field_types import PositiveFloat, Strict
from orchestrator.errors import EXIT_USAGE
from orchestrator.service.child_process import ChildExit
from orchestrator.service.database import QUERIES

LOG = logging.getLogger("diffcourt.service")

REVIEWS = "review"
POSTS = "post"

RECONNECT_SECONDS = 2.0
MAX_TRIES = 10
"""Of what fails in a way that may pass, within some 45 minutes; then it is parked."""
MAX_RETRY_SECONDS = 600.0

DATABASE_ERRORS = (psycopg.Error, PoolTimeout, ConnectorException)
"""The database is away, or refuses; the connections come back by themselves."""


class JobFailed(Exception):
    """A job failed for a reason that one line says."""


class TemporaryFailure(JobFailed):
    """The job failed temporarily.

    Args:
        seconds: how long to wait.
    """

    def __init__(self, why: str, seconds: float) -> None:
        super().__init__(why)
        self.seconds = seconds


class PermanentFailure(JobFailed):
    """The job failed permanently; its row stays as failed."""


class RetryStrategy(BaseRetryStrategy):
    """Retries temporary failures later, and jobs interrupted by a shutdown immediately."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """When the job is tried again; None: never."""
        if isinstance(exception, TemporaryFailure):
            return RetryDecision(retry_in={"milliseconds": int(exception.seconds * 1000)})
        if isinstance(exception, (asyncio.CancelledError, *DATABASE_ERRORS)):
            return RetryDecision()
        return None


def retry_later(what: str, why: str, tries: int, first: float) -> TemporaryFailure:
    """The error that retries a job after this many tries; logged.

    Args:
        first: seconds before the second try.
    """
    seconds = min(first * 4.0**tries, MAX_RETRY_SECONDS)
    LOG.warning("%s: %s; trying again in %.0f s", what, why, seconds)
    return TemporaryFailure(why, seconds)


def require_answer(job: Job, ended: ChildExit, answers: Container[int], first: float) -> None:
    """Check that a child that called the forge succeeded.

    Raises:
        TemporaryFailure: another attempt may succeed.
        PermanentFailure: no attempt can, or there were too many.
    """
    if ended.code in answers:
        return
    why = ended.line or f"the call of the forge ended with {ended.code}"
    if may_retry(job, ended):
        raise retry_later(describe_job(job), why, job.attempts, first)
    LOG.error("%s is given up: %s", describe_job(job), why)
    raise PermanentFailure(why)


def may_retry(job: Job, ended: ChildExit) -> bool:
    """Whether another attempt of a job that called the forge may succeed."""
    return ended.code != EXIT_USAGE and job.attempts < MAX_TRIES


class QueueTimes(Strict, frozen=True):
    """Seconds between what workers do.

    Attributes:
        heartbeat: between heartbeats of a worker.
        stalled: without a heartbeat for this long, a worker loses its jobs. Longer than any outage
            of the database that is to be tolerated.
        sweep: between searches for jobs of stalled workers.
        poll: between searches for new, cancelled and lost jobs, in addition to notifications.
        retry: before the second try of what may pass; before each further one four times as many.
    """

    heartbeat: PositiveFloat = 10.0
    stalled: PositiveFloat = 60.0
    sweep: PositiveFloat = 5.0
    poll: PositiveFloat = 5.0
    retry: PositiveFloat = 1.0


class OwnedJobs(JobManager):
    """Ends and retries a job only for the worker and the attempt that own it."""

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        """Set a job's final state, if this worker still owns it."""
        if not await self._end_own(job, "finish_job", status=status.value, delete=delete_job):
            LOG.warning("%s is another worker's now; its end here is ignored", describe_job(job))

    async def retry_job(
        self,
        job: Job,
        retry_at: Any = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        """Retry a job, if this worker still owns it."""
        to = {"at": retry_at, "priority": priority, "queue": queue, "lock": lock}
        if not await self._end_own(job, "retry_job", **to):
            LOG.warning("%s is another worker's now; it is not retried here", describe_job(job))

    async def is_own(self, job: Job) -> bool:
        """Whether this worker still owns a job; True if the database is unavailable."""
        try:
            return await self._if_own(job, "is_own_job")
        except ConnectorException:
            return True

    async def free_waiting_place(self, job: Job) -> bool:
        """Let another job of the same change wait for this one; False if the job is not ours.

        Otherwise a retry of this job would always conflict with the waiting one.
        """
        return await self._if_own(job, "free_waiting_place")

    async def _end_own(self, job: Job, query: str, **arguments: Any) -> bool:
        """Record the end of a job; if the database is away, once it is back.

        Until then no other worker takes the job over, because its worker is alive.
        """
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(ConnectorException), wait=wait_fixed(RECONNECT_SECONDS)
        ):
            with attempt:
                return await self._if_own(job, query, **arguments)
        raise AssertionError

    async def _if_own(self, job: Job, query: str, **arguments: Any) -> bool:
        connector: Any = self.connector  # its type knows queries as text alone
        values = {**_owner(job), **arguments}
        rows = await connector.execute_query_all_async(query=QUERIES[query], **values)
        return bool(rows)


def make_queue(address: str | Callable[[], str], *, connections: int = 8) -> tuple[App, OwnedJobs]:
    """The queue at an address of PostgreSQL; not opened yet.

    LISTEN needs a direct connection: not one through a pooler in transaction mode.

    Args:
        address: a function is called for each connection, since passwords change.
    """
    connector = procrastinate.PsycopgConnector(
        conninfo=address,
        min_size=1,
        max_size=connections,
        timeout=60,
        kwargs={"keepalives_idle": 10, "keepalives_interval": 5, "tcp_user_timeout": 20_000},
    )
    app = App(connector=connector)
    app.job_manager = jobs = OwnedJobs(connector)
    return app, jobs


async def sweep_stalled_jobs(
    jobs: OwnedJobs, times: QueueTimes, take_over: Callable[[Job], Awaitable[None]]
) -> None:
    """Have the jobs of dead workers taken over periodically; every worker does it."""
    while True:
        await asyncio.sleep(times.sweep)
        with suppress(*DATABASE_ERRORS):  # the database is away: try again the next time
            for job in await jobs.get_stalled_jobs(seconds_since_heartbeat=times.stalled):
                await take_over(job)


def describe_job(job: Job) -> str:
    """What a job does, for the log."""
    return f"the {job.task_name} of {job.task_kwargs['change']}"


async def owns_job(db: AsyncConnection, job: Job) -> bool:
    """Whether a job is still the attempt that was read; nobody changes it in this transaction."""
    return await (await db.execute(QUERIES["is_own_job"], _owner(job))).fetchone() is not None


async def end_stalled_job(db: AsyncConnection, job: Job, *, again: bool) -> None:
    """Retry an owned job, or park it as failed, in the caller's transaction."""
    values = {**_owner(job), **dict.fromkeys(("at", "priority", "queue", "lock")), "delete": False}
    try:
        async with db.transaction():
            query = QUERIES["retry_job" if again else "finish_job"]
            await db.execute(query, {**values, "status": Status.FAILED.value})
    except psycopg.errors.UniqueViolation:  # a waiting job will do the same work
        await db.execute(QUERIES["finish_job"], {**values, "status": Status.ABORTED.value})


def _owner(job: Job) -> dict[str, Any]:
    return {"job": job.id, "attempt": job.attempts, "worker": job.worker_id}


# --- the log: one line an event on standard error, without secrets --------------------------------


class _OneLineFormatter(logging.Formatter):
    """Time, level and message on one line; a traceback where there is one."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._redact = make_redactor(os.environ)

    def format(self, record: logging.LogRecord) -> str:
        """The line; of what is a failure of ours and no defect, without a traceback."""
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if isinstance(error, JobFailed):
            record = copy(record)
            record.msg, record.args = f"{record.getMessage()}: {error}", ()
            record.exc_info = record.exc_text = None
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line, printable and without secrets."""
        line = super().formatMessage(record)
        return self._redact("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line))


def log_to_stderr() -> None:
    """Log what the service does; of its libraries, warnings only."""
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLineFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("diffcourt").setLevel(logging.INFO)
