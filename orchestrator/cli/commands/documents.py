"""``diffcourt export`` and ``schema``: a verdict in other formats, and the schemas of our own."""

import argparse
import sys

from orchestrator.cli.arguments import add_repo
from orchestrator.cli.verdict_outputs import Outputs
from orchestrator.errors import EXIT_OK, InputError
from orchestrator.report.terminal_escaping import as_json, emit


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``export``."""
    parser.add_argument("source", nargs="?", default="latest", metavar="RUN")
    parser.add_argument("--format", dest="formats", action="append", default=[])
    add_repo(parser)


def run_export(args: argparse.Namespace) -> int:
    """Write the verdict in each format."""
    if not args.formats:
        raise InputError("name a format with --format, for example --format sarif=results.sarif")
    from orchestrator.app.runs.stored_runs import load_verdict

    outputs = Outputs(args.formats)
    outputs.write(load_verdict(args.repo, args.source), args.repo)
    return EXIT_OK


def add_schema(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``schema``."""
    parser.add_argument("document", choices=("verdict", "statistics"))


def run_schema(args: argparse.Namespace) -> int:
    """Print the schema."""
    if args.document == "verdict":
        from orchestrator.code_review.verdict.model import json_schema as schema
    else:
        from orchestrator.app.statistics.document import json_schema as schema

    emit(as_json(schema()), sys.stdout)
    return EXIT_OK
