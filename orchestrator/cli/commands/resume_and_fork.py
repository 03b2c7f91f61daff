"""``diffcourt resume`` and ``fork``: continue a review, or a copy of it from a checkpoint."""

import argparse

from orchestrator.cli.review_output import Outputs, open_progress, read_answer, write_verdict
from orchestrator.errors import ConfigError, InputError, ReplayMismatch


def run_resume(args: argparse.Namespace) -> int:
    """Resume the review and return the exit code."""
    answer = read_answer(args)
    outputs = Outputs(args.formats, args.json)

    from orchestrator.app.run_review import resume_review

    limits = ("max_tool_calls", "max_minutes", "max_tokens", "max_usd")
    grant = {name: value for name in limits if (value := getattr(args, name)) is not None}
    with open_progress(args) as (observer, pool):
        verdict = resume_review(
            args.repo, args.run_id, observer, answer=answer, grant=grant, pool=pool
        )
    return write_verdict(args, outputs, verdict)


def run_fork(args: argparse.Namespace) -> int:
    """Fork the run, review on, and return the exit code."""
    answer = read_answer(args)
    outputs = Outputs(args.formats, args.json)

    from orchestrator.app.run_review import resume_review
    from orchestrator.app.runs.forking import Fork, fork_run
    from orchestrator.app.runs.stored_runs import prune_runs

    edits = Fork(args.run_id, args.at, args.plan, args.drop, answers=answer is not None)
    fork = fork_run(args.repo, edits)
    try:
        with open_progress(args) as (observer, pool):
            verdict = resume_review(args.repo, fork, observer, answer=answer, pool=pool)
    except (ConfigError, InputError, ReplayMismatch):
        prune_runs(args.repo, None, None, names=[fork])  # nothing was reviewed, or could ever be
        raise
    return write_verdict(args, outputs, verdict)
