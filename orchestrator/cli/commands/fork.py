"""``diffcourt fork``: a new run from a checkpoint of another, with what a person edited."""

import argparse
from pathlib import Path

from orchestrator.cli.arguments import add_repo
from orchestrator.cli.review_output import (
    add_answer_options,
    add_result_options,
    open_outputs,
    open_progress,
    read_answer,
    write_verdict,
)
from orchestrator.errors import ReplayMismatch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("run_id", metavar="RUN")
    parser.add_argument("--at", required=True)
    parser.add_argument("--plan", type=Path)
    parser.add_argument("--drop", action="append", default=[])
    add_answer_options(parser)
    add_repo(parser)
    add_result_options(parser)


def run(args: argparse.Namespace) -> int:
    """Fork the run, review on, and return the exit code."""
    answer = read_answer(args)
    outputs = open_outputs(args)

    from orchestrator.app.run_review import resume_review
    from orchestrator.app.runs.forking import Fork, fork_run
    from orchestrator.app.runs.stored_runs import prune_runs

    edits = Fork(args.run_id, args.at, args.plan, args.drop, answers=answer is not None)
    fork = fork_run(args.repo, edits)
    try:
        with open_progress(args) as (observer, pool):
            verdict = resume_review(args.repo, fork, observer, answer=answer, pool=pool)
    except ReplayMismatch:
        prune_runs(args.repo, None, None, names=[fork])  # it could never be resumed
        raise
    return write_verdict(args, outputs, verdict)
