"""The transport to a server at a URL ("streamable HTTP"), with limits on what it sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx2
from mcp.client.streamable_http import streamable_http_client

from orchestrator.mcp_client.server_config import MAX_TOTAL_BYTES, ReportEnd

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

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
