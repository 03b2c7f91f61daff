"""``diffcourt serve``, ``work`` and ``queue``: the service's web server, workers and queue."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from orchestrator.errors import EXIT_OK, InputError
from orchestrator.report.terminal_escaping import emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import procrastinate
    import psycopg

    from orchestrator.service.queue_state import QueuedJob, QueueListing
    from orchestrator.service.settings import ServiceSettings

    Database = psycopg.AsyncConnection
    Queue = procrastinate.App
    Work = Callable[[Namespace, Database, Queue, ServiceSettings], Awaitable[str]]


def _open_service(args: Namespace, *, log: bool = True) -> ServiceSettings:
    """The service's settings, once its database is prepared, and its log goes to stderr."""
    from importlib.util import find_spec

    from orchestrator.optional_dependencies import install_command

    needed = ("procrastinate", "psycopg", "starlette", "uvicorn")
    if not all(map(find_spec, needed)):
        raise InputError(f"the service needs Procrastinate; run: {install_command('service')}")
    from orchestrator.service.database import prepare_database
    from orchestrator.service.job_queue import log_to_stderr
    from orchestrator.service.settings import load_settings

    settings = load_settings(args.config)
    if log:
        log_to_stderr()
    prepare_database(settings.database.read())
    return settings


def run_work(args: Namespace) -> int:
    """Work until asked to end."""
    import asyncio
    from logging import getLogger

    settings = _open_service(args)
    from orchestrator.service.traces import check_exporter
    from orchestrator.service.worker import run_worker

    if settings.traces:
        check_exporter(settings.traces)
    getLogger("diffcourt").info("taking jobs, at most %d at a time", settings.worker.concurrency)
    asyncio.run(run_worker(settings))
    return EXIT_OK


def run_serve(args: Namespace) -> int:
    """Serve until asked to end."""
    settings = _open_service(args)
    from logging import getLogger

    import uvicorn

    from orchestrator.service.http_server import server_config

    for forge in settings.forges:
        getLogger("diffcourt").info(
            "webhooks of %s: http://%s:%d/webhooks/%s", forge, args.host, args.port, forge
        )
    uvicorn.Server(server_config(settings, args.host, args.port)).run()
    return EXIT_OK


def run_queue(args: Namespace) -> int:
    """Run the chosen subcommand and print what it did."""
    emit(_with_queue(args, _WORK[args.part]), sys.stdout)
    return EXIT_OK


def _with_queue(args: Namespace, work: Work) -> str:
    import asyncio

    settings = _open_service(args, log=False)
    from orchestrator.service.job_queue import make_queue

    async def open_queue() -> str:
        queue, _ = make_queue(settings.database.read(), connections=2)
        async with queue.open_async():
            connector: Any = queue.connector
            async with connector.pool.connection() as db, db.transaction():
                return await work(args, db, queue, settings)

    return asyncio.run(open_queue())


async def _list(args: Namespace, db: Database, *_: object) -> str:
    import msgspec

    from orchestrator.service.queue_state import is_draining, list_jobs

    found = await list_jobs(db, ended=args.all, limit=args.limit)
    if args.json:
        return f"{msgspec.json.format(msgspec.json.encode(found)).decode()}\n"
    draining = "draining: workers take nothing new\n" if await is_draining(db) else ""
    return draining + (_table(found) if found.jobs else "no jobs\n")


def _table(found: QueueListing) -> str:
    lines = ["STATE            AGE  QUEUE   CHANGE, HEAD, RUN", *map(_line, found.jobs)]
    if more := found.total - len(found.jobs):
        parked = f"; parked in all: {found.parked:,}" if found.parked else ""
        lines.append(f"and {more:,} more, older ones: --limit {found.total}{parked}")
    if found.oldest is not None:
        lines += ["The oldest that waits:", _line(found.oldest)]
    return "".join(f"{line}\n" for line in lines)


def _line(job: QueuedJob) -> str:
    from orchestrator.report.terminal_escaping import escape_unprintable

    state = "parked" if job.state == "failed" or job.is_paused else job.state
    what = " ".join(filter(None, (job.change, (job.head or "")[:8], job.run)))
    line = f"{state:9} {job.seconds:8.0f} s  {job.queue:6}  {what}"
    why = f"\n          {job.problem[:160]}" if job.problem else ""
    return f"{escape_unprintable(line)}{escape_unprintable(why.strip()) and why}"


async def _retry(args: Namespace, db: Database, queue: Queue, settings: ServiceSettings) -> str:
    from orchestrator.service.queue_state import retry_change

    new = await retry_change(db, queue, args.change, settings.enqueuing)
    return f"{args.change} {'will be reviewed again' if new else 'is waiting already'}\n"


async def _stop(args: Namespace, db: Database, *_: object) -> str:
    from orchestrator.service.queue_state import stop_change

    ended = await stop_change(db, args.change, park=args.part == "park")
    parked = "; it is parked" if args.part == "park" else ""
    return f"{len(ended)} jobs of {args.change} are asked to end{parked}\n"


async def _drain(args: Namespace, db: Database, *_: object) -> str:
    from orchestrator.service.queue_state import set_draining

    running = await set_draining(db, args.part == "drain")
    if args.part == "open":
        return "workers take jobs again\n"
    return f"workers take nothing new; {running} jobs run\n"


async def _clean(_: Namespace, db: Database, *__: object) -> str:
    from orchestrator.service.queue_state import remove_old_rows

    return f"{await remove_old_rows(db)} jobs removed\n"


_WORK: dict[str, Work] = {
    "list": _list,
    "retry": _retry,
    "cancel": _stop,
    "park": _stop,
    "drain": _drain,
    "open": _drain,
    "clean": _clean,
}
