"""Names with descriptions, part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len

from orchestrator.report.terminal_escaping import escape_line, escape_unprintable
from orchestrator.report.text_layout import MIN_WIDTH, Page, pad

NAME_WIDTH = 24


def render_name_list(parts: Mapping[str, Sequence[tuple[str, str]]], width: int = 80) -> str:
    """Each part's heading, then a line per name with its description; ends in a newline."""
    page = Page(max(width, MIN_WIDTH))
    names = [escape_unprintable(name) for entries in parts.values() for name, _ in entries]
    column = min(max(map(cell_len, names), default=0), NAME_WIDTH)
    lines: list[str] = []
    for part, entries in parts.items():
        lines += ["", f"{part.capitalize()} ({len(entries)})"]
        for name, description in entries:
            first = f"  {pad(escape_unprintable(name), column)}  "
            lines += page.wrap(escape_line(description), first=first, most=3)
    return "\n".join(lines[1:]) + "\n"
