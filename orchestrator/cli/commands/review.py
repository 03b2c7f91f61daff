"""``diffcourt review``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.arguments import EXIT_CODES, add_repo, amount, count, name_of, ref
from orchestrator.cli.output import JsonTarget, emit, width_of
from orchestrator.cli.review_result import add_result_options, deliver
from orchestrator.errors import EXIT_OK, InputError
from orchestrator.report.terminal_escaping import quote_path

if TYPE_CHECKING:
    from orchestrator.review.cost_estimate import Estimate


GIVEN = (
    "repo",
    "base",
    "head",
    "worktree",
    "provider",
    "pattern",
    "max_iterations",
    "max_tool_calls",
    "max_minutes",
    "max_usd",
    "no_cache",
)
"""Options of the command that are fields of ``ReviewOptions`` as they are."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.description = (
        "Review a change. With nothing said: the current branch against its merge base\n"
        "with the default branch."
    )
    parser.epilog = EXIT_CODES
    what = parser.add_argument_group("what to review")
    add_repo(what)
    what.add_argument(
        "--base", type=ref, metavar="REF", help="compare with this; default: the merge base"
    )
    side = what.add_mutually_exclusive_group()
    side.add_argument("--head", type=ref, metavar="REF", help="the change; default: HEAD")
    side.add_argument(
        "--worktree", action="store_true", help="review the files as they are, committed or not"
    )
    side.add_argument("--diff", metavar="FILE", help="review a unified diff; - is standard input")
    add_result_options(parser)
    what.add_argument(
        "--coverage",
        metavar="FILE",
        action="append",
        default=[],
        help="what tests ran: Cobertura XML, coverage.py JSON or lcov; may be repeated",
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--provider", type=name_of("a provider"), metavar="NAME", help="who answers the agents"
    )
    how.add_argument(
        "--pattern", choices=("team", "single"), help="a lead with specialists, or one agent alone"
    )
    how.add_argument("--max-iterations", type=count, metavar="N", help="rounds at the most")
    how.add_argument("--max-tool-calls", type=count, metavar="N", help="tool calls at the most")
    how.add_argument("--max-minutes", type=amount, metavar="N", help="wall time at the most")
    how.add_argument("--max-usd", type=amount, metavar="X", help="US dollars at the most")
    how.add_argument(
        "--estimate",
        action="store_true",
        help="only say what the review is expected to cost, and what at the most; asks no model",
    )
    how.add_argument(
        "--no-cache", action="store_true", help="ask analyzers again about files they know"
    )


def run(args: argparse.Namespace) -> int:
    """Review, and return the gate's exit code."""
    target = JsonTarget(args.json) if args.json is not None else None
    diff = None if args.diff is None else _read(args.diff)

    from orchestrator.app.cost_estimate import estimate_cost
    from orchestrator.app.run_review import run_review
    from orchestrator.app.types import ReviewOptions

    options = ReviewOptions(
        diff=diff,
        diff_name="" if args.diff is None else _diff_name(args.diff),
        coverage=[os.path.abspath(name) for name in args.coverage],
        **{name: getattr(args, name) for name in GIVEN},
    )
    if args.estimate:
        return _estimate(args, target, estimate_cost(options))
    return deliver(args, target, lambda view, pool: run_review(options, view, pool=pool))


def _estimate(args: argparse.Namespace, target: JsonTarget | None, found: Estimate) -> int:
    """Hand an estimate out; with ``--json`` it takes the verdict's place."""
    from orchestrator.report.cost_estimate import render_cost_estimate, to_document

    if target is not None:
        target.write(to_document(found))
    if target is None or not target.to_stdout:
        emit(render_cost_estimate(found, width_of(sys.stdout)), sys.stdout)
    return EXIT_OK


def _read(name: str) -> bytes:
    """The diff's bytes.

    Raises:
        InputError: it cannot be read.
    """
    try:
        if name != "-":
            return Path(name).read_bytes()
        if sys.stdin is None:
            raise InputError("--diff -: standard input is closed")
        return sys.stdin.buffer.read()
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else str(fault)
        raise InputError(f"--diff: cannot read {quote_path(name)}: {why}") from None


def _diff_name(name: str) -> str:
    return "stdin" if name == "-" else name
