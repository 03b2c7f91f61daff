"""The way to a server that is a program: one JSON message a line, over its pipes.

The library's own client of this kind passes parts of our environment on, lets the program write to
our terminal, and sets no limit on what it sends; so the pipes are ours and the messages are its.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.abc import (
    ByteReceiveStream,
    ByteSendStream,
    ObjectReceiveStream,
    ObjectSendStream,
    Process,
)
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from orchestrator.mcp.server_config import TOTAL_AT_MOST, Tell

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MESSAGE_AT_MOST = 4 << 20
"""Bytes of one message."""

TAIL = 300
"""Characters of a server's standard error that a message may quote."""

Launch = Callable[[], AbstractAsyncContextManager[Process]]
"""Starts the program, and ends it with everything it started."""


class _Broken(Exception):
    """The server broke the protocol or a limit; the text says how."""


@asynccontextmanager
async def over_stdio(launch: Launch, tell: Tell) -> AsyncIterator[TransportStreams]:
    """Start a server and speak with it.

    Args:
        tell: is told why the connection ended, if it ends before we do.

    Raises:
        SandboxError: it could not be started.
    """
    async with launch() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        received, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outbox, to_send = anyio.create_memory_object_stream[SessionMessage](0)
        stderr = _Tail()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(stderr.drain, process.stderr)
                group.start_soon(_receive, process.stdout, received, tell, stderr)
                group.start_soon(_send, process.stdin, to_send)
                try:
                    yield inbox, outbox
                finally:
                    group.cancel_scope.cancel()
        finally:
            for stream in (received, inbox, outbox, to_send):
                stream.close()


class _Tail:
    """The end of what a server writes to its standard error: for a message, never for a screen."""

    def __init__(self) -> None:
        self._kept = b""
        self.done = anyio.Event()

    async def drain(self, stream: ByteReceiveStream) -> None:
        """Read until the end, so that the server never waits for us."""
        try:
            async for chunk in stream:
                self._kept = (self._kept + chunk)[-4 * TAIL :]
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the process is gone, and what it said is kept
        self.done.set()

    async def last_line(self) -> str:
        """Its last line in printable characters, in brackets; empty when it wrote nothing."""
        with anyio.move_on_after(0.2):
            await self.done.wait()
        lines = self._kept.decode("utf-8", "replace").strip().splitlines()
        text = "".join(char for char in (lines or [""])[-1] if char.isprintable())
        return f" ({text[-TAIL:]})" if text else ""


async def _receive(
    stdout: ByteReceiveStream,
    into: ObjectSendStream[SessionMessage | Exception],
    tell: Tell,
    stderr: _Tail,
) -> None:
    """Pass messages on until the server ends or breaks the rules; then the session is over."""
    try:
        lines = _Lines()
        async for chunk in stdout:
            for line in lines.feed(chunk):
                await into.send(_message(line))
        tell(f"it ended{await stderr.last_line()}")
    except _Broken as fault:
        tell(str(fault))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        tell("its pipe broke")
    finally:
        await into.aclose()


class _Lines:
    """Puts lines together from what comes in, within the limits."""

    def __init__(self) -> None:
        self._rest, self._total = bytearray(), 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that a chunk completes; empty ones are left out.

        Raises:
            _Broken: it is more than a message, or a server, may have.
        """
        self._total += len(chunk)
        if self._total > TOTAL_AT_MOST:
            raise _Broken(f"it sent more than {TOTAL_AT_MOST >> 20} MB")
        # Searched for its line ends once: a message in many chunks costs what it is long.
        *ends, last = chunk.split(b"\n")
        found = [bytes(self._rest) + ends[0], *ends[1:]] if ends else []
        if ends:
            self._rest.clear()
        self._rest += last
        if len(self._rest) > MESSAGE_AT_MOST:
            raise _Broken(f"it sent a message of more than {MESSAGE_AT_MOST >> 20} MB")
        return [line for line in found if line.strip()]


def _message(line: bytes) -> SessionMessage:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        raise _Broken("it wrote something to its standard output that is no message") from None


async def _send(stdin: ByteSendStream, messages: ObjectReceiveStream[SessionMessage]) -> None:
    try:
        async for message in messages:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await stdin.send(text.encode() + b"\n")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return  # it reads no more; the end of its output says so to the session
