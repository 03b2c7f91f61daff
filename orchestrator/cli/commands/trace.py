"""``diffcourt trace``: export a run as an OpenTelemetry trace."""

import argparse
import sys

from orchestrator.cli.arguments import add_repo, add_run
from orchestrator.cli.output import emit
from orchestrator.errors import EXIT_OK


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Send a run to an OpenTelemetry collector, as one trace. A second export is the\n"
        "same trace. Needs the extra otel."
    )
    add_run(parser, default="latest")
    parser.add_argument(
        "--to",
        default="",
        metavar="URL|FILE",
        help="the collector (OTLP over HTTP), or a file for OTLP JSON; default: "
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    )
    parser.add_argument(
        "--with-content",
        action="store_true",
        help="with prompts, answers, arguments and results; secrets are redacted",
    )
    add_repo(parser)


def run(args: argparse.Namespace) -> int:
    """Export the trace, and say what was sent."""
    from orchestrator.app.tracing.export import trace_run

    run_id, count = trace_run(args.repo, args.run_id, args.to, content=args.with_content)
    emit(f"exported run {run_id}: {count} spans\n", sys.stdout)
    return EXIT_OK
