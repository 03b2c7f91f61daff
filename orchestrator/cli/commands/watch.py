"""``diffcourt watch``: review the work tree whenever it changes."""

from __future__ import annotations

import argparse
import json
import select
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import EXIT_OK
from orchestrator.report.terminal_escaping import emit

if TYPE_CHECKING:
    from typing import TextIO


def run(args: argparse.Namespace) -> int:
    """Print a line of JSON for each document; with ``--once``, return the verdict's exit code."""
    from orchestrator.app.types import ReviewOptions
    from orchestrator.app.watching import watch

    options = ReviewOptions(repo=args.repo or Path(), base=args.base, paths=args.paths)
    has_reader = partial(_has_reader, sys.stdout, args.once)
    code = EXIT_OK
    for document in watch(options, once=args.once, has_reader=has_reader):
        if not has_reader():
            break
        emit(f"{json.dumps(document)}\n", sys.stdout, data=True)
        code = document.get("exit_code", code)
    return code if args.once else EXIT_OK


def _has_reader(stream: TextIO | None, once: bool) -> bool:
    """Whether to go on: once for the exit code, else while the other end of a pipe is open."""
    if stream is None or once:
        return once
    poll = select.poll()
    with suppress(OSError, ValueError):  # a stream of a calling program has no descriptor
        poll.register(stream.fileno(), 0)
    return not any(events & select.POLLERR for _, events in poll.poll(0))
