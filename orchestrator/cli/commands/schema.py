"""``diffcourt schema``: print a published JSON Schema."""

import argparse
import sys

from orchestrator.cli.output import emit
from orchestrator.errors import EXIT_OK
from orchestrator.report.terminal_escaping import as_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("document", choices=("verdict",), help="the kind of document: verdict")


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    from orchestrator.code_review.verdict.model import json_schema

    emit(as_json(json_schema()), sys.stdout)
    return EXIT_OK
