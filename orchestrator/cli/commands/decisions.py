"""What a person decides: ``approve``, ``deny``, ``waive``, ``dismiss``, ``override`` and others."""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import TYPE_CHECKING

from orchestrator.cli.output import OutputTarget
from orchestrator.errors import EXIT_OK, InputError, resume_command
from orchestrator.report.terminal_escaping import emit, emit_line

if TYPE_CHECKING:
    from orchestrator.app.human_decisions.approvals import PendingCall

_FINDING = re.compile(r"F\d+")
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


def run_waive(args: argparse.Namespace) -> int:
    """Append the waiver and print it."""
    from orchestrator.app.catalog_listing import list_rules
    from orchestrator.app.memory.waiver_files import (
        NAME,
        add_waiver,
        make_waiver,
        waiver_of_finding,
    )
    from orchestrator.app.runs.stored_runs import load_verdict

    comment, reason = "", (args.why, args.by, args.until)
    if _FINDING.fullmatch(args.target):
        if args.paths:
            raise InputError("--path is for a rule or a fingerprint; a finding has its own path")
        verdict = load_verdict(args.repo, args.run_id)
        waiver, comment = waiver_of_finding(verdict, args.target, *reason)
    elif _FINGERPRINT.fullmatch(args.target):
        waiver = make_waiver(*reason, fingerprint=args.target, paths=args.paths)
    else:
        known = {rule.id for rule in list_rules(args.repo)}
        if args.target not in known and not args.target.startswith("import."):
            raise InputError(
                f"{args.target} is not a finding (F3), fingerprint (16 digits) or rule; "
                "diffcourt catalog --rules lists the rules"
            )
        waiver = make_waiver(*reason, rule=args.target, paths=args.paths)
    entry = add_waiver(args.repo, waiver, comment)
    emit(f"{entry}Added to {NAME}; it takes effect once it is in the base branch.\n", sys.stdout)
    return EXIT_OK


def run_dismiss(args: argparse.Namespace) -> int:
    """Append the dismissal and print it."""
    from orchestrator.app.memory.waiver_files import DISMISSAL_FILE, Reason, add_dismissal
    from orchestrator.app.runs.stored_runs import load_verdict

    reason = Reason(why=args.reason, by=args.by, until=args.until, scope=args.scope)
    entry = add_dismissal(args.repo, load_verdict(args.repo, args.run_id), args.finding, reason)
    counts = f"Added to {DISMISSAL_FILE.name}; it takes effect once it is in the base branch.\n"
    emit(f"{entry}{counts}", sys.stdout)
    return EXIT_OK


def run_feedback(args: argparse.Namespace) -> int:
    """Record it, and print what counts now."""
    from orchestrator.app.human_decisions.run_decisions import record_feedback

    given = record_feedback(args.repo, args.run_id, args.finding, args.said)
    emit_line(f"{given}, says {given.who}", sys.stdout)
    return EXIT_OK


def run_override(args: argparse.Namespace) -> int:
    """Record the override and say what it is for."""
    from orchestrator.app.human_decisions.run_decisions import override_verdict

    verdict = override_verdict(args.repo, args.run_id, args.verdict, args.reason)
    assert verdict.override is not None
    text = (
        f"{verdict.run_id}: {verdict.verdict} is overridden to {verdict.override.verdict} for head "
        f"{verdict.override.head[:12]} by {verdict.override.by}: {verdict.override.reason}"
    )
    emit_line(text, sys.stdout)
    return EXIT_OK


def run_remember(args: argparse.Namespace) -> int:
    """Write the patch, and say on standard error what it holds."""
    from orchestrator.app.memory.past_reviews import load_reviews
    from orchestrator.app.memory.suggested_entries import propose_entries

    target = OutputTarget(args.out, "--out")
    reviews = load_reviews(args.repo, args.runs)
    change = propose_entries(args.repo, reviews)
    if change.patch or not target.to_stdout:
        target.write(change.patch)
    lines = [*change.notes]
    if change.patch:
        lines.append("Read the patch, change what is wrong, git apply it, and commit it to base.")
    for line in lines:
        emit_line(line, sys.stderr)
    return EXIT_OK


def run_approve(args: argparse.Namespace) -> int:
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


run_deny = run_approve


def _describe(pending: PendingCall) -> str:
    """Who requests which tool with which arguments, in one line."""
    request = pending.request
    arguments = json.dumps(request["arguments"], sort_keys=True)
    return f"{request['agent']} requests {request['tool']} {arguments}"
