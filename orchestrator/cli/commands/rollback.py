"""``diffcourt rollback``: restore the files that a run's tools changed."""

import argparse
import sys

from orchestrator.cli.arguments import add_repo, add_run
from orchestrator.errors import EXIT_INCOMPLETE, EXIT_OK
from orchestrator.report.terminal_escaping import emit, emit_line, quote_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_run(parser)
    parser.add_argument("call", nargs="?")
    add_repo(parser)
    parser.add_argument("--force", action="append", default=[])


def run(args: argparse.Namespace) -> int:
    """Restore the files and print their paths."""
    from orchestrator.app.runs.rollback import roll_back

    done = roll_back(args.repo, args.run_id, args.call, force=args.force)
    for call, restored in done.items():
        emit_line(call, sys.stdout)
        lines = [f"    {quote_path(path)}\n" for path in restored.paths]
        for path in restored.kept:
            name = quote_path(path)
            lines.append(f"    {name}  (changed since the call, kept; restore: --force {name})\n")
        emit("".join(lines), sys.stdout)
    return EXIT_INCOMPLETE if any(restored.kept for restored in done.values()) else EXIT_OK
