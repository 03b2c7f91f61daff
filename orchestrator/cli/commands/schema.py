"""``diffcourt schema``: print a published JSON Schema."""

import argparse
import sys

from orchestrator.errors import EXIT_OK
from orchestrator.report.terminal_escaping import as_json, emit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("document", choices=("verdict", "statistics"))


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    if args.document == "verdict":
        from orchestrator.code_review.verdict.model import json_schema as schema
    else:
        from orchestrator.app.statistics.document import json_schema as schema

    emit(as_json(schema()), sys.stdout)
    return EXIT_OK
