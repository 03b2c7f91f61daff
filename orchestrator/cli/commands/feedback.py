"""``diffcourt feedback``: say whether a finding was useful, or that it is fixed."""

import argparse
import sys

from orchestrator.app.human_decisions.finding_feedback import SAID
from orchestrator.cli.arguments import add_repo, name_of
from orchestrator.errors import EXIT_OK
from orchestrator.report.terminal_escaping import emit_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("finding", type=name_of("a finding"))
    parser.add_argument("said", choices=SAID, metavar="WORD")
    parser.add_argument("--run", dest="run_id", default="latest")
    add_repo(parser)


def run(args: argparse.Namespace) -> int:
    """Record it, and print what counts now."""
    from orchestrator.app.human_decisions.finding_feedback import record_feedback

    given = record_feedback(args.repo, args.run_id, args.finding, args.said)
    emit_line(f"{given}, says {given.who}", sys.stdout)
    return EXIT_OK
