"""``diffcourt show``, ``cancel``, ``rollback``, ``trace``, ``export``: one run; and ``schema``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import to_builtins

from orchestrator.cli.output import OutputTarget, width_of
from orchestrator.cli.review_output import Outputs
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_OK, InputError
from orchestrator.report.terminal_escaping import as_json, emit, emit_line, quote_path, use_color

if TYPE_CHECKING:
    from orchestrator.app.types import ShownRun


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


def run_show(args: argparse.Namespace) -> int:
    """Print the run's report, then its timeline."""
    from orchestrator.app.runs.stored_runs import show_run

    if args.follow:
        args.run_id = _follow(args.repo, args.run_id)
    shown = show_run(args.repo, args.run_id)
    emit(_json(shown) if args.json else _text(shown, args.repo), sys.stdout)
    return EXIT_OK


def _follow(repo: Path | None, name: str) -> str:
    """Show the progress of a run until nobody writes it; returns its id."""
    from orchestrator.app.runs.run_progress import TELLING, RunProgress, follow_run
    from orchestrator.report.progress_view import choose_progress_view

    progress = RunProgress()
    with choose_progress_view(sys.stdout, plain=progress.add) as view:
        for events in follow_run(repo, name):
            for event in events:
                view(event)
                progress.run_id = progress.run_id or event.detail
            if view == progress.add and any(event.kind in TELLING for event in events):
                emit(f"{progress}\n", sys.stdout)
    return progress.run_id


def _json(shown: ShownRun) -> str:
    parts = {"run": shown.info, "verdict": shown.verdict, "timeline": shown.timeline}
    return as_json(to_builtins(parts))


def _text(shown: ShownRun, repo: Path | None) -> str:
    from orchestrator.report.runs_text import render_runs, render_timeline
    from orchestrator.report.verdict_text import render_verdict

    width = width_of(sys.stdout)
    if shown.verdict is None:
        report = f"{render_runs([shown.info], width)}There is no verdict yet.\n"
    else:
        report = render_verdict(
            shown.verdict, width=width, color=use_color(sys.stdout), repo=repo, detail="verbose"
        )
    return f"{report}\nTimeline\n{render_timeline(shown.timeline, width)}"


def run_export(args: argparse.Namespace) -> int:
    """Write the verdict in each format."""
    if not args.formats:
        raise InputError("name a format with --format, for example --format sarif=results.sarif")
    from orchestrator.app.runs.stored_runs import load_verdict

    outputs = Outputs(args.formats)
    outputs.write(load_verdict(args.repo, args.source), args.repo)
    return EXIT_OK


def run_schema(args: argparse.Namespace) -> int:
    """Print the schema."""
    if args.document == "verdict":
        from orchestrator.code_review.verdict.model import json_schema as schema
    else:
        from orchestrator.app.statistics.statistics_document import json_schema as schema

    emit(as_json(schema()), sys.stdout)
    return EXIT_OK
