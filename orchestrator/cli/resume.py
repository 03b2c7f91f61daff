"""``diffcourt resume``."""

from __future__ import annotations

import argparse

from orchestrator.cli.outcome import add_result_options, deliver
from orchestrator.cli.output import JsonTarget
from orchestrator.cli.parsing import EXIT_CODES, add_repo, add_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.description = "Go on with an interrupted review. What is recorded is not done again."
    parser.epilog = EXIT_CODES
    add_run(parser)
    add_repo(parser)
    add_result_options(parser)


def run(args: argparse.Namespace) -> int:
    """Resume, and return the gate's exit code."""
    target = JsonTarget(args.json) if args.json is not None else None

    from orchestrator import app

    return deliver(
        args, target, lambda view, pool: app.resume(args.repo, args.run_id, view, pool=pool)
    )
