"""An audit on screen: whether a journal is as it was written, and who did what."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.cells import cell_len

from orchestrator.report.terminal_escaping import escape_line, escape_unprintable
from orchestrator.report.text_layout import MIN_WIDTH, Page, count_noun, pad

if TYPE_CHECKING:
    from orchestrator.app.audit.trail import Act, AuditTrail
    from orchestrator.app.audit.verification import VerifiedRun

WHO_WIDTH = 14
AUTHORITY_WIDTH = 24
MOST_FAULTS = 20


def render_verification(done: VerifiedRun, width: int = 80) -> str:
    """The outcome first, then what it rests on, then what it cannot tell; ends in a newline."""
    page, found = Page(max(width, MIN_WIDTH)), done.found
    word = "TAMPERED" if found.faults else "INTACT"
    lines = [f"{word}   run {escape_unprintable(done.run_id)}, {count_noun(found.rows, 'row')}"]
    lines += page.items([f.what for f in found.faults], most=MOST_FAULTS, rest="more faults")
    lines += [f"Length   {found.rows}", f"Head     {found.head}"]
    if found.signed_to:
        lines.append(f"Signed   rows 1 to {found.signed_to}, checked")
    if done.writer:
        lines.append(f"Writer   {escape_unprintable(done.writer)}: not all of it is there yet")
    if not done.finished:
        lines.append("Verdict  none is recorded: the run did not end, or its end was cut off")
    if found.gaps:
        lines += ["", "Not told by what was given", *page.items(found.gaps)]
    return "\n".join(lines) + "\n"


def render_audit_trail(trail: AuditTrail, width: int = 80) -> str:
    """One entry per act, in the order in which they began, refusals marked; ends in a newline."""
    page, acts = Page(max(width, MIN_WIDTH)), trail.acts
    refused = sum(act.refused for act in acts)
    counts = f"{count_noun(len(acts), 'act')}, {refused} refused"
    head = f"Run {escape_unprintable(trail.run_id)}   {counts}"
    if not acts:
        return f"{head}\nNothing is recorded yet.\n"
    who = min(max(cell_len(escape_unprintable(act.who)) for act in acts), WHO_WIDTH)
    authority = min(max(cell_len(_authority(act)) for act in acts), AUTHORITY_WIDTH)
    lines, day = [head], ""
    for act in acts:
        moment = datetime.fromtimestamp(act.at, UTC)
        if day != (day := f"{moment:%Y-%m-%d}"):
            lines += ["", f"{day} UTC"]
        first = f"{act.row:>6} {moment:%H:%M:%S}  {pad(escape_unprintable(act.who), who)}  "
        first += f"{pad(_authority(act), authority)}  "
        text = f"{act.what}: {act.outcome}" if act.outcome else act.what
        lines += page.wrap(escape_line(text), first=first, most=4)
    return "\n".join(lines) + "\n"


def _authority(act: Act) -> str:
    # What refused it is in the outcome, which has the room for it.
    parts = ("REFUSED", act.level) if act.refused else (act.level, act.authority)
    return escape_unprintable(" ".join(filter(None, parts)))
