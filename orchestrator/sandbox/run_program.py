"""Run one program with an argument list, an empty environment, permissions, limits and a timeout.

Every program is started by the launcher, confined before its first instruction. It and everything
that it started are killed when the call ends, however it ends. The ends of its pipes are streams.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.stapled import StapledByteStream
from msgspec import Struct

from orchestrator.engine.program_output_collection import ProgramOutput, record_program
from orchestrator.engine.task_groups import task_group
from orchestrator.errors import SandboxError
from orchestrator.program_search import SAFE_PATH
from orchestrator.sandbox.cgroups import Cgroup
from orchestrator.sandbox.kernel_calls import hide_from_other_processes
from orchestrator.sandbox.level_and_launchers import SANDBOX
from orchestrator.sandbox.process_confinement import program_files
from orchestrator.sandbox.process_start import open_process
from orchestrator.sandbox.program_permissions import Permissions, ResourceLimits


class CompletedProgram(Struct, frozen=True):
    """Exit code and output of a program that has ended."""

    code: int
    stdout: bytes
    stderr: bytes


def clean_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a program: nothing of ours, and ``more``."""
    return {"PATH": SAFE_PATH, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", **(more or {})}


class RunningProgram:
    """A program that the launcher started."""

    def __init__(
        self, name: str, status: socket.socket, streams: tuple[int, int, int], cgroup: Cgroup
    ) -> None:
        self._name, self._cgroup, self._oom_kills = name, cgroup, cgroup.oom_kills()
        self.stdin = PipeWriter(streams[0])
        self.stdout, self.stderr = PipeReader(streams[1]), PipeReader(streams[2])
        self._status, self._unread = status, b""

    async def _next_line(self) -> str:
        """The launcher's next status line; empty at the end."""
        while b"\n" not in self._unread:
            try:
                more = self._status.recv(4096)
            except BlockingIOError:
                await anyio.wait_readable(self._status)
                continue
            except OSError:
                more = b""
            if not more:
                return ""
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode("utf-8", "replace")

    async def wait(self) -> int:
        """Its exit code, or the negative number of the signal that ended it.

        Raises:
            SandboxError: it could not be started or confined, the launcher has exited, or the
                kernel killed a process for lack of memory: its output may be incomplete.
        """
        status, _, rest = (await self._next_line()).partition(" ")
        if status != "ended":
            reason = rest or "the sandbox's launcher process has exited"
            raise SandboxError(f"{self._name} could not be started: {reason}")
        if self._cgroup.oom_kills() > self._oom_kills:
            raise SandboxError(f"{self._name}: {self._cgroup.oom_error}")
        return int(rest)

    def kill(self) -> None:
        """Kill it and everything it started."""
        with suppress(OSError):
            self._status.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """Kill it, wait until it has ended, and close its streams."""
        with anyio.CancelScope(shield=True):
            self.kill()
            while await self._next_line():
                pass
            self._status.close()
            for stream in (self.stdin, self.stdout, self.stderr):
                await stream.aclose()


def start(
    argv: Sequence[str],
    *,
    permissions: Permissions,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    limits: ResourceLimits = ResourceLimits(),
) -> RunningProgram:
    """Have a program started; the caller closes it. ``wait`` raises when the start failed.

    Args:
        argv: the program's absolute path, and its arguments.
        cwd: its working directory; ``/`` by default.
    """
    environment = clean_environment(env)
    request = {
        "argv": [os.fsencode(argument) for argument in argv],
        "env": {os.fsencode(key): os.fsencode(value) for key, value in environment.items()},
        "cwd": os.fsencode(cwd or "/"),
        "limits": [*limits.per_process.items()],
        "processes": limits.processes,
        "permissions": {
            "reads": [os.fspath(path) for path in permissions.reads],
            "writes": [os.fspath(path) for path in permissions.writes],
            "executes": [os.fspath(path) for path in permissions.executes],
            "program": program_files(argv[0]),
        },
    }
    (their_in, our_in), (our_out, their_out), (our_err, their_err) = (os.pipe() for _ in range(3))
    theirs = (their_in, their_out, their_err)
    try:
        launcher = SANDBOX.launcher_for(permissions, argv[0])
        status = launcher.send(request, theirs)
    except BaseException:
        for number in (our_in, our_out, our_err):
            os.close(number)
        raise
    finally:
        for number in theirs:
            os.close(number)
    return RunningProgram(Path(argv[0]).name, status, (our_in, our_out, our_err), launcher.cgroup)


async def run(
    argv: Sequence[str],
    *,
    permissions: Permissions,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    limits: ResourceLimits = ResourceLimits(),
    recorded: bool = False,
) -> CompletedProgram:
    """Run a program to its end; the caller checks the exit code.

    Args:
        recorded: its output is kept with the tool call that runs it.

    Raises:
        SandboxError: it could not be started, ran out of time, or printed more than allowed.
    """
    name = Path(argv[0]).name
    out, err = bytearray(), bytearray()
    code: int | None = None

    async def feed() -> None:
        try:
            if stdin:
                await running.stdin.send(stdin)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # it stopped reading; its exit code says why
        finally:
            await running.stdin.aclose()

    async def drain(stream: ByteReceiveStream, into: bytearray, max_bytes: int) -> None:
        async for chunk in stream:
            into += chunk
            if len(into) > max_bytes:
                raise SandboxError(f"{name} printed more than {max_bytes} bytes")

    running = start(argv, permissions=permissions, cwd=cwd, env=env, limits=limits)
    try:
        with anyio.fail_after(limits.seconds):
            async with task_group() as tasks:
                tasks.start_soon(feed)
                tasks.start_soon(drain, running.stdout, out, limits.output)
                tasks.start_soon(drain, running.stderr, err, limits.output)
                code = await running.wait()
    except TimeoutError:
        raise SandboxError(f"{name} ran longer than {limits.seconds:g} s") from None
    finally:
        await running.aclose()
        if recorded:
            record_program(ProgramOutput(name, code, bytes(out), bytes(err)))
    return CompletedProgram(code, bytes(out), bytes(err))


async def start_unconfined(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Process:
    """Start a program that a person configured, without our environment, not confined."""
    hide_from_other_processes()
    try:
        return await open_process(argv, cwd=cwd, env=clean_environment(env))
    except OSError as error:
        raise SandboxError(f"{Path(argv[0]).name} could not be started: {error.strerror}") from None


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
