"""``diffcourt show``: print a run's report and timeline."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import to_builtins

from orchestrator.cli.arguments import add_repo, add_run
from orchestrator.cli.output import width_of
from orchestrator.errors import EXIT_OK
from orchestrator.report.terminal_escaping import as_json, emit, use_color

if TYPE_CHECKING:
    from orchestrator.app.types import ShownRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_run(parser, default="latest")
    add_repo(parser)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--json", action="store_true")
    group.add_argument("--follow", action="store_true")


def run(args: argparse.Namespace) -> int:
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
    verdict = None if shown.verdict is None else to_builtins(shown.verdict)
    return as_json(
        {
            "run": to_builtins(shown.info),
            "verdict": verdict,
            "timeline": [to_builtins(entry) for entry in shown.timeline],
        }
    )


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
