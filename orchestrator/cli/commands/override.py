"""``diffcourt override``: a person decides against a computed outcome."""

import argparse
import sys

from orchestrator.catalog.shared_literals import OUTCOMES
from orchestrator.cli.arguments import add_repo, add_run, name_of
from orchestrator.errors import EXIT_OK
from orchestrator.report.terminal_escaping import emit_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_run(parser, default="latest")
    parser.add_argument("--verdict", choices=OUTCOMES, default="merge")
    parser.add_argument("--reason", type=name_of("a reason"), required=True)
    add_repo(parser)


def run(args: argparse.Namespace) -> int:
    """Record the override and say what it is for."""
    from orchestrator.app.human_decisions.overrides import override_verdict

    verdict = override_verdict(args.repo, args.run_id, args.verdict, args.reason)
    assert verdict.override is not None
    text = (
        f"{verdict.run_id}: {verdict.verdict} is overridden to {verdict.override.verdict} for head "
        f"{verdict.override.head[:12]} by {verdict.override.by}: {verdict.override.reason}"
    )
    emit_line(text, sys.stdout)
    return EXIT_OK
