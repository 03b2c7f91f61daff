"""Shared by ``review``, ``resume`` and ``fork``: result options, progress view, exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from orchestrator.catalog.shared_literals import OUTCOMES
from orchestrator.cli.arguments import add_json_file, name_of
from orchestrator.cli.output import width_of
from orchestrator.cli.verdict_outputs import Outputs, write_all, write_job_files
from orchestrator.errors import InputError
from orchestrator.report.terminal_escaping import emit, emit_line, use_color

if TYPE_CHECKING:
    from orchestrator.app.types import Answer
    from orchestrator.code_review.verdict.model import Verdict
    from orchestrator.engine.observer_events import Observer
    from orchestrator.sandbox.worker_pool import WorkerPool


def add_result_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the result and the exit code."""
    group = parser.add_argument_group("result")
    add_json_file(group)
    group.add_argument("--format", dest="formats", action="append", default=[])
    group.add_argument("--fail-on", type=_fail_on)
    group.add_argument("--only-new", action="store_true")
    amount = group.add_mutually_exclusive_group()
    amount.add_argument("--short", action="store_true")
    amount.add_argument("--full", action="store_true")
    amount.add_argument("--verbose", action="store_true")
    group.add_argument("--otel", nargs="?", const="")
    group.add_argument("--quiet", action="store_true")


def add_answer_options(parser: argparse._ActionsContainer) -> None:
    """Add the options that answer the question of a waiting run."""
    parser.add_argument("--answer")
    parser.add_argument("--to", type=name_of("a question"))


def read_answer(args: argparse.Namespace) -> Answer | None:
    """The answer that the options give, if any.

    Raises:
        InputError: a question is named without an answer.
    """
    if args.to is not None and args.answer is None:
        raise InputError("--to requires --answer TEXT")
    from orchestrator.app.types import Answer

    return None if args.answer is None else Answer(args.answer, args.to or "")


def _fail_on(text: str) -> str:
    """Argument type: an outcome, ``never``, or bars by severity and category."""
    if text in {*OUTCOMES, "never"}:
        return text
    from orchestrator.code_review.verdict.decision import parse_bars

    try:
        parse_bars(text)
    except ValueError as error:
        named = ", ".join((*OUTCOMES, "never"))
        raise argparse.ArgumentTypeError(f"{error}; or {named}") from None
    return text


@contextmanager
def open_progress(args: argparse.Namespace) -> Iterator[tuple[Observer, WorkerPool]]:
    """A progress view and trace of a review, and its workers, which start during the imports."""
    from orchestrator.app.check_worker_startup import start_workers

    with start_workers(args.repo) as pool:
        from orchestrator.app import run_review  # noqa: F401 - imports, while workers start
        from orchestrator.report.progress_view import choose_progress_view

        with choose_progress_view(sys.stderr, args.quiet) as view, _traced(args) as follow:
            yield follow(view), pool


def write_verdict(args: argparse.Namespace, outputs: Outputs, verdict: Verdict) -> int:
    """Write a verdict to all outputs, and return the exit code.

    Raises:
        OutputError: it could not be written to one of them.
    """
    from orchestrator.code_review.verdict.decision import exit_code

    fail_on = args.fail_on or verdict.fail_on
    code = exit_code(
        verdict.verdict, verdict.status, fail_on, verdict.findings, only_new=args.only_new
    )
    verdict = replace(verdict, exit_code=code)
    write_all(
        partial(outputs.write, verdict, args.repo),
        partial(_print_report, args, outputs, verdict),
        partial(write_job_files, verdict, os.environ),
    )
    return code


@contextmanager
def _traced(args: argparse.Namespace) -> Iterator[Callable[[Observer], Observer]]:
    """Export the run while it runs, if the options or the environment request it."""
    if args.otel is None and not os.environ.get("DIFFCOURT_OTEL"):
        yield lambda observer: observer
        return
    from orchestrator.app.tracing.export import live_trace

    live = live_trace(args.repo, args.otel, os.environ)
    try:
        yield live.follow if live is not None else lambda observer: observer
    finally:
        if live is not None and (failed := live.finish()):
            emit_line(f"diffcourt: {failed}", sys.stderr)


def _print_report(args: argparse.Namespace, outputs: Outputs, verdict: Verdict) -> None:
    """Print the report; if a format goes to stdout, to stderr, or not at all with ``--quiet``."""
    if outputs.to_stdout and args.quiet:
        return
    from orchestrator.report.verdict_text import DETAILS, render_verdict

    stream = sys.stderr if outputs.to_stdout else sys.stdout
    text = render_verdict(
        verdict,
        width=width_of(stream),
        color=use_color(stream),
        repo=args.repo,
        detail=next((detail for detail in DETAILS if getattr(args, detail, False)), "brief"),
    )
    emit(text, stream)
