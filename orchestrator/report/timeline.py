"""A run's journal as a timeline: events by iteration, state and agent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.cells import cell_len

from orchestrator.engine.journal_keys import Key
from orchestrator.report.terminal_escaping import escape_line, escape_unprintable
from orchestrator.report.text_layout import MIN_WIDTH, TextLayout, format_duration, pad

if TYPE_CHECKING:
    from orchestrator.app.types import TimelineEntry

KIND_WIDTH = 12
STEP_WIDTH = 24


def render_timeline(records: Iterable[TimelineEntry], width: int = 80) -> str:
    """One line per effect, by iteration and state, within these by agent; ends in a newline.

    Agents run concurrently, so each agent's entries are grouped; the time column shows what ran in
    parallel.
    """
    page = TextLayout(max(width, MIN_WIDTH))
    groups: dict[str, dict[str, list[tuple[str, TimelineEntry]]]] = {}
    for record in sorted(records, key=lambda record: record.seq):
        heading, agent, step = _split_key(record.key)
        groups.setdefault(heading, {}).setdefault(agent, []).append((step, record))
    if not groups:
        return "No entries are recorded yet.\n"
    entries = [row for agents in groups.values() for rows in agents.values() for row in rows]
    kinds = min(max(cell_len(escape_unprintable(record.kind)) for _, record in entries), KIND_WIDTH)
    steps = min(max(cell_len(escape_unprintable(step)) for step, _ in entries), STEP_WIDTH)
    lines = [f"{'#':>6} {'at':>8} {'took':>7}  what"]
    for heading, agents in groups.items():
        lines += ["", escape_unprintable(heading)]
        for agent, rows in agents.items():
            if agent:
                lines.append(f"  {escape_unprintable(agent)}")
            for step, record in rows:
                lines += _render_entry(page, step, record, kinds, steps)
    return "\n".join(lines) + "\n"


def _split_key(key: str) -> tuple[str, str, str]:
    """A key such as ``2/act/security/turn3/model`` as (state with its iteration, agent, step)."""
    found = Key.parse(key)
    if found.iteration:
        heading = f"iteration {found.iteration}, {found.part}"
        return heading, found.name, found.place_in_task
    if found.place_in_task:
        return "run", found.part, found.place_in_task
    return "run", "", key


def _render_entry(
    page: TextLayout, step: str, record: TimelineEntry, kinds: int, steps: int
) -> list[str]:
    took = "" if record.seconds is None else format_duration(record.seconds)
    start = (
        f"{record.seq:>6} {record.at:>7.2f}s {took:>7}  "
        f"{pad(escape_unprintable(record.kind), kinds)}  {pad(escape_unprintable(step), steps)}  "
    )
    return page.wrap(escape_line(record.summary), first=start, limit=3)
