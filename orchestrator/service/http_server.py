"""The server: receives webhooks and records them with their jobs in one transaction.

Whoever reaches it may send anything, so what it holds before a signature is known is bounded: the
number of connections, the time of a request's headers and body, and the bytes of all bodies.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import procrastinate
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from orchestrator.errors import InputError
from orchestrator.service import changes
from orchestrator.service.job_queue import DATABASE_ERRORS, LOG, make_queue
from orchestrator.service.metrics import WEBHOOKS, read_counts, read_figures, render_queue_metrics
from orchestrator.service.missed_pushes import sweep_forever
from orchestrator.service.settings import NoSecret, ServiceSettings
from orchestrator.service.webhooks import (
    MAX_BYTES,
    Delivery,
    NotAuthentic,
    check_headers,
    read_delivery,
)

READY_SECONDS = 2.0
HEADER_SECONDS = 10.0
BODY_SECONDS = 20.0
MAX_CONNECTIONS = 256
SMALL_BYTES = 128 << 10
"""Of a body, which each connection may hold: most webhooks are smaller. The rest of larger ones is
taken from what they share, so that whoever exhausts it keeps no usual webhook out."""
SHARED_BYTES = 2 * MAX_BYTES


class WebhookRefused(Exception):
    """A webhook is rejected.

    Args:
        status: the HTTP status of the answer.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Server:
    """The request handlers, over an open queue."""

    def __init__(self, settings: ServiceSettings, queue: procrastinate.App) -> None:
        self._settings, self._queue = settings, queue
        self._shared = SHARED_BYTES
        self._webhooks = Counter[str]()

    async def webhook(self, request: Request) -> Response:
        """Receive a webhook: 202 if it is recorded or was before."""
        name = request.path_params["forge"]
        began = time.monotonic()
        try:
            answer = await self._take(name, request)
            status = 202
        except WebhookRefused as refused:
            answer, status = str(refused), refused.status
        except DATABASE_ERRORS as error:
            answer, status = f"the database cannot be used: {' '.join(str(error).split())}", 503
        took = (time.monotonic() - began) * 1000
        known = name if name in self._settings.forges else "unknown"
        self._webhooks[f'{WEBHOOKS}{{forge={json.dumps(known)},status="{status}"}}'] += 1
        LOG.info("webhook of %s: %d, %s (%.0f ms)", name[:40], status, answer, took)
        # The error of the database is only logged.
        return PlainTextResponse(
            "try again later\n" if status == 503 else f"{answer}\n",
            status,
            {"Retry-After": "30"} if status == 503 else None,
        )

    async def _take(self, name: str, request: Request) -> str:
        forge = self._settings.forges.get(name)
        if forge is None:
            raise WebhookRefused(404, "no such forge is configured")
        headers = dict(request.headers)
        try:
            await asyncio.to_thread(check_headers, forge, headers)
            async with self._body(request) as body:
                delivery = await asyncio.to_thread(read_delivery, name, forge, headers, body)
                return await self._record(name, delivery, body)
        except NotAuthentic as error:
            raise WebhookRefused(401, str(error)) from None
        except NoSecret as error:
            LOG.error("webhooks of %s cannot be checked: %s", name, error)
            raise WebhookRefused(503, "the webhook's secret cannot be read here") from None
        except InputError as error:
            raise WebhookRefused(400, str(error)) from None

    @asynccontextmanager
    async def _body(self, request: Request) -> AsyncIterator[bytearray]:
        """The raw body, whose bytes count as held until it is let go."""
        body, taken = bytearray(), 0
        try:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    async for part in request.stream():
                        body += part
                        if len(body) > MAX_BYTES:
                            raise WebhookRefused(
                                413, f"the webhook is larger than {MAX_BYTES >> 20} MiB"
                            )
                        more = max(len(body) - SMALL_BYTES - taken, 0)
                        if more > self._shared:
                            raise WebhookRefused(503, "other large webhooks are being received")
                        taken += more
                        self._shared -= more
            except (TimeoutError, ClientDisconnect):
                raise WebhookRefused(408, "the webhook's body did not arrive") from None
            yield body
        finally:
            self._shared += taken

    async def _record(self, name: str, delivery: Delivery, body: bytes | bytearray) -> str:
        """Record a delivery and its jobs in one transaction."""
        async with self.connection() as db, db.transaction():
            if not await changes.record_delivery(db, name, delivery.id, body):
                return "a delivery that was recorded before"
            if delivery.push is not None:
                await changes.record_push(db, self._queue, delivery.push, self._settings.enqueuing)
                return f"{delivery.push.change} will be reviewed at {delivery.push.head[:12]}"
            if delivery.comment is not None:
                comment = delivery.comment
                await changes.enqueue_command(
                    db, self._queue, comment.change, comment.id, comment.body
                )
                return f"a command on {comment.change}"
            if again := await changes.changes_at(db, name, *delivery.rerun):
                for change in again:
                    await changes.review_again(db, self._queue, change)
                return f"{', '.join(again)} will be reviewed again"
            if delivery.closed:
                await changes.cancel_all_jobs(db, delivery.closed)
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
                counts = {**await read_counts(db), **self._webhooks}
                text = render_queue_metrics(await read_figures(db), counts)
        except DATABASE_ERRORS:
            return PlainTextResponse("the database cannot be used\n", 503)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    def connection(self) -> Any:
        """A connection of the pool."""
        connector: Any = self._queue.connector
        return connector.pool.connection(timeout=READY_SECONDS)


class BoundedConnection(H11Protocol):
    """A connection that is refused above their number, and closed where it sends no request."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the headers of the first request."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self._refuse("503 Service Unavailable", "too many connections; try again later")
        else:
            self._await_request()

    def data_received(self, data: bytes) -> None:
        """Handle what has arrived; the request that it completes has a time limit of its own."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next request: neither it nor the rest of this one may take forever."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline, which would keep the connection in memory."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        if self.cycle is not None:
            self.transport.close()
        else:  # uvicorn declares it as never None, which it is until the first request
            self._refuse("408 Request Timeout", "no request arrived")  # type: ignore[unreachable]

    def _refuse(self, status: str, why: str) -> None:
        head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: text/plain\r\n"
        text = f"{head}Content-Length: {len(why) + 1}\r\n\r\n{why}\n"
        self.transport.write(text.encode("ascii"))
        self.transport.close()


def server_config(settings: ServiceSettings, host: str, port: int) -> uvicorn.Config:
    """The web server's configuration."""
    return uvicorn.Config(
        make_app(settings),
        host=host,
        port=port,
        http=BoundedConnection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=10,
    )


def make_app(settings: ServiceSettings) -> Starlette:
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
