"""``diffcourt cancel``: stop a run that another process is working on."""

import argparse
import sys

from orchestrator.cli.arguments import add_repo, add_run
from orchestrator.cli.output import emit
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_OK
from orchestrator.report.terminal_escaping import escape_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Stop a run, from any machine that reaches its store. Its agents and programs\n"
        "are stopped, what it has spent is settled, and its verdict says who cancelled\n"
        "it. A cancelled run is not resumed.\n"
        "Exit code 1: it ended before it could be cancelled; 3: it has not stopped yet."
    )
    add_run(parser)
    parser.add_argument("--why", default="", metavar="TEXT", help="the reason, for the verdict")
    add_repo(parser)


def run(args: argparse.Namespace) -> int:
    """Ask the run to stop, and say whether it has."""
    from orchestrator.app.cancellation import cancel_run

    done = cancel_run(args.repo, args.run_id, args.why)
    who = escape_line(done.request.who)
    say, code = {
        "cancelled": (f"was cancelled by {who}", EXIT_OK),
        "ended": ("ended before it could be cancelled", EXIT_GATED),
        "running": (f"was told by {who} to stop, and has not yet", EXIT_INCOMPLETE),
    }[done.outcome]
    first = "" if done.own else f"{who} was faster: "
    emit(f"{first}run {done.run_id} {say}; see: diffcourt show {done.run_id}\n", sys.stdout)
    return code
