"""``diffcourt dismiss``: dismiss a finding, with a reason, a person and an expiry date."""

import argparse
import sys

from orchestrator.cli.arguments import add_decision, name_of
from orchestrator.errors import EXIT_OK
from orchestrator.report.terminal_escaping import emit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("finding", type=name_of("a finding"))
    parser.add_argument("--reason", type=name_of("a reason"), required=True)
    parser.add_argument("--scope", choices=("finding", "rule", "path"), default="finding")
    add_decision(parser)


def run(args: argparse.Namespace) -> int:
    """Append the dismissal and print it."""
    from orchestrator.app.memory.dismissals import (
        DISMISSAL_FILE,
        Reason,
        add_dismissal,
        dismissal_of,
    )
    from orchestrator.app.runs.stored_runs import load_verdict

    reason = Reason(why=args.reason, by=args.by, until=args.until, scope=args.scope)
    verdict = load_verdict(args.repo, args.run_id)
    dismissal, entry = dismissal_of(verdict, args.finding, reason, args.repo)
    add_dismissal(args.repo, dismissal, entry)
    counts = f"Added to {DISMISSAL_FILE.name}; it takes effect once it is in the base branch.\n"
    emit(f"{entry}{counts}", sys.stdout)
    return EXIT_OK
