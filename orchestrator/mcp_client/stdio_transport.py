"""The transport to a server that is a program: one JSON message a line, over its pipes.

The library's own transport of this kind passes parts of our environment on, lets the program write
to our terminal, and does not limit what it sends; so the pipes are ours.
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

from orchestrator.mcp_client.server_config import MAX_TOTAL_BYTES, ReportEnd

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MAX_MESSAGE_BYTES = 4 << 20
"""Of one message."""

STDERR_CHARACTERS = 300
"""Of a server's standard error that an error message may quote."""

Launch = Callable[[], AbstractAsyncContextManager[Process]]
"""Starts the program, and kills it with everything it started."""


class _ProtocolError(Exception):
    """The server violated the protocol or a limit; the text says how."""


@asynccontextmanager
async def over_stdio(launch: Launch, report_end: ReportEnd) -> AsyncIterator[TransportStreams]:
    """Start a server and open a transport to it."""
    async with launch() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        received, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outbox, to_send = anyio.create_memory_object_stream[SessionMessage](0)
        stderr = _StderrTail()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(stderr.drain, process.stderr)
                group.start_soon(_receive, process.stdout, received, report_end, stderr)
                group.start_soon(_send, process.stdin, to_send)
                try:
                    yield inbox, outbox
                finally:
                    group.cancel_scope.cancel()
        finally:
            for stream in (received, inbox, outbox, to_send):
                stream.close()


class _StderrTail:
    """The end of a server's standard error: for error messages, never printed as it is."""

    def __init__(self) -> None:
        self._kept = b""
        self.done = anyio.Event()

    async def drain(self, stream: ByteReceiveStream) -> None:
        """Read until the end, so that the server never blocks."""
        try:
            async for chunk in stream:
                self._kept = (self._kept + chunk)[-4 * STDERR_CHARACTERS :]
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the process has ended; what it wrote is kept
        self.done.set()

    async def last_line(self) -> str:
        """The beginning of its last line, printable, in brackets; empty when it wrote nothing."""
        with anyio.move_on_after(0.2):
            await self.done.wait()
        lines = self._kept.decode("utf-8", "replace").strip().splitlines()
        text = "".join(char for char in (lines or [""])[-1] if char.isprintable())
        cut = f"{text[:STDERR_CHARACTERS]}..." if len(text) > STDERR_CHARACTERS else text
        return f" ({cut})" if cut else ""


async def _receive(
    stdout: ByteReceiveStream,
    into: ObjectSendStream[SessionMessage | Exception],
    report_end: ReportEnd,
    stderr: _StderrTail,
) -> None:
    """Pass messages on until the server ends or violates the protocol; then the session is over."""
    try:
        lines = _LineBuffer()
        async for chunk in stdout:
            for line in lines.feed(chunk):
                await into.send(_message(line))
        report_end(f"it ended{await stderr.last_line()}")
    except _ProtocolError as error:
        report_end(str(error))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        report_end("its pipe broke")
    finally:
        await into.aclose()


class _LineBuffer:
    """Assembles lines from received chunks, within the limits."""

    def __init__(self) -> None:
        self._rest, self._total = bytearray(), 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add a chunk; returns the lines that it completes, without empty ones."""
        self._total += len(chunk)
        if self._total > MAX_TOTAL_BYTES:
            raise _ProtocolError(f"it sent more than {MAX_TOTAL_BYTES >> 20} MB")
        # Each byte is searched once: a message in many chunks takes linear time.
        *ends, last = chunk.split(b"\n")
        found = [bytes(self._rest) + ends[0], *ends[1:]] if ends else []
        if ends:
            self._rest.clear()
        self._rest += last
        if len(self._rest) > MAX_MESSAGE_BYTES:
            raise _ProtocolError(f"it sent a message of more than {MAX_MESSAGE_BYTES >> 20} MB")
        return [line for line in found if line.strip()]


def _message(line: bytes) -> SessionMessage:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        raise _ProtocolError(
            "its standard output contains something other than a message"
        ) from None


async def _send(stdin: ByteSendStream, messages: ObjectReceiveStream[SessionMessage]) -> None:
    try:
        async for message in messages:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await stdin.send(text.encode() + b"\n")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return  # it stopped reading; the end of its output ends the session
