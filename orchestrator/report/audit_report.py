"""Audit results as text: verification of a journal, and the trail of who did what."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.cells import cell_len

from orchestrator.report.terminal_escaping import escape_line, escape_unprintable
from orchestrator.report.text_layout import MIN_WIDTH, TextLayout, pad
from orchestrator.wording import count_noun

if TYPE_CHECKING:
    from orchestrator.app.audit.audit_entries import AuditEntry, AuditTrail
    from orchestrator.app.audit.verification import VerifiedRun

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
