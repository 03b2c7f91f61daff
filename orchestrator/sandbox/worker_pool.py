"""Long-lived worker processes for checks written in Python.

A check parses text that may have been written to break a parser. It runs in another process that
can be killed, with nothing of our environment. Starting Python and importing takes longer than
most checks: one process, the fork server, does both once and forks the workers, and a worker is
kept for the next check.
"""

import json
import re
import secrets
import select
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import anyio
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

from orchestrator.errors import SandboxError
from orchestrator.sandbox.fork_server_client import ForkServer, WorkerEndedError
from orchestrator.sandbox.fork_server_main import ready_line
from orchestrator.sandbox.level_and_launchers import SANDBOX
from orchestrator.sandbox.pipe_streams import open_socket_stream

PACKAGE_PARENT = Path(__file__).resolve().parents[2]

START_SECONDS = 30.0
REPLY_BYTES = 64 << 20

# What the two event loops raise when the other end of a socket is closed.
_CLOSED = (anyio.IncompleteRead, anyio.BrokenResourceError, anyio.EndOfStream, ConnectionError)
_FUNCTION = re.compile(r"[a-z_]\w*(?:\.[a-z_]\w*)*:[a-z_]\w*", re.ASCII)


class _ProtocolError(Exception):
    """The worker's reply does not follow the protocol."""


class _WorkerSlot:
    """A socket on which one worker after the other serves, one request at a time."""

    def __init__(self, number: int, server: ForkServer, stream: ByteStream) -> None:
        self._number, self._server, self._stream = number, server, stream
        self._replies = BufferedByteReceiveStream(stream)
        self._ready, self._requests, self._token = False, 0, ""

    async def wait_until_ready(self) -> None:
        """Wait until a worker accepts requests; what an earlier worker sent is ignored."""
        if self._ready and not self._has_unread_data():
            return
        self._ready = False
        expected = ready_line(self._token).rstrip(b"\n")
        try:
            with anyio.fail_after(START_SECONDS):
                while await self._replies.receive_until(b"\n", REPLY_BYTES) != expected:
                    pass
        except TimeoutError:
            raise SandboxError(f"a worker took longer than {START_SECONDS:g} s to start") from None
        except anyio.DelimiterNotFound:
            raise SandboxError(
                "a worker could not start: unexpected output before it was ready"
            ) from None
        except _CLOSED:
            reason = self._server.start_error()
            raise SandboxError(f"a worker could not start: {reason}") from None
        self._ready = True

    def _has_unread_data(self) -> bool:
        """Whether something arrived without a request: the worker died while it was idle."""
        poll = select.poll()
        poll.register(self._server.sockets[self._number], select.POLLIN)
        return bool(poll.poll(0))

    async def send_request(
        self, function: str, job: dict[str, Any], shared: str, seconds: float
    ) -> dict[str, Any]:
        """Send one request and return its reply.

        Raises:
            WorkerEndedError, the kinds in ``_CLOSED``: the process ended.
            TimeoutError: it ended itself a second after its time.
        """
        self._requests += 1
        request = {
            "id": self._requests,
            "function": function,
            "job": job,
            "shared": shared,
            "seconds": seconds,
        }
        await self._stream.send(json.dumps(request).encode("ascii") + b"\n")
        line = await self._replies.receive_until(b"\n", REPLY_BYTES)
        if len(line) > REPLY_BYTES:  # it was complete in the chunk that went over
            raise anyio.DelimiterNotFound(REPLY_BYTES)
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError):
            raise _ProtocolError from None
        if isinstance(reply, dict) and reply.get("ended") == -signal.SIGALRM:
            raise TimeoutError  # its own alarm, since we were late
        if isinstance(reply, dict) and isinstance(reply.get("ended"), int):
            raise self._server.worker_error(reply["ended"])
        if not isinstance(reply, dict) or reply.get("id") != self._requests:
            raise _ProtocolError  # not a reply, or the reply to an earlier request
        return reply

    def replace(self) -> None:
        """Have the worker killed, and ignore what it still sends."""
        self._token, self._ready = secrets.token_hex(8), False
        self._replies = BufferedByteReceiveStream(self._stream)
        self._server.replace(self._number, self._token)

    async def close(self) -> None:
        """Close our end of the socket."""
        with anyio.CancelScope(shield=True):
            await self._stream.aclose()


class WorkerPool:
    """At most ``size`` worker processes, started when first needed and kept until the pool closes.

    A pool that is started ahead outlives its ``async with`` block: it can be entered again, in
    another event loop, and then serves with other workers.

    Args:
        size: number of checks that run at once.
        home: the directory workers import checks from, the package's parent.
        prefix: what a function's dotted name must begin with.
        modules: imported once, before the first worker is forked.
        reads: files and directories that checks may read, besides our installation and temporary
            files. They may write nothing, and start no program.
    """

    def __init__(
        self,
        size: int,
        *,
        prefix: str,
        home: Path = PACKAGE_PARENT,
        modules: Sequence[str] = (),
        reads: Sequence[Path] = (),
    ) -> None:
        self._size, self._home, self._prefix, self._modules = size, home, prefix, modules
        self._reads = tuple(reads)
        self._free, self._starting = anyio.Semaphore(size), anyio.Lock()
        self._server: ForkServer | None = None
        self._idle: list[_WorkerSlot] = []
        self._slots: list[_WorkerSlot] = []
        self._is_open = self._started_ahead = self._has_served = False

    def start(self) -> None:
        """Start now, ahead of the first call and of the event loop; ``close`` ends it.

        The first call raises its error, or starts it again if bubblewrap does not work.
        """
        self._started_ahead = True
        with suppress(SandboxError):
            self._server = self._server or ForkServer(
                self._size, self._home, self._modules, self._reads, SANDBOX.expected
            )

    def close(self) -> None:
        """End the processes."""
        self._started_ahead = False
        self._end()

    def _end(self) -> None:
        if self._server:
            self._server.close()
        self._server, self._has_served = None, False

    async def __aenter__(self) -> Self:
        # New ones: they belong to an event loop.
        self._free, self._starting = anyio.Semaphore(self._size), anyio.Lock()
        self._is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_open = False
        await self._close_slots()
        if not self._started_ahead:
            self._end()

    async def call(
        self, function: str, job: dict[str, Any], *, seconds: float, shared: str = ""
    ) -> Any:
        """Run ``function`` on ``job`` in a worker and return what it returned.

        Args:
            function: ``package.module:function``, below the pool's prefix.
            job: JSON-serializable; lone surrogates in names survive.
            shared: a JSON file with further parts of the job, which other jobs have, too. It is
                never rewritten: a worker keeps what it has read.
            seconds: wall time of the check itself, waiting for a free worker not counted.

        Raises:
            SandboxError: there is no result; one line says why. A broken worker is replaced.
        """
        if not function.startswith(self._prefix) or not _FUNCTION.fullmatch(function):
            raise SandboxError(f"{function!r} is not a check: workers run only {self._prefix}*:*")
        async with self._free:
            reply = await self._request(function, job, shared, seconds)
        if "error" in reply:
            raise SandboxError(str(reply["error"]))
        return reply["result"]

    async def _request(
        self, function: str, job: dict[str, Any], shared: str, seconds: float
    ) -> dict[str, Any]:
        """Send a request to a free worker, and replace the worker when that fails."""
        name = function.partition(":")[0].rpartition(".")[2]
        slot = await self._take_slot()
        succeeded = False
        try:
            await slot.wait_until_ready()
            with anyio.fail_after(seconds):
                reply = await slot.send_request(function, job, shared, seconds)
            succeeded = True
        except TimeoutError:
            raise SandboxError(f"{name}: ran longer than {seconds:g} s") from None
        except anyio.DelimiterNotFound:
            raise SandboxError(f"{name}: replied with more than {REPLY_BYTES} bytes") from None
        except _ProtocolError:
            raise SandboxError(f"{name}: the worker's reply was not readable") from None
        except WorkerEndedError as error:
            raise SandboxError(f"{name}: the worker {error}") from None
        except (*_CLOSED, anyio.ClosedResourceError):
            raise SandboxError(f"{name}: the worker and its fork server have exited") from None
        finally:
            if not succeeded:
                slot.replace()
            if slot in self._slots:
                self._idle.append(slot)
        return reply

    async def _take_slot(self) -> _WorkerSlot:
        """A free slot; starts the fork server where none runs."""
        async with self._starting:
            if not self._is_open:
                raise SandboxError("the workers are closed")
            if self._server is None or not self._server.alive:
                await self._close_slots()
                self._end()
                self._server = ForkServer(
                    self._size, self._home, self._modules, self._reads, SANDBOX.level
                )
            if not self._slots:
                self._slots = [
                    _WorkerSlot(number, self._server, open_socket_stream(ours))
                    for number, ours in enumerate(self._server.sockets)
                ]
                self._idle = self._slots[::-1]
                for slot in self._slots if self._has_served else ():
                    slot.replace()
                self._has_served = True
            return self._idle.pop()

    async def _close_slots(self) -> None:
        slots, self._slots, self._idle = self._slots, [], []
        for slot in slots:
            await slot.close()
