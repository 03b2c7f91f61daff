"""``diffcourt resume``."""

from __future__ import annotations

import argparse

from orchestrator.cli.arguments import EXIT_CODES, add_repo, add_run, name_of
from orchestrator.cli.output import JsonTarget
from orchestrator.cli.review_result import add_result_options, deliver
from orchestrator.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.description = (
        "Go on with a review that was interrupted, or that waits for an answer.\n"
        "What is recorded is not done again."
    )
    parser.epilog = EXIT_CODES
    add_run(parser)
    add_repo(parser)
    said = parser.add_argument_group("answer")
    said.add_argument(
        "--answer", metavar="TEXT", help="what you say to the question that the review stopped for"
    )
    said.add_argument(
        "--to",
        type=name_of("a question"),
        metavar="NAME",
        help="the question you answer, where several wait",
    )
    add_result_options(parser)


def run(args: argparse.Namespace) -> int:
    """Resume, and return the gate's exit code."""
    if args.to is not None and args.answer is None:
        raise InputError("--to names the question of an answer; add --answer TEXT")
    target = JsonTarget(args.json) if args.json is not None else None

    from orchestrator.app.run_review import resume_review
    from orchestrator.app.types import Answer

    answer = None if args.answer is None else Answer(args.answer, args.to or "")
    return deliver(
        args,
        target,
        lambda view, pool: resume_review(args.repo, args.run_id, view, answer=answer, pool=pool),
    )
