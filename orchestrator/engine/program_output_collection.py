"""Collects what programs print during a tool call, for an ``OutputStore``."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import Struct


class ProgramOutput(Struct, frozen=True):
    """One run of a program.

    Attributes:
        code: its exit status, or the negative number of the signal that ended it; None if it was
            stopped.
    """

    name: str
    code: int | None
    stdout: bytes
    stderr: bytes


def keep_ends(data: bytes, most: int) -> bytes:
    """Output of which more than ``most`` bytes have only their beginning and end."""
    half = most // 2  # a count of what is left out would miss what the sandbox has left out
    note = f"\n[all but the first and last {half} bytes left out]\n".encode()
    return data[:half] + note + data[-half:] if len(data) > most else data


_collected: ContextVar[list[ProgramOutput] | None] = ContextVar("_collected", default=None)


def record_program(output: ProgramOutput) -> None:
    """Add a program's output to the tool call that runs it, if any."""
    collected = _collected.get()
    if collected is not None:
        collected.append(output)


@contextmanager
def collect_programs() -> Iterator[list[ProgramOutput]]:
    """Collect what programs print within this context, in this task and those it starts."""
    collected: list[ProgramOutput] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)
