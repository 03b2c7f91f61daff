"""The server: receives webhooks and records them with their jobs in one transaction."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import procrastinate
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from orchestrator.errors import InputError
from orchestrator.service.changes import (
    cancel_all_jobs,
    changes_at,
    enqueue_command,
    record_delivery,
    record_push,
    review_again,
)
from orchestrator.service.event_counts import read_counts
from orchestrator.service.job_queue import DATABASE_ERRORS, LOG, make_queue
from orchestrator.service.missed_pushes import sweep_forever
from orchestrator.service.queue_metrics import render_queue_metrics
from orchestrator.service.queue_state import read_figures
from orchestrator.service.settings import NoSecret, Settings
from orchestrator.service.webhooks import MOST_BYTES, Delivery, NotAuthentic, read_delivery

READY_SECONDS = 2.0
BODY_SECONDS = 20.0


class Refused(Exception):
    """A webhook is rejected.

    Args:
        status: the HTTP status of the answer.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Server:
    """The request handlers, over an open queue."""

    def __init__(self, settings: Settings, queue: procrastinate.App) -> None:
        self._settings, self._queue = settings, queue

    async def webhook(self, request: Request) -> Response:
        """Receive a webhook: 202 if it is recorded or was before."""
        name = request.path_params["forge"]
        began = time.monotonic()
        try:
            said = await self._take(name, request)
            status = 202
        except Refused as refused:
            said, status = str(refused), refused.status
        except DATABASE_ERRORS as error:
            said, status = f"the database cannot be used: {' '.join(str(error).split())}", 503
        took = (time.monotonic() - began) * 1000
        LOG.info("webhook of %s: %d, %s (%.0f ms)", name[:40], status, said, took)
        # The error of the database is only logged.
        return PlainTextResponse(
            "try again later\n" if status == 503 else f"{said}\n",
            status,
            {"Retry-After": "30"} if status == 503 else None,
        )

    async def _take(self, name: str, request: Request) -> str:
        forge = self._settings.forges.get(name)
        if forge is None:
            raise Refused(404, "no such forge is configured")
        body = await _read_body(request)
        try:
            delivery = await asyncio.to_thread(
                read_delivery, name, forge, dict(request.headers), body
            )
        except NotAuthentic as error:
            raise Refused(401, str(error)) from None
        except NoSecret as error:
            LOG.error("webhooks of %s cannot be checked: %s", name, error)
            raise Refused(503, "the webhook's secret cannot be read here") from None
        except InputError as error:
            raise Refused(400, str(error)) from None
        return await self._record(name, delivery, body)

    async def _record(self, name: str, delivery: Delivery, body: bytes) -> str:
        """Record a delivery and its jobs in one transaction."""
        async with self.connection() as db, db.transaction():
            if not await record_delivery(db, name, delivery.id, body):
                return "a delivery that was recorded before"
            if delivery.push is not None:
                await record_push(db, self._queue, delivery.push, self._settings.enqueuing)
                return f"{delivery.push.change} will be reviewed at {delivery.push.head[:12]}"
            if delivery.comment is not None:
                comment = delivery.comment
                await enqueue_command(db, self._queue, comment.change, comment.id, comment.body)
                return f"a command on {comment.change}"
            if again := await changes_at(db, name, *delivery.rerun):
                for change in again:
                    await review_again(db, self._queue, change)
                return f"{', '.join(again)} will be reviewed again"
            if delivery.closed:
                await cancel_all_jobs(db, delivery.closed)
                return f"{delivery.closed} is closed"
        return "nothing to do"

    async def live(self, _: Request) -> Response:
        """The liveness probe: whether the process answers."""
        return PlainTextResponse("ok\n")

    async def ready(self, _: Request) -> Response:
        """The readiness probe: whether webhooks can be recorded."""
        try:
            async with asyncio.timeout(READY_SECONDS), self.connection() as db:
                await db.execute("SELECT 1 FROM service_changes LIMIT 1")
                done = await db.execute("SELECT current_setting('transaction_read_only')")
                if await done.fetchone() != ("off",):
                    return PlainTextResponse("the database is read-only\n", 503)
        except (*DATABASE_ERRORS, TimeoutError):
            return PlainTextResponse("the database cannot be used\n", 503)
        return PlainTextResponse("ok\n")

    async def metrics(self, _: Request) -> Response:
        """The queue in numbers, for Prometheus."""
        try:
            async with self.connection() as db:
                text = render_queue_metrics(await read_figures(db), await read_counts(db))
        except DATABASE_ERRORS:
            return PlainTextResponse("the database cannot be used\n", 503)
        return PlainTextResponse(text, media_type=CONTENT_TYPE_LATEST)

    def connection(self) -> Any:
        """A connection of the pool."""
        connector: Any = self._queue.connector
        return connector.pool.connection(timeout=READY_SECONDS)


async def _read_body(request: Request) -> bytes:
    """The raw body.

    Raises:
        Refused: it is too large, or incomplete.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BYTES:
                    raise Refused(413, f"the webhook is larger than {MOST_BYTES >> 20} MiB")
    except (TimeoutError, ClientDisconnect):
        raise Refused(408, "the webhook's body did not arrive") from None
    return bytes(body)


def make_app(settings: Settings) -> Starlette:
    """The server's application; its queue is open while it runs."""
    queue, _ = make_queue(settings.database.read)
    server = Server(settings, queue)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with queue.open_async():
            sweeper = asyncio.create_task(sweep_forever(settings, queue, server.connection))
            try:
                yield
            finally:
                sweeper.cancel()
                await asyncio.gather(sweeper, return_exceptions=True)

    return Starlette(
        routes=[
            Route("/webhooks/{forge}", server.webhook, methods=["POST"]),
            Route("/healthz", server.live),
            Route("/readyz", server.ready),
            Route("/metrics", server.metrics),
        ],
        lifespan=lifespan,
    )
