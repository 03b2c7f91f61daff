"""``diffcourt export``: write a verdict in the formats of other tools."""

import argparse

from orchestrator.cli.arguments import add_repo
from orchestrator.cli.verdict_outputs import Outputs, add_format_option
from orchestrator.errors import EXIT_OK, InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("source", nargs="?", default="latest", metavar="RUN")
    add_format_option(parser)
    add_repo(parser)


def run(args: argparse.Namespace) -> int:
    """Write the verdict in each format."""
    if not args.formats:
        raise InputError("name a format with --format, for example --format sarif=results.sarif")
    from orchestrator.app.runs.stored_runs import load_verdict

    outputs = Outputs(args.formats)
    outputs.write(load_verdict(args.repo, args.source), args.repo)
    return EXIT_OK
