"""A minimal HTTP/1.1 server on loopback for tests of clients, on asyncio and trio."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import anyio
import h11
from anyio.abc import SocketAttribute, SocketStream
from msgspec import Struct, field

from orchestrator.engine.task_groups import task_group

MAX_BODY = 64_000_000


class HttpRequest(Struct, frozen=True):
    """A received request; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class HttpReply(Struct, frozen=True):
    """A reply to send.

    Attributes:
        parts: the body, in the chunks in which it is sent.
        cut: closes the connection after this many bytes of the body; None sends all of it.
        pause: seconds to wait after each chunk.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[bytes, ...] = ()
    cut: int | None = None
    pause: float = 0.0


Handler = Callable[[HttpRequest], Awaitable[HttpReply]]


@asynccontextmanager
async def serve_http(handle: Handler, host: str, port: int) -> AsyncIterator[int]:
    """Serve while the context is open.

    Args:
        port: 0 for any free port.
    """
    listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    async with listener, task_group() as group:
        group.start_soon(partial(listener.serve, partial(_serve_connection, handle)))
        yield listener.extra(SocketAttribute.local_port)  # noqa: S610 - not Django's
        group.cancel_scope.cancel()


async def _serve_connection(handle: Handler, stream: SocketStream) -> None:
    connection = h11.Connection(h11.SERVER)
    async with stream:
        try:
            while True:
                request = await _receive_request(connection, stream)
                if request is None:
                    return
                await _send_reply(connection, stream, await handle(request))
                if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                    return
                connection.start_next_cycle()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, h11.ProtocolError):
            return  # the client has closed the connection


async def _receive_request(connection: h11.Connection, stream: SocketStream) -> HttpRequest | None:
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            try:
                connection.receive_data(await stream.receive())
            except anyio.EndOfStream:
                connection.receive_data(b"")
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MAX_BODY:
                return None
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
            path = head.target.decode("latin-1")
            return HttpRequest(head.method.decode(), path, headers, bytes(body))
        else:
            return None


async def _send_reply(connection: h11.Connection, stream: SocketStream, reply: HttpReply) -> None:
    body = b"".join(reply.parts)
    headers = dict(reply.headers)
    if len(reply.parts) == 1:
        headers["content-length"] = str(len(body))
    else:
        headers["transfer-encoding"] = "chunked"
    head = h11.Response(status_code=reply.status, headers=list(headers.items()))
    pending = connection.send(head) or b""
    left = len(body) if reply.cut is None else reply.cut
    for part in reply.parts:
        sent = part[:left]
        left -= len(sent)
        # Together with the head: two small packets cost a client 40 ms of delayed ACK.
        await stream.send(pending + (connection.send(h11.Data(data=sent)) or b""))
        pending = b""
        if reply.pause:
            await anyio.sleep(reply.pause)
    end = connection.send(h11.EndOfMessage()) if reply.cut is None else b""
    if pending or end:
        await stream.send(pending + (end or b""))
