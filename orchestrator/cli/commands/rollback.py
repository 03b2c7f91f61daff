"""``diffcourt rollback``: restore the files that a run's tools changed."""

import argparse
import sys

from orchestrator.cli.arguments import add_repo, add_run
from orchestrator.cli.output import emit
from orchestrator.errors import EXIT_OK
from orchestrator.report.terminal_escaping import escape_unprintable, quote_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Restore files to their state before a run's tools changed them.\n"
        "Without CALL: undo all calls of the run, newest first."
    )
    add_run(parser)
    parser.add_argument(
        "call", nargs="?", metavar="CALL", help="the name of the call, as audit show prints it"
    )
    add_repo(parser)
    parser.add_argument(
        "--force", action="store_true", help="also restore files that were changed since"
    )


def run(args: argparse.Namespace) -> int:
    """Restore the files and print their paths."""
    from orchestrator.app.rollback import roll_back

    for call, paths in roll_back(args.repo, args.run_id, args.call, force=args.force).items():
        emit(f"{escape_unprintable(call)}\n", sys.stdout)
        emit("".join(f"    {quote_path(path)}\n" for path in paths), sys.stdout)
    return EXIT_OK
