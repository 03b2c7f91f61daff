"""Long-lived worker processes for checks written in Python.

A check parses text that may have been written to break a parser. It runs in another process that
can be killed, with nothing of our environment. Starting Python and importing takes longer than
most checks: one process, the nursery, does both once and forks the workers, and a worker is kept
for the next check.
"""

from __future__ import annotations

import json
import re
import secrets
import select
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import SocketStream, UNIXSocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from orchestrator.errors import SandboxError
from orchestrator.sandbox.fork_server import EndedError, Nursery
from orchestrator.sandbox.process_sandbox import SANDBOX
from orchestrator.sandbox.worker_main import ready

PACKAGE_PARENT = Path(__file__).resolve().parents[2]

START_SECONDS = 30.0
REPLY_BYTES = 64 << 20

# The ways in which the two event loops say that the other end of a socket is gone.
_BROKEN = (anyio.IncompleteRead, anyio.BrokenResourceError, anyio.EndOfStream, ConnectionError)
_FUNCTION = re.compile(r"[a-z_]\w*(?:\.[a-z_]\w*)*:[a-z_]\w*", re.ASCII)


class _GarbageError(Exception):
    """The worker's reply is not the protocol's."""


class _Place:
    """Where one worker after the other serves; asked one thing at a time."""

    def __init__(self, number: int, nursery: Nursery, stream: SocketStream) -> None:
        self._number, self._nursery, self._stream = number, nursery, stream
        self._replies = BufferedByteReceiveStream(stream)
        self._ready, self._asked, self._token = False, 0, ""

    async def boot(self) -> None:
        """Wait until a worker takes requests; what one before it left to say is passed over.

        Raises:
            SandboxError: none got there.
        """
        if self._ready and not self._has_news():
            return
        self._ready = False
        awaited = ready(self._token).rstrip(b"\n")
        try:
            with anyio.fail_after(START_SECONDS):
                while await self._replies.receive_until(b"\n", REPLY_BYTES) != awaited:
                    pass
        except TimeoutError:
            raise SandboxError(f"a worker took longer than {START_SECONDS:g} s to start") from None
        except anyio.DelimiterNotFound:
            raise SandboxError("a worker could not start: it printed without an end") from None
        except _BROKEN:
            words = self._nursery.last_words()
            raise SandboxError(f"a worker could not start: {words}") from None
        self._ready = True

    def _has_news(self) -> bool:
        """Whether something came that nobody asked for: the worker died while it was idle."""
        news = select.poll()
        news.register(self._nursery.ends[self._number], select.POLLIN)
        return bool(news.poll(0))

    async def ask(self, function: str, job: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send one request, return its reply.

        Raises:
            EndedError, the kinds in ``_BROKEN``: the process ended.
            anyio.DelimiterNotFound: the reply is larger than a reply may be.
            _GarbageError: the reply is not the protocol's.
        """
        self._asked += 1
        request = {"id": self._asked, "function": function, "job": job, "seconds": seconds}
        await self._stream.send(json.dumps(request).encode("ascii") + b"\n")
        line = await self._replies.receive_until(b"\n", REPLY_BYTES)
        if len(line) > REPLY_BYTES:  # it came whole, with the chunk that went over
            raise anyio.DelimiterNotFound(REPLY_BYTES)
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError):
            raise _GarbageError from None
        if isinstance(reply, dict) and isinstance(reply.get("ended"), int):
            raise self._nursery.ended(reply["ended"])
        if not isinstance(reply, dict) or reply.get("id") != self._asked:
            raise _GarbageError  # a line of something else, or the answer to an earlier request
        return reply

    def replace(self) -> None:
        """Give up on the worker, and on whatever it still has to say."""
        self._token, self._ready = secrets.token_hex(8), False
        self._replies = BufferedByteReceiveStream(self._stream)
        self._nursery.replace(self._number, self._token)

    async def close(self) -> None:
        """Close our end."""
        with anyio.CancelScope(shield=True):
            await self._stream.aclose()


class WorkerPool:
    """At most ``size`` worker processes, started when first needed and kept until the pool closes.

    One that is started ahead outlives its block: it can be entered again, in another event loop,
    and serves with other workers then.

    Args:
        size: how many checks run at once.
        home: the folder workers import checks from, the package's parent.
        prefix: what a function's dotted name must begin with.
        modules: imported once, before the first worker is forked.
        reads: files and folders that checks may read, besides our installation and the temporary
            files of this process. They may write nothing, and start no program.
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
        self._turns, self._starting = anyio.Semaphore(size), anyio.Lock()
        self._nursery: Nursery | None = None
        self._idle: list[_Place] = []
        self._places: list[_Place] = []
        self._open = self._stays = self._served = False

    def start(self) -> None:
        """Start now, ahead of the first call and of the event loop; ``close`` ends it.

        A failure shows at the call. Where there are no rooms after all, it starts again then.
        """
        self._stays = True
        with suppress(SandboxError):
            self._nursery = self._nursery or Nursery(
                self._size, self._home, self._modules, self._reads, SANDBOX.expected
            )

    def close(self) -> None:
        """End the processes."""
        self._stays = False
        self._end()

    def _end(self) -> None:
        if self._nursery:
            self._nursery.close()
        self._nursery, self._served = None, False

    async def __aenter__(self) -> Self:
        # Anew: they belong to an event loop.
        self._turns, self._starting = anyio.Semaphore(self._size), anyio.Lock()
        self._open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open = False
        await self._leave()
        if not self._stays:
            self._end()

    async def call(self, function: str, job: dict[str, Any], *, seconds: float) -> Any:
        """Run ``function`` on ``job`` in a worker and return what it returned.

        Args:
            function: ``package.module:function``, below the pool's prefix.
            job: anything that JSON can hold; lone surrogates in names survive.
            seconds: wall time of the check itself, waiting for a free worker not counted.

        Raises:
            SandboxError: in one line, why there is no result. A worker that broke is replaced.
        """
        if not function.startswith(self._prefix) or not _FUNCTION.fullmatch(function):
            raise SandboxError(f"{function!r} is not a check: workers run {self._prefix}*:* only")
        async with self._turns:
            reply = await self._ask(function, job, seconds)
        if "error" in reply:
            raise SandboxError(str(reply["error"]))
        return reply["result"]

    async def _ask(self, function: str, job: dict[str, Any], seconds: float) -> dict[str, Any]:
        """One exchange with a worker, which is only kept when it went well."""
        name = function.partition(":")[0].rpartition(".")[2]
        place = await self._take()
        kept = False
        try:
            await place.boot()
            with anyio.fail_after(seconds):
                reply = await place.ask(function, job, seconds)
            kept = True
        except TimeoutError:
            raise SandboxError(f"{name}: ran longer than {seconds:g} s") from None
        except anyio.DelimiterNotFound:
            raise SandboxError(f"{name}: replied with more than {REPLY_BYTES} bytes") from None
        except _GarbageError:
            raise SandboxError(f"{name}: the worker's reply was not readable") from None
        except EndedError as ended:
            raise SandboxError(f"{name}: the worker {ended}") from None
        except (*_BROKEN, anyio.ClosedResourceError):
            raise SandboxError(f"{name}: the worker is gone, and who keeps it too") from None
        finally:
            if not kept:
                place.replace()
            if place in self._places:
                self._idle.append(place)
        return reply

    async def _take(self) -> _Place:
        """A worker that waits for work."""
        async with self._starting:
            if not self._open:
                raise SandboxError("the workers are closed")
            if self._nursery is None or not self._nursery.alive:
                await self._leave()
                self._end()
                self._nursery = Nursery(
                    self._size, self._home, self._modules, self._reads, SANDBOX.level
                )
            if not self._places:
                self._places = [
                    _Place(number, self._nursery, await UNIXSocketStream.from_socket(end.dup()))
                    for number, end in enumerate(self._nursery.ends)
                ]
                self._idle = self._places[::-1]
                for place in self._places if self._served else ():
                    place.replace()
                self._served = True
            return self._idle.pop()

    async def _leave(self) -> None:
        places, self._places, self._idle = self._places, [], []
        for place in places:
            await place.close()
