"""The way to a server that is reached by HTTP ("streamable HTTP"), with limits on what it sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx2
from mcp.client.streamable_http import streamable_http_client

from orchestrator.mcp.server_config import TOTAL_AT_MOST, Tell

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

BODY_AT_MOST = 4 << 20
"""Bytes of one response, or of one event in a stream."""


@asynccontextmanager
async def over_http(
    url: str, headers: Mapping[str, str], tell: Tell
) -> AsyncIterator[TransportStreams]:
    """Speak with a server at a URL. Redirects elsewhere are not followed, proxies not asked.

    Args:
        headers: sent with every request.
        tell: is told why the connection ended, if it ends before we do.
    """
    limited = _Limited(tell)
    timeout = httpx2.Timeout(30, read=None)  # a call's own timeout bounds the wait for its answer
    async with (
        httpx2.AsyncClient(
            headers=dict(headers), timeout=timeout, transport=limited, trust_env=False
        ) as client,
        streamable_http_client(
            url, http_client=client, terminate_on_close=False, max_sse_event_size=BODY_AT_MOST
        ) as streams,
    ):
        yield streams


class _Limited(httpx2.AsyncHTTPTransport):
    """Counts what comes in, and ends what is too much."""

    def __init__(self, tell: Tell) -> None:
        super().__init__(trust_env=False)
        self._tell, self._total = tell, 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """One request; the response's body is counted as it is read."""
        try:
            response = await super().handle_async_request(request)
        except httpx2.TransportError as fault:
            self._tell(f"it cannot be reached: {type(fault).__name__}")
            raise
        if response.status_code in {401, 403}:
            self._tell(f"it answered {response.status_code}; see its headers in config/mcp.yaml")
        kind = response.headers.get("content-type", "")
        most = TOTAL_AT_MOST if kind.startswith("text/event-stream") else BODY_AT_MOST
        announced = response.headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > most:
            await response.aclose()
            raise self._too_much(most)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Counted(response.stream, self, most)
        return response

    def count(self, size: int, seen: int, most: int) -> None:
        """Count bytes of a body.

        Raises:
            httpx2.ReadError: it is more than one response, or one run, may have.
        """
        self._total += size
        if seen > most or self._total > TOTAL_AT_MOST:
            raise self._too_much(most)

    def _too_much(self, most: int) -> httpx2.ReadError:
        self._tell(f"it sent more than {most >> 20} MB")
        return httpx2.ReadError("too much")


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, limited: _Limited, most: int) -> None:
        self._inner, self._limited, self._most = inner, limited, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for chunk in self._inner:
            seen += len(chunk)
            self._limited.count(len(chunk), seen, self._most)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
