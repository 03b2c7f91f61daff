"""The transports to servers: programs, one JSON message a line over pipes; and those at a URL.

The library's own transport over pipes passes parts of our environment on, lets the program write
to our terminal, and does not limit what it sends; so the pipes are ours.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import httpx2
from anyio.abc import (
    ByteReceiveStream,
    ByteSendStream,
    ObjectReceiveStream,
    ObjectSendStream,
    Process,
)
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.client.streamable_http import streamable_http_client
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
        lines, total = BufferedByteReceiveStream(stdout), 0
        while True:
            line = await lines.receive_until(b"\n", MAX_MESSAGE_BYTES)
            total += len(line) + 1
            if total > MAX_TOTAL_BYTES:
                report_end(f"it sent more than {MAX_TOTAL_BYTES >> 20} MB")
                return
            if line.strip():
                await into.send(_message(line))
    except anyio.DelimiterNotFound:
        report_end(f"it sent a message of more than {MAX_MESSAGE_BYTES >> 20} MB")
    except anyio.IncompleteRead:
        report_end(f"it ended{await stderr.last_line()}")
    except _ProtocolError as error:
        report_end(str(error))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        report_end("its pipe broke")
    finally:
        await into.aclose()


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


MAX_BODY_BYTES = 4 << 20
"""Of one response, or of one event in a stream."""


@asynccontextmanager
async def over_http(
    url: str, headers: Mapping[str, str], report_end: ReportEnd
) -> AsyncIterator[TransportStreams]:
    """Open a transport to a URL. Redirects to other hosts and proxy settings are not followed."""
    limited = _LimitedTransport(report_end)
    timeout = httpx2.Timeout(30, read=None)  # a call's own timeout bounds the wait for its answer
    async with (
        httpx2.AsyncClient(
            headers=dict(headers), timeout=timeout, transport=limited, trust_env=False
        ) as client,
        streamable_http_client(
            url, http_client=client, terminate_on_close=False, max_sse_event_size=MAX_BODY_BYTES
        ) as streams,
    ):
        yield streams


class _LimitedTransport(httpx2.AsyncHTTPTransport):
    """Counts received bytes, and fails above the limits."""

    def __init__(self, report_end: ReportEnd) -> None:
        super().__init__(trust_env=False)
        self._report_end, self._total = report_end, 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """One request; the response's body is counted as it is read."""
        try:
            response = await super().handle_async_request(request)
        except httpx2.TransportError as error:
            self._report_end(f"it cannot be reached: {type(error).__name__}")
            raise
        if response.status_code in {401, 403}:
            self._report_end(
                f"it answered {response.status_code}; see its headers in config/mcp.yaml"
            )
        kind = response.headers.get("content-type", "")
        limit = MAX_TOTAL_BYTES if kind.startswith("text/event-stream") else MAX_BODY_BYTES
        announced = response.headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > limit:
            await response.aclose()
            raise self._too_large(limit)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _CountedStream(response.stream, self, limit)
        return response

    def count(self, size: int, seen: int, limit: int) -> None:
        """Count bytes of a body."""
        self._total += size
        if seen > limit or self._total > MAX_TOTAL_BYTES:
            raise self._too_large(limit)

    def _too_large(self, limit: int) -> httpx2.ReadError:
        self._report_end(f"it sent more than {limit >> 20} MB")
        return httpx2.ReadError("response too large")


class _CountedStream(httpx2.AsyncByteStream):
    def __init__(
        self, inner: httpx2.AsyncByteStream, transport: _LimitedTransport, limit: int
    ) -> None:
        self._inner, self._transport, self._limit = inner, transport, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for chunk in self._inner:
            seen += len(chunk)
            self._transport.count(len(chunk), seen, self._limit)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
