"""What ``review`` and ``resume`` share: result options, progress view, exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import to_builtins
from msgspec.structs import replace

from orchestrator.catalog.shared_literals import OUTCOMES
from orchestrator.cli.output import JsonTarget, emit, use_color, width_of

if TYPE_CHECKING:
    from orchestrator.code_review.verdict.model import Verdict
    from orchestrator.engine.observer_events import Observer
    from orchestrator.sandbox.worker_pool import WorkerPool


def add_result_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the result and the exit code."""
    group = parser.add_argument_group("result")
    group.add_argument(
        "--json", metavar="FILE", help="write the verdict as JSON; - is standard output"
    )
    group.add_argument(
        "--fail-on",
        choices=(*OUTCOMES, "never"),
        metavar="LEVEL",
        help="exit with 1 at this verdict or a worse one: merge, needs_changes, block or never; "
        "default: fail_on in the configuration of the base commit, needs_changes if unset",
    )
    amount = group.add_mutually_exclusive_group()
    amount.add_argument(
        "--full", action="store_true", help="print every finding whole, not at most 100 lines"
    )
    amount.add_argument(
        "--verbose",
        action="store_true",
        help="print also agents, criteria, guards, passed checks and usage, as diffcourt show does",
    )
    group.add_argument(
        "--quiet", action="store_true", help="print no progress; with --json -, no report either"
    )


def deliver(
    args: argparse.Namespace,
    target: JsonTarget | None,
    work: Callable[[Observer, WorkerPool], Verdict],
) -> int:
    """Run a review with a progress view, write its verdict, and return the exit code.

    The worker processes are started first, so that they start during the imports that follow.

    Raises:
        DiffcourtError: the work failed, or its result could not be written.
    """
    from orchestrator.app.check_worker_startup import start_workers

    with start_workers(args.repo) as pool:
        from orchestrator.app import run_review  # noqa: F401 - imports, while workers start
        from orchestrator.report.run_progress import choose_progress_view

        with choose_progress_view(sys.stderr, args.quiet) as view:
            verdict = work(view, pool)
    from orchestrator.code_review.verdict.decision import exit_code

    code = exit_code(verdict.verdict, verdict.status, args.fail_on or verdict.fail_on)
    if target is not None:
        target.write(to_builtins(replace(verdict, exit_code=code)))
    from orchestrator.report.verdict_text import render_verdict

    on_stdout = target is not None and target.to_stdout
    if not (on_stdout and args.quiet):
        stream = sys.stderr if on_stdout else sys.stdout
        text = render_verdict(
            replace(verdict, exit_code=code),
            width=width_of(stream),
            color=use_color(stream),
            repo=args.repo,
            detail="verbose" if args.verbose else "full" if args.full else "brief",
        )
        emit(text, stream)
    return code
