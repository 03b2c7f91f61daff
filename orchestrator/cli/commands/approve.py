"""``diffcourt approve`` and ``diffcourt deny``: decide a pending irreversible call."""

import argparse
import json
import sys

from orchestrator.cli.arguments import add_repo, add_run, amount
from orchestrator.cli.output import emit
from orchestrator.errors import EXIT_OK
from orchestrator.report.terminal_escaping import escape_line, escape_unprintable

HOURS = 24.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Approve or deny a pending irreversible call, once, with exactly its arguments.\n"
        "Without CALL: list the pending calls. Then continue with `diffcourt resume RUN`."
    )
    add_run(parser)
    parser.add_argument("call", nargs="?", metavar="CALL", help="the name of the call, as listed")
    add_repo(parser)
    parser.add_argument(
        "--hours",
        type=amount,
        default=HOURS,
        metavar="N",
        help="hours that the decision is valid; default: 24",
    )


def run(args: argparse.Namespace) -> int:
    """Record the decision, or list the pending calls."""
    from orchestrator.app.approvals import decide_call, pending_calls

    if args.call is None:
        pending = pending_calls(args.repo, args.run_id)
        for call, body in pending.items():
            arguments = json.dumps(body["arguments"], sort_keys=True)
            emit(f"{escape_unprintable(call)}\n", sys.stdout)
            emit(
                f"    {body['agent']} requests {body['tool']} {escape_line(arguments)}\n",
                sys.stdout,
            )
        if not pending:
            emit("this run has no pending calls\n", sys.stdout)
        return EXIT_OK
    approved = args.command == "approve"
    decision = decide_call(
        args.repo, args.run_id, args.call, approved=approved, seconds=args.hours * 3600
    )
    outcome = "approved" if decision.approved else "denied"
    who = escape_unprintable(decision.who)
    emit(f"{outcome} by {who}; continue with: diffcourt resume {args.run_id}\n", sys.stdout)
    return EXIT_OK
