"""What ``review`` and ``resume`` share: the options of a result, the view, the gate."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import to_builtins

from orchestrator.catalog.fields import OUTCOMES
from orchestrator.cli.output import JsonTarget, emit, in_color, width_of
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_OK

if TYPE_CHECKING:
    from orchestrator.engine.events import Observer
    from orchestrator.review.verdict.model import Verdict
    from orchestrator.sandbox.worker_pool import WorkerPool


def add_result_options(parser: argparse.ArgumentParser) -> None:
    """Where the result goes and what the exit code says of it."""
    group = parser.add_argument_group("result")
    group.add_argument(
        "--json", metavar="FILE", help="write the verdict as JSON; - is standard output"
    )
    group.add_argument(
        "--fail-on",
        choices=(*OUTCOMES, "never"),
        metavar="LEVEL",
        help="exit 1 at this verdict or a worse one: merge, needs_changes, block, or never; "
        "default: what the base's configuration says, needs_changes as shipped",
    )
    group.add_argument(
        "--quiet", action="store_true", help="no progress; with --json - no report either"
    )


def deliver(
    args: argparse.Namespace,
    target: JsonTarget | None,
    work: Callable[[Observer, WorkerPool], Verdict],
) -> int:
    """Do the work under a view, hand its verdict out, and turn it into the exit code.

    The workers come first: they start beside the imports that follow.

    Raises:
        DiffcourtError: the work failed, or its result could not be written.
    """
    gc.set_threshold(100_000)  # what is imported is no garbage, and there is much to look through
    from orchestrator.app.worker_pool import start_workers

    with start_workers(args.repo) as pool:
        from orchestrator.app import run_review  # noqa: F401 - most of what there is to import
        from orchestrator.report.run_progress import choose_progress_view

        with choose_progress_view(sys.stderr, args.quiet) as view:
            verdict = work(view, pool)
    if target is not None:
        target.write(to_builtins(verdict))
    from orchestrator.report.verdict_text import render_verdict

    on_stdout = target is not None and target.to_stdout
    if not (on_stdout and args.quiet):
        stream = sys.stderr if on_stdout else sys.stdout
        text = render_verdict(
            verdict, width=width_of(stream), color=in_color(stream), repo=args.repo
        )
        emit(text, stream)
    return gate(verdict, args.fail_on or verdict.fail_on)


def gate(verdict: Verdict, fail_on: str) -> int:
    """The exit code: incomplete whatever else was found, else whether the level is reached."""
    if verdict.status == "incomplete":
        return EXIT_INCOMPLETE
    if fail_on == "never" or OUTCOMES.index(verdict.verdict) < OUTCOMES.index(fail_on):
        return EXIT_OK
    return EXIT_GATED
