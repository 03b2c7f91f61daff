"""A worker's child processes: their requests, how they run, and how their exit codes answer.

A child gets its request on standard input, dies with its worker, and is stopped when the job is
cancelled or lost.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from enum import IntEnum
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from orchestrator.errors import EXIT_INCOMPLETE, DiffcourtError
from orchestrator.report.terminal_escaping import emit_line
from orchestrator.sandbox.kernel_calls import die_with_parent
from orchestrator.sandbox.process_start import CONFIGURED_PYTHON, start_asyncio_process


class Left(IntEnum):
    """What a command leaves to the worker.

    Review the head again; as if it were the first; review no further push; post.
    """

    REVIEW, FULL, PAUSE, POST = 10, 11, 12, 13


MOVED = 14
"""Of a post: the request is closed or has a newer head, so nothing was posted."""


class ChildRequest(Struct, frozen=True, kw_only=True):
    """The request of every child, as JSON on standard input.

    Attributes:
        worker: process id of the worker; if it dies, the child is killed.
        repo: path of the bare repository.
    """

    worker: int
    repo: str


class ReviewRequest(ChildRequest, frozen=True, kw_only=True):
    """Review a change.

    Attributes:
        options: what to review and how, as ``ReviewOptions.as_meta`` makes them.
        lease_seconds: how long to wait for another worker's process that still writes the run.
    """

    run_id: str
    options: dict[str, Any]
    lease_seconds: float = 40.0


class ForgeRequest(ChildRequest, frozen=True, kw_only=True):
    """Write to a pull or merge request, with a token that may."""

    run_id: str
    kind: str
    url: str
    project: str
    number: int
    token: str


class PostRequest(ForgeRequest, frozen=True, kw_only=True):
    """Post a verdict.

    Attributes:
        head: the commit id of the verdict; ``run_id`` is of it, and empty if there is none.
        problem: why there is no verdict, for the check; empty if there is one.
    """

    head: str
    problem: str = ""


class CommandRequest(ForgeRequest, frozen=True, kw_only=True):
    """Answer a command in a comment.

    Attributes:
        run_head: the head of the newest run; both are empty before the first.
        is_running: whether that run has not ended.
    """

    run_head: str
    is_running: bool
    comment: int
    body: str


T = TypeVar("T", bound=ChildRequest)


def run_as_child(kind: type[T], work: Callable[[T], int]) -> int:
    """Perform the request on standard input; returns the exit code.

    Args:
        work: performs it; its error is printed to stderr and decides the exit code.
    """
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=kind)
    die_with_parent()
    if os.getppid() != request.worker:  # the worker had died before the kernel was asked
        return EXIT_INCOMPLETE
    try:
        return work(request)
    except DiffcourtError as error:
        emit_line(str(error), sys.stderr)
        return error.exit_code


END_SECONDS = 1.5
"""Between asking a child to end and killing it."""

KEPT_BYTES = 4000


class ChildExit(Struct, frozen=True):
    """The end of a child.

    Attributes:
        code: its exit code; negative: the signal that killed it.
        line: the last line that it wrote to stderr.
    """

    code: int
    line: str


class JobLost(Exception):
    """The job belongs to another worker now."""


async def run_child(
    module: str,
    request: bytes,
    environment: Mapping[str, str],
    *,
    still_own: Callable[[], Awaitable[bool]],
    ask_seconds: float,
) -> ChildExit:
    """Run a module in a new process and wait for its end.

    Args:
        module: run with ``python -P -m``.
        request: its standard input.
        environment: all of its variables, so that those of Python are the operator's.
        still_own: whether this worker still owns the job; called periodically.

    Raises:
        JobLost: it does not; the child was stopped.
    """
    child = await start_asyncio_process(
        (*CONFIGURED_PYTHON, "-m", module),
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    ending = asyncio.create_task(child.communicate(request))
    try:
        while not ending.done():
            await asyncio.wait({ending}, timeout=ask_seconds)
            if not ending.done() and not await still_own():
                raise JobLost
    finally:
        if not ending.done():
            await asyncio.shield(_end(child, ending))
    _, stderr = ending.result()
    lines = stderr[-KEPT_BYTES:].decode("utf-8", "replace").strip().splitlines()
    assert child.returncode is not None
    return ChildExit(child.returncode, lines[-1] if lines else "")


async def _end(child: asyncio.subprocess.Process, ending: asyncio.Task[object]) -> None:
    """Ask the child to end, then kill what is left of its session."""
    with suppress(ProcessLookupError):  # it has ended, but not all processes that it started
        child.terminate()
    await asyncio.wait({ending}, timeout=END_SECONDS)
    if not ending.done():
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    await asyncio.wait({ending})
