"""HTTP/1.1 on loopback: as little of a server as tests of clients need, on either event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import anyio
import h11
from anyio.abc import SocketAttribute, SocketStream
from msgspec import Struct, field

from orchestrator.engine.task_group import task_group

MAX_BODY = 64_000_000


class HttpRequest(Struct, frozen=True):
    """A request; header names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class HttpReply(Struct, frozen=True):
    """A reply.

    Attributes:
        parts: the body in the pieces in which it is sent.
        cut: bytes of the body after which the connection is closed, None to send all of it.
        pause: seconds after each piece.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[bytes, ...] = ()
    cut: int | None = None
    pause: float = 0.0


Handle = Callable[[HttpRequest], Awaitable[HttpReply]]


@asynccontextmanager
async def listening(handle: Handle, host: str, port: int) -> AsyncIterator[int]:
    """Serve until the block is left.

    Args:
        port: 0 for any free one.

    Returns:
        The port.
    """
    listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    async with listener, task_group() as group:
        group.start_soon(partial(listener.serve, partial(_converse, handle)))
        yield listener.extra(SocketAttribute.local_port)  # noqa: S610 - not Django's
        group.cancel_scope.cancel()


async def _converse(handle: Handle, stream: SocketStream) -> None:
    talk = h11.Connection(h11.SERVER)
    async with stream:
        try:
            while True:
                request = await _receive(talk, stream)
                if request is None:
                    return
                await _send(talk, stream, await handle(request))
                if talk.our_state is not h11.DONE or talk.their_state is not h11.DONE:
                    return
                talk.start_next_cycle()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, h11.ProtocolError):
            return  # whoever hung up does not want to hear more


async def _receive(talk: h11.Connection, stream: SocketStream) -> HttpRequest | None:
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = talk.next_event()
        if event is h11.NEED_DATA:
            try:
                talk.receive_data(await stream.receive())
            except anyio.EndOfStream:
                talk.receive_data(b"")
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


async def _send(talk: h11.Connection, stream: SocketStream, reply: HttpReply) -> None:
    whole = b"".join(reply.parts)
    headers = dict(reply.headers)
    if len(reply.parts) == 1:
        headers["content-length"] = str(len(whole))
    else:
        headers["transfer-encoding"] = "chunked"
    head = h11.Response(status_code=reply.status, headers=list(headers.items()))
    waiting = talk.send(head) or b""
    left = len(whole) if reply.cut is None else reply.cut
    for part in reply.parts:
        sent = part[:left]
        left -= len(sent)
        # With what waits, in one packet: two small ones cost a client 40 ms of delayed ACK.
        await stream.send(waiting + (talk.send(h11.Data(data=sent)) or b""))
        waiting = b""
        if reply.pause:
            await anyio.sleep(reply.pause)
    end = talk.send(h11.EndOfMessage()) if reply.cut is None else b""
    if waiting or end:
        await stream.send(waiting + (end or b""))
