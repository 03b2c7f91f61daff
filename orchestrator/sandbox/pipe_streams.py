"""The ends of pipes and sockets as streams, on whatever event loop runs."""

import os
import socket

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream
from anyio.streams.stapled import StapledByteStream

CHUNK = 1 << 16


class _PipeEnd:
    """One end of a pipe; owned from here on."""

    def __init__(self, number: int) -> None:
        os.set_blocking(number, False)
        self._number = number

    async def aclose(self) -> None:
        """Close it; a task that waits on it gets ``ClosedResourceError``."""
        number, self._number = self._number, -1
        if number >= 0:
            anyio.notify_closing(number)
            os.close(number)


class PipeReader(_PipeEnd, ByteReceiveStream):
    """The reading end of a pipe."""

    async def receive(self, max_bytes: int = CHUNK) -> bytes:
        """What is there next."""
        while self._number >= 0:
            try:
                data = os.read(self._number, max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._number)
                continue
            if not data:
                raise anyio.EndOfStream
            return data
        raise anyio.ClosedResourceError


class PipeWriter(_PipeEnd, ByteSendStream):
    """The writing end of a pipe."""

    async def send(self, item: bytes) -> None:
        """Write all of it."""
        rest = memoryview(item)
        while rest:
            if self._number < 0:
                raise anyio.ClosedResourceError
            try:
                rest = rest[os.write(self._number, rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._number)
            except BrokenPipeError:
                raise anyio.BrokenResourceError from None


def open_socket_stream(connected: socket.socket) -> StapledByteStream:
    """A stream over duplicates of a connected socket.

    Not anyio's ``UNIXSocketStream``: on asyncio, one that is cancelled in the very pass of the loop
    in which data arrives sets the result of a cancelled future, and the loop prints a traceback.
    """
    receiving = PipeReader(os.dup(connected.fileno()))
    return StapledByteStream(PipeWriter(os.dup(connected.fileno())), receiving)
