"""``diffcourt approve`` and ``diffcourt deny``: a person's word on a call that waits."""

from __future__ import annotations

import argparse
import json
import sys

from orchestrator.cli.arguments import add_repo, add_run, amount
from orchestrator.cli.output import emit
from orchestrator.errors import EXIT_OK

HOURS = 24.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.description = (
        "Say yes or no to a call that cannot be undone, once, for exactly what was asked.\n"
        "Without CALL: list what waits. Then go on with `diffcourt resume RUN`."
    )
    add_run(parser)
    parser.add_argument("call", nargs="?", metavar="CALL", help="the call, as the list names it")
    add_repo(parser)
    parser.add_argument(
        "--hours",
        type=amount,
        default=HOURS,
        metavar="N",
        help="how long it holds; default: 24",
    )


def run(args: argparse.Namespace) -> int:
    """Record the decision, or list what waits."""
    from orchestrator.app.approvals import decide_call, pending_calls
    from orchestrator.report.terminal_escaping import escape_line, escape_unprintable

    if args.call is None:
        waiting = pending_calls(args.repo, args.run_id)
        for call, body in waiting.items():
            arguments = json.dumps(body["arguments"], sort_keys=True)
            emit(f"{escape_unprintable(call)}\n", sys.stdout)
            emit(
                f"    {body['agent']} asks for {body['tool']} {escape_line(arguments)}\n",
                sys.stdout,
            )
        if not waiting:
            emit("nothing waits for a person in this run\n", sys.stdout)
        return EXIT_OK
    approved = args.command == "approve"
    decision = decide_call(
        args.repo, args.run_id, args.call, approved=approved, seconds=args.hours * 3600
    )
    outcome = "approved" if decision.approved else "denied"
    who = escape_unprintable(decision.who)
    emit(f"{outcome} by {who}; go on with: diffcourt resume {args.run_id}\n", sys.stdout)
    return EXIT_OK
