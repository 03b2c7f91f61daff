"""Run one program with typed argv, an empty environment, limits and a timeout.

The whole process group is ended when the call ends, however it ends.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, Process

from orchestrator.engine.tasks import task_group
from orchestrator.errors import SandboxError

SAFE_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one program.

    Attributes:
        seconds: wall time.
        memory: bytes of address space, 0 for none.
        output: bytes of standard output that are kept; more is an error, never a silent cut.
        file_size: bytes of the largest file it may write.
    """

    seconds: float = 60.0
    memory: int = 4 << 30
    output: int = 64 << 20
    file_size: int = 256 << 20


@dataclass(frozen=True, slots=True)
class Completed:
    """How a program ended."""

    code: int
    stdout: bytes
    stderr: bytes


def clean_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a program is given of an environment: nothing of ours."""
    return {"PATH": SAFE_PATH, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", **(more or {})}


def limit(pid: int, limits: Limits) -> None:
    """Bound an already started child: no Python runs between fork and exec."""
    for what, value in (
        (resource.RLIMIT_AS, limits.memory),
        (resource.RLIMIT_FSIZE, limits.file_size),
        (resource.RLIMIT_CORE, 0),
    ):
        if (value or what == resource.RLIMIT_CORE) and hasattr(resource, "prlimit"):
            try:
                resource.prlimit(pid, what, (value, value))
            except (ProcessLookupError, PermissionError):
                continue  # it has already ended, or already has a lower bound


def kill_group(process: Process | subprocess.Popen[bytes]) -> None:
    """End a program and everything it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


async def start(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    limits: Limits = Limits(),
) -> Process:
    """Start a program in a process group of its own, with nothing of our environment.

    Raises:
        SandboxError: it could not be started.
    """
    try:
        process = await anyio.open_process(
            list(argv),
            cwd=cwd,
            env=clean_environment(env),
            start_new_session=True,
            stdin=subprocess.PIPE,
        )
    except OSError as fault:
        raise SandboxError(f"{Path(argv[0]).name} could not be started: {fault.strerror}") from None
    limit(process.pid, limits)
    return process


async def run(
    argv: Sequence[str],
    *,
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
    process = await start(argv, cwd=cwd, env=env, limits=limits)
    out, err = bytearray(), bytearray()

    async def feed() -> None:
        assert process.stdin is not None
        try:
            if stdin:
                await process.stdin.send(stdin)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # it stopped reading; its exit code says why
        finally:
            await process.stdin.aclose()

    async def drain(stream: ByteReceiveStream | None, into: bytearray, cap: int) -> None:
        assert stream is not None
        async for chunk in stream:
            into += chunk
            if len(into) > cap:
                raise SandboxError(f"{name} printed more than {cap} bytes")

    try:
        with anyio.fail_after(limits.seconds):
            async with task_group() as group:
                group.start_soon(feed)
                group.start_soon(drain, process.stdout, out, limits.output)
                group.start_soon(drain, process.stderr, err, limits.output)
            code = await process.wait()
    except TimeoutError:
        raise SandboxError(f"{name} ran longer than {limits.seconds:g} s") from None
    finally:
        with anyio.CancelScope(shield=True):
            kill_group(process)
            await process.aclose()
    return Completed(code, bytes(out), bytes(err))
