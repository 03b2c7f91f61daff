"""What the child processes of a worker share: a request on standard input, and an end with it."""

import os
import sys
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from orchestrator.errors import EXIT_INCOMPLETE, DiffcourtError
from orchestrator.sandbox.kernel_calls import die_with_parent


class ChildRequest(Struct, frozen=True, kw_only=True):
    """What every child is told.

    Attributes:
        worker: process id of the worker, with which the child ends.
        repo: path of the bare repository.
    """

    worker: int
    repo: str


T = TypeVar("T", bound=ChildRequest)


def run_as_child(kind: type[T], work: Callable[[T], int]) -> int:
    """Do what standard input asks for; returns the exit code.

    Args:
        work: its error's line goes to stderr, and its error's exit code is returned.
    """
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=kind)
    die_with_parent()
    if os.getppid() != request.worker:  # it had ended before the kernel was asked
        return EXIT_INCOMPLETE
    try:
        return work(request)
    except DiffcourtError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
