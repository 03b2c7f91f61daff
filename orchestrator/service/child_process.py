"""Runs a child process for a job; it is stopped when the job is cancelled or lost."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from msgspec import Struct

from orchestrator.sandbox.process_start import CONFIGURED_PYTHON, start_asyncio_process

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
