"""What goes wrong, as one line on stderr and an exit code. Nobody is shown a traceback."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from orchestrator.cli.output import discard, flush
from orchestrator.errors import (
    EXIT_INCOMPLETE,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    DiffcourtError,
    OutputError,
)
from orchestrator.report.terminal_escaping import escape_unprintable, neutralize_ci_commands

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


def report_faults(command: Callable[[], int]) -> int:
    """Run a command to its exit code, whatever happens in it.

    ``DIFFCOURT_DEBUG=1`` adds the traceback of an internal error.
    """
    for stream in (sys.stdout, sys.stderr):
        _tolerate(stream)
    try:
        code = _run(command)
    except DiffcourtError as fault:
        _say(str(fault))
        code = fault.exit_code
    except Exception as fault:  # the last line of defense, and it fails closed
        code = _machine(fault) or _internal(fault)
    except (KeyboardInterrupt, BaseExceptionGroup):  # a group, when Ctrl-C fell into a task group
        _say("interrupted; what can be continued is listed by: diffcourt runs")
        code = EXIT_INTERRUPTED
    return code


def _tolerate(stream: TextIO | None) -> None:
    """Have a stream that is not UTF-8 print escapes where it would crash."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is None:
        return
    try:
        reconfigure(errors="backslashreplace")
    except BrokenPipeError:
        discard(stream)  # it flushes first, and nobody reads any more
    except (OSError, ValueError):
        return  # a full disk says so again when the result is written


def _run(command: Callable[[], int]) -> int:
    try:
        code = command()
    except SystemExit as stop:  # argparse: its message is already out
        code = stop.code if isinstance(stop.code, int) else EXIT_USAGE
    flush(sys.stdout)
    # What a reader that left did not take would make the interpreter change our exit code.
    with suppress(OutputError):
        flush(sys.stderr)
    return code


def _machine(fault: Exception) -> int | None:
    """Say what the machine lacks; None when the fault is ours."""
    if isinstance(fault, OSError) and fault.errno in _NO_ROOM:
        where = f" for {fault.filename}" if fault.filename else ""
        _say(f"{fault.strerror}{where}; make room, then: diffcourt resume latest")
        return EXIT_INCOMPLETE
    if isinstance(fault, FileNotFoundError) and _is_nowhere():
        _say("the current folder is gone; change to one that is there")
        return EXIT_USAGE
    return None


def _is_nowhere() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _internal(fault: Exception) -> int:
    if os.environ.get("DIFFCOURT_DEBUG") == "1":
        sys.stderr.write(_without_secrets("".join(traceback.format_exception(fault))))
    _say(
        f"internal error, please report it: {type(fault).__name__}: {fault} "
        "(DIFFCOURT_DEBUG=1 shows where)"
    )
    return EXIT_INCOMPLETE


def _say(text: str) -> None:
    try:
        line = neutralize_ci_commands(f"diffcourt: {escape_unprintable(_without_secrets(text))}")
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        discard(sys.stderr)  # nobody listens; the exit code still tells


def _without_secrets(text: str) -> str:
    from orchestrator.app.own_secrets import make_redactor  # needed only when something went wrong

    return make_redactor(os.environ)(text)
