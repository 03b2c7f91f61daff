"""The ``rubric`` subcommands that learn from people's labels without fitting: disagree."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, TextIO

from orchestrator.cli.commands.rubric.shared_inputs import (
    add_items,
    add_labels,
    load_inputs,
    to_json_data,
)
from orchestrator.cli.output import OutputTarget, emit, use_color, width_of
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_OK
from orchestrator.report.terminal_escaping import as_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Struct


def add_label_commands(part: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add the subcommands and their options."""
    p = part("disagree", "list where the rubric and people disagree, the surest first")
    add_items(p)
    add_labels(p)
    p.add_argument("--all", action="store_true", help="everything, with text, scores and reasons")
    _add_json(p)
    p.set_defaults(do=disagree)


def _add_json(p: argparse.ArgumentParser) -> None:
    p.add_argument("--json", metavar="FILE", help="write the full result as JSON; - for stdout")


def disagree(args: argparse.Namespace, out: TextIO) -> int:
    """Print the disagreements of a rubric with people."""
    target = OutputTarget(args.json) if args.json else None
    read = load_inputs(args)
    from orchestrator.report.tuning.label_reports import render_disagreements
    from orchestrator.tuning.disagreements import find_disagreements

    found = find_disagreements(read.rubric, read.items, read.labels, args.accept_at)
    text = render_disagreements(found, width_of(out), use_color(out), args.all)
    return _finish(found, text, found.is_trusted, target, out)


def _finish(
    found: Struct, text: str, trusted: bool | None, target: OutputTarget | None, out: TextIO
) -> int:
    """Print a result, and give the exit code: trusted, not trusted, or cannot tell."""
    if target is None or not target.to_stdout:
        emit(text, out)
    if target is not None:
        target.write(as_json({"trusted": trusted, **to_json_data(found)}))
    return {True: EXIT_OK, False: EXIT_GATED, None: EXIT_INCOMPLETE}[trusted]
