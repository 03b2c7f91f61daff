"""Runs as text: their list, one's journal as a timeline, and the results of an audit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.cells import cell_len

from orchestrator.engine.journal_keys import Key
from orchestrator.report.ranking import UNREAD, name_outcome
from orchestrator.report.terminal_escaping import escape_line, escape_unprintable
from orchestrator.report.text_layout import MIN_WIDTH, TextLayout, format_duration, pad, truncate
from orchestrator.wording import count_noun

if TYPE_CHECKING:
    from orchestrator.app.audit.verification import AuditEntry, AuditTrail, VerifiedRun
    from orchestrator.app.types import RunInfo, TimelineEntry

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
    if any(row.verdict and not row.is_read for row in rows):
        lines.append(f"* by analyzers; {UNREAD}")
    return "\n".join(lines) + "\n"


def _format_cells(row: RunInfo) -> tuple[str, str, str, str, str]:
    """A row's cells; the result is the verdict, or the state of a run without a final one."""
    unfinished = row.state in {"waiting", "cancelled", "unreadable"} or not row.verdict
    outcome = name_outcome(row.verdict or "", found=bool(row.findings)).lower()
    result = row.state if unfinished else outcome.removesuffix(" findings")
    mark = "*" * bool(row.verdict and not row.is_read)
    return (
        escape_unprintable(row.run_id),
        _format_local_time(row.started),
        escape_unprintable(result),
        "-" if row.findings is None else f"{row.findings:,}{mark}",
        escape_line(_COMMIT.sub(r"\1", row.change)),
    )


def _format_local_time(started: str) -> str:
    """An ISO time as local date, hours and minutes; any other text unchanged."""
    try:
        moment = datetime.fromisoformat(started)
    except ValueError:
        return escape_unprintable(started)
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


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


WHO_WIDTH = 14
AUTHORITY_WIDTH = 24
MAX_ERRORS = 20


def render_verification(done: VerifiedRun, width: int = 80) -> str:
    """The outcome, the evidence, and what could not be verified; ends in a newline."""
    page, found = TextLayout(max(width, MIN_WIDTH)), done.found
    outcome = "TAMPERED" if found.errors else "INTACT"
    lines = [f"{outcome}   run {escape_unprintable(done.run_id)}, {count_noun(found.rows, 'row')}"]
    lines += page.bullet_list([f.what for f in found.errors], limit=MAX_ERRORS, rest="more errors")
    lines += [f"Length   {found.rows}", f"Head     {found.head}"]
    if found.signed_to:
        lines.append(f"Signed   rows 1 to {found.signed_to}, checked")
    if done.writer:
        lines.append(f"Writer   {escape_unprintable(done.writer)}: the run is still being written")
    if not done.finished:
        lines.append(
            "Verdict  not recorded: the run has not finished, or its journal was truncated"
        )
    if found.gaps:
        lines += ["", "Not verifiable with the given evidence", *page.bullet_list(found.gaps)]
    return "\n".join(lines) + "\n"


def render_audit_trail(trail: AuditTrail, width: int = 80) -> str:
    """One entry per action, in order of their start, refusals marked; ends in a newline."""
    page, entries = TextLayout(max(width, MIN_WIDTH)), trail.entries
    refused = sum(entry.refused for entry in entries)
    counts = f"{count_noun(len(entries), 'action')}, {refused} refused"
    head = f"Run {escape_unprintable(trail.run_id)}   {counts}"
    if not entries:
        return f"{head}\nNo entries are recorded yet.\n"
    who = min(max(cell_len(escape_unprintable(entry.who)) for entry in entries), WHO_WIDTH)
    authority = min(max(cell_len(_format_authority(entry)) for entry in entries), AUTHORITY_WIDTH)
    lines, day = [head], ""
    for entry in entries:
        moment = datetime.fromtimestamp(entry.at, UTC)
        if day != (day := f"{moment:%Y-%m-%d}"):
            lines += ["", f"{day} UTC"]
        first = f"{entry.row:>6} {moment:%H:%M:%S}  {pad(escape_unprintable(entry.who), who)}  "
        first += f"{pad(_format_authority(entry), authority)}  "
        text = f"{entry.what}: {entry.outcome}" if entry.outcome else entry.what
        lines += page.wrap(escape_line(text), first=first, limit=4)
    return "\n".join(lines) + "\n"


def _format_authority(entry: AuditEntry) -> str:
    # What refused it is in the outcome, which has room for it.
    parts = ("REFUSED", entry.level) if entry.refused else (entry.level, entry.authority)
    return escape_unprintable(" ".join(filter(None, parts)))
