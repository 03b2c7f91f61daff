"""The list of runs as a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.cells import cell_len

from orchestrator.report.terminal_escaping import escape_line, escape_unprintable
from orchestrator.report.text_layout import MIN_WIDTH, pad, truncate

if TYPE_CHECKING:
    from orchestrator.app.types import RunInfo

MIN_CHANGE_WIDTH = 14
_COMMIT = re.compile(r"\b([0-9a-f]{6})[0-9a-f]{34,}\b")  # two of them fit into MIN_CHANGE_WIDTH


def render_runs(rows: Sequence[RunInfo], width: int = 80) -> str:
    """Runs as a table, in the given order; ends in a newline."""
    if not rows:
        return "No runs yet. Start one with: diffcourt review\n"
    table = [("run", "started", "result", "found", "change")]
    table += [_format_cells(row) for row in rows]
    widths = [max(cell_len(row[column]) for row in table) for column in range(4)]
    room = max(max(width, MIN_WIDTH) - sum(widths) - 2 * len(widths), MIN_CHANGE_WIDTH)
    lines = []
    for row in table:
        cells = [pad(cell, size) for cell, size in zip(row[:3], widths, strict=False)]
        cells += [" " * (widths[3] - cell_len(row[3])) + row[3], truncate(row[4], room)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def _format_cells(row: RunInfo) -> tuple[str, str, str, str, str]:
    """A row's cells; the result is the verdict, or the state of a run without a final one."""
    unfinished = row.state in {"waiting", "cancelled", "unreadable"}
    result = row.state if unfinished else row.verdict or row.state
    return (
        escape_unprintable(row.run_id),
        _format_local_time(row.started),
        escape_unprintable(result.replace("_", " ")),
        "-" if row.findings is None else f"{row.findings:,}",
        escape_line(_COMMIT.sub(r"\1", row.change)),
    )


def _format_local_time(started: str) -> str:
    """An ISO time as local date, hours and minutes; any other text unchanged."""
    try:
        moment = datetime.fromisoformat(started)
    except ValueError:
        return escape_unprintable(started)
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")
