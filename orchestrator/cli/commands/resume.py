"""``diffcourt resume``: continue an interrupted or waiting review."""

import argparse

from orchestrator.cli.arguments import add_repo, add_run, amount, count
from orchestrator.cli.review_output import (
    add_answer_options,
    add_result_options,
    open_outputs,
    open_progress,
    read_answer,
    write_verdict,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_run(parser, default="latest")
    add_repo(parser)
    add_answer_options(parser.add_argument_group("answer"))
    more = parser.add_argument_group("raise a limit of the whole run")
    more.add_argument("--max-tool-calls", type=count)
    more.add_argument("--max-minutes", type=amount)
    more.add_argument("--max-tokens", type=count)
    more.add_argument("--max-usd", type=amount)
    add_result_options(parser)


def run(args: argparse.Namespace) -> int:
    """Resume the review and return the exit code."""
    answer = read_answer(args)
    outputs = open_outputs(args)

    from orchestrator.app.run_review import resume_review

    limits = ("max_tool_calls", "max_minutes", "max_tokens", "max_usd")
    grant = {name: value for name in limits if (value := getattr(args, name)) is not None}
    with open_progress(args) as (observer, pool):
        verdict = resume_review(
            args.repo, args.run_id, observer, answer=answer, grant=grant, pool=pool
        )
    return write_verdict(args, outputs, verdict)
