"""A page of plain text: widths in cells, wrapping with a hanging indent, a little color."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from rich.cells import cell_len, chop_cells

from orchestrator.report.terminal_escaping import escape_line

MIN_WIDTH = 40
DEEP_INDENT = " " * 8
"""Deeper than any line of ours begins, so that wrapped text from outside never looks like one."""
_STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "1;31",
    "yellow": "1;33",
    "green": "1;32",
    "blue": "1;34",
}


def count_noun(count: int, noun: str) -> str:
    """``1 file``, ``1,204 files``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def render_omitted(total: int, most: int, what: str = "in the JSON") -> list[str]:
    """The line that tells how many were left out of a list; none when all of it is shown."""
    return [f"  and {total - most:,} more {what}"] if total > most else []


def format_duration(seconds: float) -> str:
    """A time span in the unit that reads best: ``4 ms``, ``3.2 s``, ``12m 05s``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m {rest:02d}s"


def truncate(text: str, width: int) -> str:
    """The text in at most ``width`` cells; a cut is shown by three dots."""
    start = text[: 4 * width]  # of a line of megabytes, only the beginning is measured
    if start == text and cell_len(text) <= width:
        return text
    return chop_cells(start, max(width - 3, 1))[0].rstrip() + "..."


def pad(text: str, width: int) -> str:
    """The text in exactly ``width`` cells, cut or filled on the right."""
    text = truncate(text, width)
    return text + " " * (width - cell_len(text))


def _words(text: str, room: int) -> Iterator[str]:
    for word in text.split(" "):
        if cell_len(word) <= room:
            yield word
        else:
            yield from chop_cells(word, room)


class Page(Struct, frozen=True):
    """How wide to write, and whether in color.

    Attributes:
        width: columns of the terminal.
        color: ANSI codes are used, around text that was already laid out.
    """

    width: int = 80
    color: bool = False

    def paint(self, text: str, style: str) -> str:
        """The text in a style, or as it is."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.color and text else text

    def heading(self, text: str, style: str = "bold") -> str:
        """A section's first line."""
        return self.paint(text, style)

    def wrap(
        self, text: str, *, first: str = "", rest: str | None = None, most: int = 12
    ) -> list[str]:
        """Printable one-line text as lines no wider than the page.

        Args:
            text: already made visible.
            first: what the first line begins with.
            rest: what the others begin with; spaces as wide as ``first`` when None.
            most: lines at the most; a cut is shown by three dots.
        """
        rest = " " * cell_len(first) if rest is None else rest
        if len(text) > self.width * most:
            text = text[: self.width * most] + "..."
        lines, line, fresh = [], first, True
        for word in _words(text, max(self.width - cell_len(rest), 8)):
            joined = line + ("" if fresh else " ") + word
            if cell_len(joined) > self.width and line != rest:
                # A first part that leaves no room for a word stands on a line of its own.
                lines.append(line.rstrip())
                joined = rest + word
            line, fresh = joined, False
        lines.append(line.rstrip())
        if len(lines) > most:
            lines = [*lines[: most - 1], truncate(lines[most - 1], self.width - 4) + " ..."]
        return lines

    def items(self, texts: Sequence[str], *, most: int = 20, rest: str = "more") -> list[str]:
        """A list of sentences from outside, each with a dash, the number left out at the end."""
        lines: list[str] = []
        for text in texts[:most]:
            lines += self.wrap(escape_line(text), first="  - ", most=6)
        if len(texts) > most:
            lines.append(f"  and {len(texts) - most:,} {rest}")
        return lines

    def facts(self, parts: Iterable[str], *, first: str = "") -> list[str]:
        """Short facts side by side, a new line where the next one does not fit."""
        indent = " " * cell_len(first)
        lines, line, fresh = [], first, True
        for part in filter(None, parts):
            joined = line + ("" if fresh else "   ") + part
            if cell_len(joined) > self.width and not fresh:
                lines.append(line)
                joined = indent + part
            line, fresh = joined, False
        return [*lines, line]
