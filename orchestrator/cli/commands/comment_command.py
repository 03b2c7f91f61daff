"""``diffcourt comment-command``: carry out a command in a comment on a pull request."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from orchestrator.cli.arguments import name_of
from orchestrator.cli.commands.post import add_forge
from orchestrator.errors import EXIT_OK, InputError
from orchestrator.report.terminal_escaping import emit_line

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.code_review.verdict.model import Verdict
    from orchestrator.posting.answer_command import Handled

FORGES = ("github",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_forge(parser, FORGES)
    parser.add_argument("--event", type=name_of("an event file"))
    parser.add_argument("--verdict", type=name_of("a verdict"))
    parser.add_argument("--workflow", default="diffcourt.yml")


def run(args: argparse.Namespace) -> int:
    """Carry out the command, print what was done, and set the outputs of the step."""
    from pathlib import Path

    from orchestrator.app.catalog_listing import shipped_rules
    from orchestrator.posting.answer_command import Answering, finish_command, start_command
    from orchestrator.posting.comment_commands import read_comment_event
    from orchestrator.posting.forge import PostingTarget
    from orchestrator.posting.github_commands import open_commands
    from orchestrator.posting.post_verdict import make_cleaner

    name = args.event or os.environ.get("GITHUB_EVENT_PATH", "")
    if not name:
        raise InputError("give --event FILE, or set GITHUB_EVENT_PATH")
    event = read_comment_event(name)
    target = PostingTarget(args.project or "", event.issue.number, args.url or "", os.environ)
    answering = Answering(open_commands(target, args.workflow), make_cleaner(os.environ))
    if args.verdict is None:
        handled = start_command(event, answering)
    else:
        verdict = _read_verdict(Path(args.verdict))
        answering = Answering(answering.forge, answering.clean, shipped_rules())
        handled = finish_command(event, answering, verdict)
    _set_outputs(handled, event.issue.number)
    emit_line(handled.line, sys.stdout)
    return EXIT_OK


def _read_verdict(path: Path) -> Verdict | None:
    """The verdict, None where the review left none.

    Raises:
        InputError: it cannot be read, or is no verdict of this version.
    """
    from orchestrator.app.runs.verdict_files import read_verdict

    return read_verdict(path) if path.exists() else None


def _set_outputs(handled: Handled, request: int) -> None:
    """Append to the outputs of a step of GitHub Actions, where there is one."""
    from orchestrator.cli.verdict_outputs import append_outputs

    values = {"command": handled.command, "request": str(request), "head": handled.head}
    if handled.run_id:
        values["run-id"] = str(handled.run_id)
    append_outputs(values, os.environ)
