"""``diffcourt trace``: export a run as an OpenTelemetry trace."""

import argparse
import sys

from orchestrator.cli.arguments import add_repo, add_run
from orchestrator.cli.output import OutputTarget
from orchestrator.errors import EXIT_OK
from orchestrator.report.terminal_escaping import emit_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_run(parser, default="latest")
    parser.add_argument("--to", default="")
    parser.add_argument("--with-content", action="store_true")
    add_repo(parser)


def run(args: argparse.Namespace) -> int:
    """Export the trace, and say what was sent."""
    from orchestrator.app.tracing.export import trace_run

    file = OutputTarget(args.to, "--to") if args.to and "://" not in args.to else None
    run_id, count = trace_run(
        args.repo, args.run_id, file.write if file else args.to, content=args.with_content
    )
    said = sys.stderr if file and file.to_stdout else sys.stdout
    emit_line(f"exported run {run_id}: {count} spans", said)
    return EXIT_OK
