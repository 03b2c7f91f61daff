"""Shared by a worker's child processes: a request on standard input, and death with the worker."""

import os
import sys
from collections.abc import Callable
from typing import TypeVar

import msgspec

from orchestrator.errors import EXIT_INCOMPLETE, DiffcourtError
from orchestrator.report.terminal_escaping import emit_line
from orchestrator.sandbox.kernel_calls import die_with_parent
from orchestrator.service.child_requests import ChildRequest

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
