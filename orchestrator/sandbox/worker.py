"""Long-lived worker processes for checks written in Python.

A check parses text that may have been written to break a parser. It runs in another process that
can be killed, with nothing of our environment; starting Python takes longer than most checks, so
the process is kept for the next one.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from orchestrator.errors import SandboxError
from orchestrator.sandbox.process import Limits, kill_group, start
from orchestrator.sandbox.worker_main import OUT_OF_MEMORY, READY

CHECKS = "orchestrator.review.checks."
PACKAGE_PARENT = Path(__file__).resolve().parents[2]
MAIN = Path(__file__).with_name("worker_main.py")

START_SECONDS = 30.0
REPLY_BYTES = 64 << 20
LIMITS = Limits(memory=2 << 30, file_size=1 << 20)

# The ways in which the two event loops say that the other end of a pipe is gone.
_BROKEN = (anyio.IncompleteRead, anyio.BrokenResourceError, ConnectionError)
_FUNCTION = re.compile(r"[a-z_]\w*(?:\.[a-z_]\w*)*:[a-z_]\w*", re.ASCII)


class _GarbageError(Exception):
    """The worker's reply is not the protocol's."""


class _Worker:
    """One process: asked one thing at a time."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process, self._stdin, self._stderr = process, process.stdin, process.stderr
        self._replies = BufferedByteReceiveStream(process.stdout)
        self._ready, self._asked = False, 0

    @classmethod
    async def start(cls, home: Path) -> Self:
        """Start the process; it boots while the caller goes on."""
        return cls(await start([sys.executable, "-I", str(MAIN), str(home)], limits=LIMITS))

    @property
    def alive(self) -> bool:
        """Whether the process still runs, as far as is known."""
        return self._process.returncode is None

    async def boot(self) -> None:
        """Wait until it takes requests, the first time.

        Raises:
            SandboxError: it did not get there.
        """
        if self._ready:
            return
        try:
            with anyio.fail_after(START_SECONDS):
                line = await self._replies.receive_until(b"\n", REPLY_BYTES)
        except TimeoutError:
            raise SandboxError(f"a worker took longer than {START_SECONDS:g} s to start") from None
        except _BROKEN:
            raise SandboxError(f"a worker could not start: {await self._last_words()}") from None
        if line + b"\n" != READY:
            raise SandboxError("a worker could not start: it printed something unexpected")
        self._ready = True

    async def ask(self, function: str, job: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send one request, return its reply.

        Raises:
            the kinds in ``_BROKEN``: the process ended.
            anyio.DelimiterNotFound: the reply is larger than a reply may be.
            _GarbageError: the reply is not the protocol's.
        """
        self._asked += 1
        request = {"id": self._asked, "function": function, "job": job, "seconds": seconds}
        await self._stdin.send(json.dumps(request).encode("ascii") + b"\n")
        line = await self._replies.receive_until(b"\n", REPLY_BYTES)
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError):
            raise _GarbageError from None
        if not isinstance(reply, dict) or reply.get("id") != self._asked:
            raise _GarbageError  # a line of something else, or the answer to an earlier request
        return reply

    async def how_it_ended(self) -> str:
        """Why there is no reply, in a few words."""
        with anyio.move_on_after(1):
            await self._process.wait()
        code = self._process.returncode
        if code is None:
            return "closed its output"
        if code == OUT_OF_MEMORY:
            return f"needed more than {LIMITS.memory >> 20} MiB of memory"
        if code < 0:
            return f"was ended by signal {-code} ({signal.strsignal(-code)})"
        return f"ended with exit code {code}"

    async def _last_words(self) -> str:
        """The last line of standard error, which only a failed start can have written to."""
        said = bytearray()
        with anyio.move_on_after(1):
            async for chunk in self._stderr:
                said = (said + chunk)[-4096:]
        lines = said.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else await self.how_it_ended()

    async def close(self) -> None:
        """End the process and everything it started."""
        with anyio.CancelScope(shield=True):
            kill_group(self._process)
            await self._process.aclose()


class WorkerPool:
    """At most ``size`` worker processes, started when first needed and kept until the pool closes.

    Args:
        size: how many checks run at once.
        home: the folder workers import checks from, the package's parent.
        prefix: what a function's dotted name must begin with.
    """

    def __init__(self, size: int, *, home: Path = PACKAGE_PARENT, prefix: str = CHECKS) -> None:
        self._home, self._prefix = home, prefix
        self._places = anyio.Semaphore(size)
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._open = False

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open = False
        self._idle.clear()
        for worker in list(self._all):
            await self._discard(worker)

    async def warm(self) -> None:
        """Start one worker now, if there is none; it boots in its own process meanwhile.

        Raises:
            SandboxError: no process could be started.
        """
        if self._open and not self._all:
            self._idle.append(await self._start())

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
        async with self._places:
            reply = await self._ask(function, job, seconds)
        if "error" in reply:
            raise SandboxError(str(reply["error"]))
        return reply["result"]

    async def _ask(self, function: str, job: dict[str, Any], seconds: float) -> dict[str, Any]:
        """One exchange with a worker, which is only kept when it went well."""
        name = function.partition(":")[0].rpartition(".")[2]
        worker = await self._take()
        kept = False
        try:
            await worker.boot()
            with anyio.fail_after(seconds):
                reply = await worker.ask(function, job, seconds)
            kept = self._open
        except TimeoutError:
            raise SandboxError(f"{name}: ran longer than {seconds:g} s") from None
        except anyio.DelimiterNotFound:
            raise SandboxError(f"{name}: replied with more than {REPLY_BYTES} bytes") from None
        except _GarbageError:
            raise SandboxError(f"{name}: the worker's reply was not readable") from None
        except (*_BROKEN, anyio.ClosedResourceError):
            raise SandboxError(f"{name}: the worker {await worker.how_it_ended()}") from None
        finally:
            if kept:
                self._idle.append(worker)
            else:
                await self._discard(worker)
        return reply

    async def _take(self) -> _Worker:
        """A worker that waits for work, or a new one."""
        if not self._open:
            raise SandboxError("the workers are closed")
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            await self._discard(worker)
        return await self._start()

    async def _start(self) -> _Worker:
        worker = await _Worker.start(self._home)
        self._all.add(worker)
        return worker

    async def _discard(self, worker: _Worker) -> None:
        self._all.discard(worker)
        await worker.close()
