"""``diffcourt fork``: a new run from a checkpoint of another, with what a person edited."""

import argparse
from pathlib import Path

from orchestrator.cli.arguments import EXIT_CODES, add_backend, add_repo, name_of
from orchestrator.cli.review_output import add_result_options, deliver, open_outputs
from orchestrator.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Start a new run from a checkpoint of another one, with an edited plan, without some\n"
        "findings, or with another answer. What is recorded before the checkpoint is not done\n"
        "again; the old run stays as it is."
    )
    parser.epilog = EXIT_CODES
    parser.add_argument(
        "run_id", metavar="RUN", help="a run, latest, or the directory that it was exported to"
    )
    parser.add_argument(
        "--at",
        required=True,
        metavar="STATE",
        help="go on from this state, such as Triage, Synthesize or Evaluate, or its number",
    )
    parser.add_argument(
        "--plan", type=Path, metavar="FILE", help="the plan to go on with: an edited plan.json"
    )
    parser.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="FINDING",
        help="a finding that is not to count; may be repeated",
    )
    parser.add_argument("--answer", metavar="TEXT", help="the answer to the question that waits")
    parser.add_argument(
        "--to", type=name_of("a question"), metavar="NAME", help="the name of that question"
    )
    add_repo(parser)
    add_result_options(parser)
    add_backend(parser)


def run(args: argparse.Namespace) -> int:
    """Fork the run, review on, and return the exit code."""
    if args.to is not None and args.answer is None:
        raise InputError("--to requires --answer TEXT")
    outputs = open_outputs(args)

    from orchestrator.app.run_review import resume_review
    from orchestrator.app.runs.forking import Fork, fork_run
    from orchestrator.app.types import Answer

    answer = None if args.answer is None else Answer(args.answer, args.to or "")
    edits = Fork(args.run_id, args.at, args.plan, args.drop, answers=answer is not None)
    fork = fork_run(args.repo, edits)
    return deliver(
        args,
        outputs,
        lambda view, pool: resume_review(
            args.repo, fork, view, answer=answer, pool=pool, backend=args.backend
        ),
    )
