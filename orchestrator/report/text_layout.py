"""Plain-text layout: widths in terminal cells, wrapping with a hanging indent, color."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from rich.cells import cell_len, chop_cells

from orchestrator.report.terminal_escaping import escape_line, escape_unprintable
from orchestrator.wording import count_noun

MIN_WIDTH = 40
NAME_WIDTH = 24
LONGEST_WORD = 20
UNBOUNDED = 1_000_000_000
DEEP_INDENT = " " * 8
"""Deeper than any line of a report, so that wrapped external text never looks like one."""
_STYLES = {
    "bold": "1", "dim": "2", "red": "1;31", "yellow": "1;33", "green": "1;32", "blue": "1;34",
}  # fmt: skip


def format_duration(seconds: float) -> str:
    """A time span in the unit that reads best: ``4 ms``, ``3.2 s``, ``12m 05s``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m {rest:02d}s"


def truncate(text: str, width: int) -> str:
    """The text in at most ``width`` cells, cut between words; three dots mark truncation."""
    start = text[: 4 * width]  # only the beginning of a very long line is measured
    if start == text and cell_len(text) <= width:
        return text
    kept = chop_cells(start, max(width - 3, 1))[0]
    words, blank, last = kept.rpartition(" ")
    is_word = blank and len(last) <= LONGEST_WORD and text[len(kept)] != " "
    return (words if is_word else kept).rstrip() + "..."


def pad(text: str, width: int) -> str:
    """The text in exactly ``width`` cells, truncated or padded on the right."""
    text = truncate(text, width)
    return text + " " * (width - cell_len(text))


def _split_words(text: str, room: int) -> Iterator[str]:
    for word in text.split(" "):
        if cell_len(word) <= room:
            yield word
        else:
            yield from chop_cells(word, room)


class TextLayout(Struct, frozen=True):
    """Layout settings of a report.

    Attributes:
        width: columns of the terminal.
        color: use ANSI codes, applied after layout.
        items: entries that are shown of each list; None: everything, and no text is cut.
        more: the command that prints what is left out.
        fix: the command that applies patches, before the ids of findings.
        verbose: with what else is of interest to few, such as refused patches.
    """

    width: int = 80
    color: bool = False
    items: int | None = None
    more: str = ""
    fix: str = "diffcourt fix"
    verbose: bool = False

    def cut(self, lines: int) -> int:
        """The most lines of one text: two where room is scarcest, no bound without ``items``."""
        if self.items is None:
            return UNBOUNDED
        return min(lines, 2) if self.items == 1 else lines

    def omitted(self, total: int, noun: str = "") -> list[str]:
        """The line that counts what ``items`` leaves out and says how to see it."""
        if self.items is None or total <= self.items:
            return []
        left = total - self.items
        count = count_noun(left, f"more {noun}") if noun else f"{left:,} more"
        return self.wrap(f"and {count}: {self.more}", first="  ")

    def paint(self, text: str, style: str) -> str:
        """The text in a style, unchanged without color."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.color and text else text

    def heading(self, text: str, style: str = "bold") -> str:
        """A section's first line."""
        return self.paint(text, style)

    def section(
        self,
        heading: str,
        texts: Sequence[str],
        *,
        first: str = "  ",
        rest: str | None = None,
        limit: int = 3,
    ) -> list[str]:
        """External texts under a heading, with the number of omitted ones; empty without any."""
        lines = [self.heading(heading)] if texts else []
        for text in texts[: self.items]:
            lines += self.wrap(escape_line(text), first=first, rest=rest, limit=self.cut(limit))
        return lines + self.omitted(len(texts))

    def wrap(
        self, text: str, *, first: str = "", rest: str | None = None, limit: int = 12
    ) -> list[str]:
        """Wrap printable one-line text to the page's width.

        Args:
            text: escaped already.
            first: prefix of the first line.
            rest: prefix of the other lines; spaces as wide as ``first`` when None.
            limit: maximum number of lines; truncation is marked by three dots.
        """
        rest = " " * cell_len(first) if rest is None else rest
        cut = len(text) > self.width * limit
        if cut:
            text = text[: self.width * limit]
        lines, line, fresh = [], first, True
        for word in _split_words(text, max(self.width - cell_len(rest), 8)):
            joined = line + ("" if fresh else " ") + word
            if cell_len(joined) > self.width and line != rest:
                # A prefix that leaves no room for a word gets a line of its own.
                lines.append(line.rstrip())
                joined = rest + word
            line, fresh = joined, False
        lines.append(line.rstrip())
        if cut or len(lines) > limit:
            last = lines[:limit][-1].rstrip(" .")
            lines = [*lines[: limit - 1], truncate(last, self.width - 4).rstrip(" .") + " ..."]
        return lines

    def bullet_list(
        self, texts: Sequence[str], *, limit: int = 20, rest: str = "more"
    ) -> list[str]:
        """A bulleted list of external texts, with the number of omitted ones at the end."""
        lines: list[str] = []
        for text in texts[:limit]:
            lines += self.wrap(escape_line(text), first="  - ", limit=6)
        if len(texts) > limit:
            lines.append(f"  and {len(texts) - limit:,} {rest}")
        return lines

    def inline_list(self, parts: Iterable[str], *, first: str = "") -> list[str]:
        """Short texts side by side, with a line break where the next one does not fit."""
        indent = " " * cell_len(first)
        lines, line, fresh = [], first, True
        for part in filter(None, parts):
            joined = line + ("" if fresh else "   ") + part
            if cell_len(joined) > self.width and not fresh:
                lines.append(line)
                joined = indent + part
            line, fresh = joined, False
        return [*lines, line]


def render_name_list(parts: Mapping[str, Sequence[tuple[str, str]]], width: int = 80) -> str:
    """Name → description lists under headings, ending in a newline."""
    page = TextLayout(max(width, MIN_WIDTH))
    names = [escape_unprintable(name) for entries in parts.values() for name, _ in entries]
    column = min(max(map(cell_len, names), default=0), NAME_WIDTH)
    lines: list[str] = []
    for part, entries in parts.items():
        lines += ["", f"{part.capitalize()} ({len(entries)})"]
        for name, description in entries:
            first = f"  {pad(escape_unprintable(name), column)}  "
            lines += page.wrap(escape_line(description), first=first, limit=3)
    return "\n".join(lines[1:]) + "\n"
