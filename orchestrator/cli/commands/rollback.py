"""``diffcourt rollback``."""

from __future__ import annotations

import argparse
import sys

from orchestrator.cli.arguments import add_repo, add_run
from orchestrator.cli.output import emit
from orchestrator.errors import EXIT_OK


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.description = (
        "Put files back as they were before a run's writing tools changed them.\n"
        "Without CALL: what all of the run's calls changed, the newest first."
    )
    add_run(parser)
    parser.add_argument("call", nargs="?", metavar="CALL", help="the call, as audit show names it")
    add_repo(parser)
    parser.add_argument(
        "--force", action="store_true", help="also put back what was changed again since"
    )


def run(args: argparse.Namespace) -> int:
    """Put back, and print what."""
    from orchestrator.app.rollback import roll_back
    from orchestrator.report.terminal_escaping import escape_unprintable, quote_path

    for call, paths in roll_back(args.repo, args.run_id, args.call, force=args.force).items():
        emit(f"{escape_unprintable(call)}\n", sys.stdout)
        emit("".join(f"    {quote_path(path)}\n" for path in paths), sys.stdout)
    return EXIT_OK
