"""``diffcourt remember``: propose what to remember from past reviews, as a patch for a person."""

import argparse
import sys

from orchestrator.cli.arguments import add_repo, name_of
from orchestrator.cli.output import OutputTarget
from orchestrator.errors import EXIT_OK
from orchestrator.report.terminal_escaping import emit_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "runs", nargs="*", type=name_of("a run (diffcourt runs lists them)"), metavar="RUN"
    )
    parser.add_argument("--out", default="-")
    add_repo(parser)


def run(args: argparse.Namespace) -> int:
    """Write the patch, and say on standard error what it holds."""
    from orchestrator.app.memory.past_reviews import load_reviews
    from orchestrator.app.memory.patch import propose_entries

    target = OutputTarget(args.out, "--out")
    reviews = load_reviews(args.repo, args.runs)
    change = propose_entries(args.repo, reviews)
    if change.patch or not target.to_stdout:
        target.write(change.patch)
    lines = [*change.notes]
    if change.patch:
        lines.append("Read the patch, change what is wrong, git apply it, and commit it to base.")
    for line in lines:
        emit_line(line, sys.stderr)
    return EXIT_OK
