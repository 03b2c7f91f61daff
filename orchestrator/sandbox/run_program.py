"""Run one program with typed argv, an empty environment, a box, limits and a timeout.

Every program is started by the warden, confined before its first instruction. It and everything
that it started are ended when the call ends, however it ends.
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, Process
from msgspec import Struct

from orchestrator.engine.task_group import task_group
from orchestrator.errors import SandboxError
from orchestrator.sandbox.cgroups.cgroup import Group
from orchestrator.sandbox.launcher import SAFE_PATH
from orchestrator.sandbox.pipe_streams import PipeReader, PipeWriter
from orchestrator.sandbox.process_sandbox import SANDBOX
from orchestrator.sandbox.program_policy import Box, Limits


class Completed(Struct, frozen=True):
    """How a program ended."""

    code: int
    stdout: bytes
    stderr: bytes


def clean_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a program is given of an environment: nothing of ours."""
    return {"PATH": SAFE_PATH, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", **(more or {})}


def find(name: str, path: str) -> str | None:
    """Where a program is, on a search path written as in ``PATH``; None when it is not there.

    Relative entries do not count: they would find programs in the folder we happen to stand in.
    """
    entries = (entry for entry in path.split(os.pathsep) if os.path.isabs(entry))
    return shutil.which(name, path=os.pathsep.join(entries))


class Running:
    """A program that the warden started.

    Attributes:
        stdin, stdout, stderr: its streams.
    """

    def __init__(
        self, name: str, said: socket.socket, streams: tuple[int, int, int], group: Group
    ) -> None:
        self._name, self._group, self._killed = name, group, group.killed()
        self.stdin = PipeWriter(streams[0])
        self.stdout, self.stderr = PipeReader(streams[1]), PipeReader(streams[2])
        self._said, self._heard = said, b""

    async def _next_line(self) -> str:
        """What the warden says next; empty when it has nothing more to say."""
        while b"\n" not in self._heard:
            try:
                more = self._said.recv(4096)
            except BlockingIOError:
                await anyio.wait_readable(self._said)
                continue
            except OSError:
                more = b""
            if not more:
                return ""
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode("utf-8", "replace")

    async def wait(self) -> int:
        """Its exit code, or the negative number of the signal that ended it.

        Raises:
            SandboxError: it could not be started or not be confined, the warden is gone, or the
                kernel ended something for want of memory while it ran: then its work is not whole.
        """
        word, _, rest = (await self._next_line()).partition(" ")
        if word != "ended":
            why = rest or "the sandbox's warden is gone"
            raise SandboxError(f"{self._name} could not be started: {why}")
        if self._group.killed() > self._killed:
            raise SandboxError(f"{self._name}: {self._group.excess()}")
        return int(rest)

    def kill(self) -> None:
        """End it and everything it started."""
        with suppress(OSError):
            self._said.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """End it, wait until it is gone, and close its streams."""
        with anyio.CancelScope(shield=True):
            self.kill()
            while await self._next_line():
                pass
            self._said.close()
            for stream in (self.stdin, self.stdout, self.stderr):
                await stream.aclose()


def start(
    argv: Sequence[str],
    *,
    box: Box,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    limits: Limits = Limits(),
) -> Running:
    """Have a program started in its box; close what is returned. That it failed, ``wait`` says.

    Args:
        argv: the program's absolute path, and its arguments.
        box: what it may touch.
        cwd: where it stands; ``/`` when left out.

    Raises:
        SandboxError: there is no warden to start it.
    """
    request = _request(argv, box, cwd, clean_environment(env), limits)
    (their_in, our_in), (our_out, their_out), (our_err, their_err) = (os.pipe() for _ in range(3))
    theirs = (their_in, their_out, their_err)
    try:
        warden = SANDBOX.warden(box, argv[0])
        said = warden.send(request, theirs)
    except BaseException:
        for number in (our_in, our_out, our_err):
            os.close(number)
        raise
    finally:
        for number in theirs:
            os.close(number)
    return Running(Path(argv[0]).name, said, (our_in, our_out, our_err), warden.group)


def _request(
    argv: Sequence[str], box: Box, cwd: Path | None, env: Mapping[str, str], limits: Limits
) -> dict[str, Any]:
    """What the warden is told; it knows none of our types."""
    bounds = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, limits.files),
        *([(resource.RLIMIT_AS, limits.memory)] if limits.memory else []),
        *([(resource.RLIMIT_FSIZE, limits.file_size)] if limits.file_size else []),
    ]
    return {
        "argv": [os.fsencode(word) for word in argv],
        "env": {os.fsencode(key): os.fsencode(value) for key, value in env.items()},
        "cwd": os.fsencode(cwd or "/"),
        "limits": bounds,
        "processes": limits.processes,
        "box": _on_the_wire(box, argv[0]),
    }


def _on_the_wire(box: Box, program: str) -> dict[str, Any]:
    return {
        "reads": [os.fspath(path) for path in box.reads],
        "writes": [os.fspath(path) for path in box.writes],
        "program": program,
    }


async def run(
    argv: Sequence[str],
    *,
    box: Box,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    limits: Limits = Limits(),
) -> Completed:
    """Run a program to its end and return what it printed; the exit code is the caller's to judge.

    Raises:
        SandboxError: it could not be started, ran out of time, or printed more than allowed.
    """
    name = Path(argv[0]).name
    out, err = bytearray(), bytearray()

    async def feed() -> None:
        try:
            if stdin:
                await running.stdin.send(stdin)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # it stopped reading; its exit code says why
        finally:
            await running.stdin.aclose()

    async def drain(stream: ByteReceiveStream, into: bytearray, cap: int) -> None:
        async for chunk in stream:
            into += chunk
            if len(into) > cap:
                raise SandboxError(f"{name} printed more than {cap} bytes")

    running = start(argv, box=box, cwd=cwd, env=env, limits=limits)
    try:
        with anyio.fail_after(limits.seconds):
            async with task_group() as group:
                group.start_soon(feed)
                group.start_soon(drain, running.stdout, out, limits.output)
                group.start_soon(drain, running.stderr, err, limits.output)
                code = await running.wait()
    except TimeoutError:
        raise SandboxError(f"{name} ran longer than {limits.seconds:g} s") from None
    finally:
        await running.aclose()
    return Completed(code, bytes(out), bytes(err))


# --- programs that are ours to trust --------------------------------------------------------------


async def start_unconfined(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Process:
    """Start a program that a person configured, with nothing of our environment, in no box.

    Raises:
        SandboxError: it could not be started.
    """
    try:
        return await anyio.open_process(
            list(argv),
            cwd=cwd,
            env=clean_environment(env),
            start_new_session=True,
            stdin=subprocess.PIPE,
        )
    except OSError as fault:
        raise SandboxError(f"{Path(argv[0]).name} could not be started: {fault.strerror}") from None
