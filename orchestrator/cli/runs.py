"""``diffcourt runs``."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from orchestrator.cli.output import as_json, emit, width_of
from orchestrator.cli.parsing import add_json_flag, add_repo


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add_repo(parser)
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Print the list."""
    from orchestrator import app
    from orchestrator.report.runs import render_runs

    found = app.runs(args.repo)
    if args.json:
        emit(as_json([asdict(info) for info in found]), sys.stdout)
    else:
        emit(render_runs(found, width_of(sys.stdout)), sys.stdout)
    return 0
