"""``diffcourt stats``: figures over all runs, from their journals."""

from __future__ import annotations

import argparse
import re
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from orchestrator.cli.arguments import add_json_flag, directory
from orchestrator.cli.output import OutputTarget, emit, width_of
from orchestrator.errors import EXIT_INCOMPLETE, EXIT_OK, InputError
from orchestrator.report.terminal_escaping import as_json

if TYPE_CHECKING:
    from orchestrator.app.statistics import Collected
    from orchestrator.app.statistics_document import Statistics

GROUPINGS = ("agent", "tool", "model", "rule", "pattern")

EXIT_CODES = """\
exit codes:
  0    all journals were read
  2    wrong usage or configuration
  3    a journal is damaged; it is named, and the others are counted\
"""

_UNITS = {"h": 3600.0, "d": 24 * 3600.0, "w": 7 * 24 * 3600.0}
_SPAN = re.compile(r"(\d{1,5})([hdw])")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = "Print figures over all runs, computed from their journals."
    parser.epilog = EXIT_CODES
    which = parser.add_argument_group("runs")
    which.add_argument(
        "--since", type=_since, metavar="WHEN", help="began since a day (2027-01-31) or span (7d)"
    )
    which.add_argument(
        "--repo",
        type=directory,
        action="append",
        metavar="DIR",
        help="of this repository; may be repeated; default: the current one",
    )
    which.add_argument(
        "--all-repositories",
        action="store_true",
        help="of every repository in a shared store (PostgreSQL)",
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--by", choices=GROUPINGS, help="a line for each: agent, tool, model, rule or pattern"
    )
    output.add_argument("--all", action="store_true", help="all lines of --by, not only ten")
    add_json_flag(output)
    output.add_argument("--csv", metavar="FILE", help="also write CSV; - for standard output")


def _since(text: str) -> float:
    """Argument type: a day, or a span that ends now; in seconds since the epoch."""
    if span := _SPAN.fullmatch(text):
        return time.time() - int(span[1]) * _UNITS[span[2]]
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a day, such as 2027-01-31, nor a span, such as 24h, 7d or 4w"
        ) from None


def run(args: argparse.Namespace) -> int:
    """Print the statistics."""
    _refuse_two_on_stdout(args)
    csv = None if args.csv is None else OutputTarget(args.csv, "--csv")

    from orchestrator.app.statistics import collect, summarize

    collected = collect(
        args.repo or [None], since=args.since or 0.0, all_repositories=args.all_repositories
    )
    statistics = summarize(collected)
    if csv is not None:
        from orchestrator.report.statistics.text_and_csv import render_csv

        csv.write(render_csv(statistics, args.by))
    if csv is None or not csv.to_stdout:
        _print(args, statistics)
    return _report_broken(collected)


def _refuse_two_on_stdout(args: argparse.Namespace) -> None:
    if args.json and args.csv in {"-", "/dev/stdout"}:
        raise InputError("--json and --csv - both write to standard output; name a file for CSV")
    if args.all and args.by is None:
        raise InputError("--all lists every line of --by; name what with --by")


def _print(args: argparse.Namespace, statistics: Statistics) -> None:
    from msgspec import to_builtins

    from orchestrator.report.statistics.text_and_csv import render_groups, render_statistics

    width = width_of(sys.stdout)
    if args.json:
        text = as_json(to_builtins(statistics))
    elif args.by is not None:
        text = render_groups(statistics, args.by, width, None if args.all else 10)
    else:
        text = render_statistics(statistics, width)
    emit(text, sys.stdout)


def _report_broken(collected: Collected) -> int:
    """Name each damaged run, and the exit code that says whether there is one."""
    for broken in collected.broken:
        emit(f"diffcourt: not counted: run {broken.run_id}: {broken.why}\n", sys.stderr)
    return EXIT_INCOMPLETE if collected.broken else EXIT_OK
