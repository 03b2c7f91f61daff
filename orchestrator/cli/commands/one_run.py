"""``diffcourt cancel``, ``rollback`` and ``trace``: stop a run, undo what it wrote, export it."""

import argparse
import sys

from orchestrator.cli.arguments import add_repo, add_run
from orchestrator.cli.output import OutputTarget
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_OK
from orchestrator.report.terminal_escaping import emit, emit_line, quote_path


def add_cancel(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``cancel``."""
    add_run(parser)
    parser.add_argument("--why", default="")
    add_repo(parser)


def run_cancel(args: argparse.Namespace) -> int:
    """Ask the run to stop, and say whether it has."""
    from orchestrator.app.runs.cancellation import cancel_run

    done = cancel_run(args.repo, args.run_id, args.why)
    who = done.request.who
    say, code = {
        "cancelled": (f"was cancelled by {who}", EXIT_OK),
        "ended": ("ended before it could be cancelled", EXIT_GATED),
        "running": (f"was asked by {who} to stop, and has not stopped yet", EXIT_INCOMPLETE),
    }[done.outcome]
    first = "" if done.own else f"{who} asked first: "
    emit_line(f"{first}run {done.run_id} {say}; see: diffcourt show {done.run_id}", sys.stdout)
    return code


def add_rollback(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``rollback``."""
    add_run(parser)
    parser.add_argument("call", nargs="?")
    add_repo(parser)
    parser.add_argument("--force", action="append", default=[])


def run_rollback(args: argparse.Namespace) -> int:
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


def add_trace(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``trace``."""
    add_run(parser, default="latest")
    parser.add_argument("--to", default="")
    parser.add_argument("--with-content", action="store_true")
    add_repo(parser)


def run_trace(args: argparse.Namespace) -> int:
    """Export the trace, and say what was sent."""
    from orchestrator.app.tracing.export import trace_run

    file = OutputTarget(args.to, "--to") if args.to and "://" not in args.to else None
    run_id, count = trace_run(
        args.repo, args.run_id, file.write if file else args.to, content=args.with_content
    )
    stream = sys.stderr if file and file.to_stdout else sys.stdout
    emit_line(f"exported run {run_id}: {count} spans", stream)
    return EXIT_OK
