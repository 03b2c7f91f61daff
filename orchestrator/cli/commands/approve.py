"""``diffcourt approve`` and ``diffcourt deny``: decide a pending call that needs approval."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from orchestrator.cli.arguments import add_repo, add_run, amount
from orchestrator.errors import EXIT_OK, resume_command
from orchestrator.report.terminal_escaping import emit, emit_line

if TYPE_CHECKING:
    from orchestrator.app.human_decisions.approvals import PendingCall

HOURS = 24.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_run(parser, default="latest")
    parser.add_argument("call", nargs="?")
    add_repo(parser)
    parser.add_argument("--hours", type=amount, default=HOURS)
    parser.add_argument("--reason", default="")


def run(args: argparse.Namespace) -> int:
    """Record the decision, or list the pending calls."""
    from orchestrator.app.human_decisions.approvals import decide_call, pending_calls

    if args.call is None:
        pending = pending_calls(args.repo, args.run_id)
        for pending_call in pending:
            emit_line(f"{pending_call.approval}  {_describe(pending_call)}", sys.stdout)
            emit_line(f"    run {pending_call.run_id}, call {pending_call.call}", sys.stdout)
        if not pending:
            emit("this run has no pending calls\n", sys.stdout)
        return EXIT_OK
    call, decision = decide_call(
        args.repo,
        args.run_id,
        args.call,
        approved=args.command == "approve",
        shown=_describe,
        seconds=args.hours * 3600,
        reason=args.reason,
    )
    outcome = "approved" if decision.approved else "denied"
    emit_line(f"{outcome} by {decision.who} in run {call.run_id}: {_describe(call)}", sys.stdout)
    emit_line(f"continue with: {resume_command(call.run_id, args.repo)}", sys.stdout)
    return EXIT_OK


def _describe(pending: PendingCall) -> str:
    """Who requests which tool with which arguments, in one line."""
    request = pending.request
    arguments = json.dumps(request["arguments"], sort_keys=True)
    return f"{request['agent']} requests {request['tool']} {arguments}"
