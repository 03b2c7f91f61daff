"""``diffcourt post`` and ``comment-command``: post a verdict, and answer commands in comments."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from orchestrator.errors import EXIT_OK, InputError
from orchestrator.report.terminal_escaping import emit_line

if TYPE_CHECKING:
    from orchestrator.posting.answer_command import Handled
    from orchestrator.posting.posting_plan import Receipt


def run_post(args: argparse.Namespace) -> int:
    """Post the verdict and print what was read back."""
    from functools import partial
    from pathlib import Path

    from orchestrator.app.runs.verdict_files import read_verdict
    from orchestrator.posting.forge import PostingTarget
    from orchestrator.posting.posting_plan import INLINE, make_cleaner, plan_posting, post_verdict

    verdict = read_verdict(Path(args.verdict))
    target = PostingTarget(args.project or "", args.request or 0, args.url or "", os.environ)
    adapter = import_module(f"orchestrator.posting.{args.to}")
    plan = partial(
        plan_posting,
        inline=args.max_inline or INLINE,
        always_comment=args.always_comment,
        trust_override=args.trust_override,
        suggest_fixes=args.suggest_fixes,
    )
    receipt = post_verdict(verdict, adapter.open_forge(target), make_cleaner(os.environ), plan)
    emit_line(_describe(receipt), sys.stdout)
    return EXIT_OK


def _describe(receipt: Receipt) -> str:
    summary = "the summary" if receipt.summary else "no summary"
    refused = f"; refused at {', '.join(receipt.refused)}: see the summary"
    return (
        f"Posted: the check, {summary}, {receipt.found} of {receipt.wanted} new comments, "
        f"{receipt.resolved} resolved{refused if receipt.refused else ''}"
    )


def run_comment_command(args: argparse.Namespace) -> int:
    """Carry out the command, print what was done, and set the outputs of the step."""
    from pathlib import Path

    from orchestrator.app.catalog_listing import shipped_rules
    from orchestrator.app.runs.verdict_files import read_verdict
    from orchestrator.posting.answer_command import Answering, finish_command, start_command
    from orchestrator.posting.comment_commands import read_comment_event
    from orchestrator.posting.forge import PostingTarget
    from orchestrator.posting.github import open_commands
    from orchestrator.posting.posting_plan import make_cleaner

    name = args.event or os.environ.get("GITHUB_EVENT_PATH", "")
    if not name:
        raise InputError("give --event FILE, or set GITHUB_EVENT_PATH")
    event = read_comment_event(name)
    target = PostingTarget(args.project or "", event.issue.number, args.url or "", os.environ)
    answering = Answering(open_commands(target, args.workflow), make_cleaner(os.environ))
    if args.verdict is None:
        handled = start_command(event, answering)
    else:
        path = Path(args.verdict)
        verdict = read_verdict(path) if path.exists() else None  # the review left none
        answering = Answering(answering.forge, answering.clean, shipped_rules())
        handled = finish_command(event, answering, verdict)
    _set_outputs(handled, event.issue.number)
    emit_line(handled.line, sys.stdout)
    return EXIT_OK


def _set_outputs(handled: Handled, request: int) -> None:
    """Append to the outputs of a step of GitHub Actions, where there is one."""
    from orchestrator.cli.review_output import append_outputs

    values = {"command": handled.command, "request": str(request), "head": handled.head}
    if handled.run_id:
        values["run-id"] = str(handled.run_id)
    append_outputs(values, os.environ)
