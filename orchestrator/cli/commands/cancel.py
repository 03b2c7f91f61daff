"""``diffcourt cancel``: stop a run of another process."""

import argparse
import sys

from orchestrator.cli.arguments import add_repo, add_run
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_OK
from orchestrator.report.terminal_escaping import emit_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_run(parser)
    parser.add_argument("--why", default="")
    add_repo(parser)


def run(args: argparse.Namespace) -> int:
    """Ask the run to stop, and say whether it has."""
    from orchestrator.app.runs.cancellation import cancel_run

    done = cancel_run(args.repo, args.run_id, args.why)
    who = done.request.who
    say, code = {
        "cancelled": (f"was cancelled by {who}", EXIT_OK),
        "ended": ("ended before it could be cancelled", EXIT_GATED),
        "running": (f"was asked by {who} to stop, and has not stopped yet", EXIT_INCOMPLETE),
    }[done.outcome]
    first = "" if done.own else f"{who} asked first: "
    emit_line(f"{first}run {done.run_id} {say}; see: diffcourt show {done.run_id}", sys.stdout)
    return code
