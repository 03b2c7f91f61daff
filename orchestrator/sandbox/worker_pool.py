"""Long-lived worker processes for checks written in Python.

A check parses text that may have been written to break a parser. It runs in another process that
can be killed, with nothing of our environment. Starting Python and importing takes longer than
most checks: one process, the fork server, does both once and forks the workers, and a worker is
kept for the next check.
"""

import json
import os
import re
import secrets
import select
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import anyio
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

from orchestrator.errors import SandboxError
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.bubblewrap import PACKAGE, installation_directories, new_namespaces
from orchestrator.sandbox.cgroups import Cgroup, shared_limits
from orchestrator.sandbox.fork_server_main import MEMORY, NOT_CONFINED, OUT_OF_MEMORY, ready_line
from orchestrator.sandbox.kernel_calls import hide_from_other_processes, kill_process_group
from orchestrator.sandbox.launcher_client import Level
from orchestrator.sandbox.level_and_launchers import SANDBOX
from orchestrator.sandbox.process_confinement import is_available, system_rules
from orchestrator.sandbox.process_start import ISOLATED_PYTHON, start_process
from orchestrator.sandbox.run_program import clean_environment, open_socket_stream

MAIN = Path(__file__).with_name("fork_server_main.py")
END_SECONDS = 2.0


class WorkerEndedError(Exception):
    """The worker ended before it replied.

    Args:
        code: its exit code, or the negative number of the signal that ended it.
        memory_error: set where the kernel ended it for lack of memory.
    """

    def __init__(self, code: int, memory_error: str = "") -> None:
        if memory_error:
            super().__init__(memory_error)
        elif code == NOT_CONFINED:
            super().__init__("could not be confined; `diffcourt doctor` says what is possible here")
        elif code == OUT_OF_MEMORY:
            super().__init__(f"needed more than {MEMORY >> 20} MiB of memory")
        elif code == -signal.SIGPROF:
            super().__init__("took too much processor time for one file")
        elif code < 0:
            super().__init__(f"was ended by signal {-code} ({signal.strsignal(-code)})")
        else:
            super().__init__(f"ended with exit code {code}")


def _confinement(reads: Sequence[Path]) -> dict[str, Any]:
    """The arguments of ``confine`` in each worker."""
    return {
        "reads": [os.fspath(path) for path in (*reads, scratch_directory.work_directory())],
        "canary": os.fspath(scratch_directory.canary_file()),
        "system": system_rules(installation_directories()),
        "writes": [],
        "program": [],
    }


class ForkServer:
    """A process that imports once what checks need, and forks workers. Creating it does not wait.

    Args:
        home: the directory they import from.
        modules: modules imported before the first fork.
        reads: what workers may read besides our installation and the temporary files.
        level: how workers are confined. With bubblewrap, the fork server ends with the thread that
            creates it.

    Attributes:
        sockets: our end of each worker slot's socket.
    """

    def __init__(
        self, size: int, home: Path, modules: Sequence[str], reads: Sequence[Path], level: Level
    ) -> None:
        prefix, namespaces = list[str](), ""
        if level == "bubblewrap":
            ours = [] if home == PACKAGE.parent else [home]
            paths = [path.resolve() for path in (*ours, *reads, scratch_directory.work_directory())]
            prefix, namespaces = new_namespaces(paths, [scratch_directory.canary_file()])
        pairs = [socket.socketpair() for _ in range(size)]
        self.sockets = [ours for ours, _ in pairs]
        theirs = [child_end.fileno() for _, child_end in pairs]
        numbers = ",".join(map(str, theirs))
        confinement = json.dumps(_confinement(reads)) if is_available() else ""
        hide_from_other_processes()
        self._cgroup, self._oom_kills = Cgroup(shared_limits()), 0
        cgroup_files = self._cgroup.procs_files
        try:
            self._process = start_process(
                [
                    *(*prefix, *ISOLATED_PYTHON, str(MAIN), str(home), numbers, confinement),
                    *(",".join(map(str, cgroup_files)), namespaces),
                    *modules,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=clean_environment(),
                pass_fds=[*theirs, *cgroup_files],
            )
        except OSError as error:
            self._release()
            raise SandboxError(f"a worker could not be started: {error.strerror}") from None
        finally:
            self._cgroup.close_procs_files()
            for _, child_end in pairs:
                child_end.close()

    def _release(self) -> None:
        """Close our sockets, and end what is left in the cgroup."""
        for end in self.sockets:
            end.close()
        self._cgroup.close()

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def replace(self, slot: int, token: str) -> None:
        """Have a slot's worker killed; the next one there sends the token when it is ready."""
        assert self._process.stdin is not None
        with suppress(OSError):  # the fork server has exited, and its workers with it
            self._process.stdin.write(f"{slot} {token}\n".encode("ascii"))
            self._process.stdin.flush()

    def worker_error(self, code: int) -> WorkerEndedError:
        """The error of a worker that ended with an exit code."""
        before, self._oom_kills = self._oom_kills, self._cgroup.oom_kills()
        return WorkerEndedError(code, self._cgroup.oom_error if self._oom_kills > before else "")

    def start_error(self) -> str:
        """The last line of standard error, to which only a failed start can have written."""
        assert self._process.stderr is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        if self.alive:
            return "it closed its output"
        lines = self._process.stderr.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else str(WorkerEndedError(self._process.returncode))

    def close(self) -> None:
        """End the process, its workers and everything that they started."""
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            kill_process_group(self._process.pid)
            self._process.wait()
        self._process.stderr.close()
        self._release()


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

    def __init__(self, number: int, server: ForkServer) -> None:
        self._number, self._server = number, server
        self._ready, self._requests, self._token = False, 0, ""
        self.open()

    def open(self) -> None:
        """Serve the running event loop."""
        self.stream: ByteStream = open_socket_stream(self._server.sockets[self._number])
        self._replies = BufferedByteReceiveStream(self.stream)

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
        await self.stream.send(json.dumps(request).encode("ascii") + b"\n")
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
        self._replies = BufferedByteReceiveStream(self.stream)
        self._server.replace(self._number, self._token)


class WorkerPool:
    """At most ``size`` worker processes, started when first needed and kept until the pool closes.

    A pool that is started ahead outlives its ``async with`` block: it can be entered again, in
    another event loop. Then the same workers serve, with all that they remember by content.

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
        self._is_open = self._started_ahead = False

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
        self._server, self._slots = None, []

    async def __aenter__(self) -> Self:
        # New ones: they belong to an event loop.
        self._free, self._starting = anyio.Semaphore(self._size), anyio.Lock()
        self._is_open, self._idle = True, self._slots[::-1]
        for slot in self._slots:
            slot.open()
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
                self._slots = [_WorkerSlot(at, self._server) for at in range(self._size)]
                self._idle = self._slots[::-1]
            return self._idle.pop()

    async def _close_slots(self) -> None:
        with anyio.CancelScope(shield=True):
            for slot in self._slots:
                await slot.stream.aclose()
