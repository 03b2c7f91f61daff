"""Report errors as one line on stderr and an exit code, without a traceback."""

import errno
import os
import queue
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import TextIO

from orchestrator.errors import (
    EXIT_INCOMPLETE,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    DiffcourtError,
    OutputError,
)
from orchestrator.report.terminal_escaping import discard, emit, emit_line

_OUT_OF_RESOURCES = {errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


@contextmanager
def report_errors(*, resumable: bool) -> Iterator[SimpleNamespace]:
    """Report every exception of a command as one line.

    Yields an object whose ``code`` is the exit code: the command sets it, and an exception does.

    Args:
        resumable: if interrupted, the command may leave a run that can be resumed.

    ``DIFFCOURT_DEBUG=1`` adds the traceback of an internal error.
    """
    for stream in (sys.stdout, sys.stderr):
        _escape_unencodable(stream)
    outcome = SimpleNamespace(code=0)
    try:
        try:
            yield outcome
        except SystemExit as stop:  # argparse: its message is already out
            outcome.code = stop.code if isinstance(stop.code, int) else EXIT_USAGE
        emit("", sys.stdout)  # flushes it
        # Output that a closed pipe did not take would make the interpreter change our exit code.
        with suppress(OutputError):
            emit("", sys.stderr)
    except DiffcourtError as error:
        _print_error(str(error))
        outcome.code = error.exit_code
    except Exception as error:  # an internal error never passes as success
        outcome.code = _report_os_error(error) or _report_internal_error(error)
    except (KeyboardInterrupt, BaseExceptionGroup):  # a group, when Ctrl-C fell into a task group
        next_step = "; list the runs that can be resumed with: diffcourt runs"
        _print_error(f"interrupted{next_step if resumable else ''}")
        for thread in threading.enumerate():
            # Exit waits for it, and the interrupt may have cut off what ends it.
            if thread.name == "AnyIO worker thread":
                with suppress(queue.Full):  # it was told already
                    thread.stop()  # type: ignore[attr-defined]
        outcome.code = EXIT_INTERRUPTED


def _escape_unencodable(stream: TextIO | None) -> None:
    """Let a stream that is not UTF-8 print escapes in place of raising."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is None:
        return
    try:
        reconfigure(errors="backslashreplace")
    except BrokenPipeError:
        discard(stream)  # it flushes first, and the reader of the pipe has exited
    except (OSError, ValueError):
        return  # a full disk is reported when the result is written


def _report_os_error(error: Exception) -> int | None:
    """Report an error of the operating system; None if it is no such error."""
    if isinstance(error, OSError) and error.errno in _OUT_OF_RESOURCES:
        where = f" for {error.filename}" if error.filename else ""
        _print_error(
            f"{error.strerror}{where}; free some space or memory, then: diffcourt resume latest"
        )
        return EXIT_INCOMPLETE
    if isinstance(error, FileNotFoundError) and _cwd_is_gone():
        _print_error("the current directory no longer exists; change to another")
        return EXIT_USAGE
    return None


def _cwd_is_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _report_internal_error(error: Exception) -> int:
    if os.environ.get("DIFFCOURT_DEBUG") == "1":
        emit(_without_secrets("".join(traceback.format_exception(error))), sys.stderr)
    _print_error(
        f"internal error, please report it: {type(error).__name__}: {error} "
        "(DIFFCOURT_DEBUG=1 shows where)"
    )
    return EXIT_INCOMPLETE


def _print_error(text: str) -> None:
    try:
        emit_line(f"diffcourt: {_without_secrets(text)}", sys.stderr)
    except (OutputError, ValueError):
        discard(sys.stderr)  # the exit code is all that is left


def _without_secrets(text: str) -> str:
    from orchestrator.app.process_secrets import make_redactor  # only errors need it

    return make_redactor(os.environ)(text)
