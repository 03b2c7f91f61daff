"""Statistics as a short text for a terminal, and as CSV."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec import to_builtins
from rich.cells import cell_len

from orchestrator.app.statistics.statistics_document import Figures, Grouping, Statistics, rows_by
from orchestrator.data_directories import read_table
from orchestrator.report.page_templates import new_text_environment
from orchestrator.report.terminal_escaping import escape_line, escape_unprintable
from orchestrator.report.text_layout import TextLayout, format_duration, pad
from orchestrator.tuning.file_formats.text_files import write_csv

LISTED = 10
NAME = 30
LABEL = 10


def percent(share: float | None) -> str:
    """``4.2%``; a dash where there is nothing to divide by."""
    return "-" if share is None else f"{share:.1%}"


def dollars(usd: float | None) -> str:
    """``$12.40``, with more digits below a dollar."""
    if usd is None:
        return "-"
    return f"${usd:,.2f}" if usd >= 1 or not usd else f"${usd:.4f}"


def tokens(count: float | None) -> str:
    """``81.2M``, ``12.4k``, ``950``."""
    if count is None:
        return "-"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return f"{count:.0f}"


def duration(seconds: float | None) -> str:
    """``4 ms``, ``3.2 s``, ``12m 05s``; a dash where there is none."""
    return "-" if seconds is None else format_duration(seconds)


def render_statistics(statistics: Statistics, width: int = 80) -> str:
    """The overview: about ten lines, ending in a newline."""
    page = TextLayout(width)
    lines: list[str] = []
    for label, parts in overview(statistics):
        start = f"{label:<{LABEL}}"
        lines += page.inline_list([escape_unprintable(part) for part in parts if part], first=start)
    return "\n".join(lines) + "\n"


_FATES = ("open", "fixed", "dismissed", "waived")


@cache
def _macros() -> Any:
    known = {"percent": percent, "dollars": dollars, "tokens": tokens, "span": duration}
    made = new_text_environment("orchestrator.report", **known, fates=_FATES)
    return made.get_template("overview.txt").module


def overview(statistics: Statistics) -> Iterator[tuple[str, list[str]]]:
    """The lines of the overview: a label and its parts."""
    for line in str(_macros().overview(statistics)).split("\n"):
        label, *parts = line.split("\t")
        if label:
            yield label, parts


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.1f}"


_COLUMNS: Mapping[str, Sequence[tuple[str, str, str]]] = {
    **read_table(__file__, "columns.yaml"),
    "rule": [(name, f"counts.{name}", "number") for name in ("found", *_FATES)],
}
_CELLS: Mapping[str, Callable[[Any], str]] = {
    cell.__name__.lstrip("_"): cell for cell in (_number, percent, dollars, tokens, duration)
}


def render_groups(
    statistics: Statistics, by: Grouping, width: int = 80, limit: int | None = LISTED
) -> str:
    """One line per agent, tool, model, rule or pattern, the most frequent first.

    Args:
        limit: lines at most; None: all.
    """
    titles, rows, left = table_of(statistics, by, limit)
    if not rows:
        return f"no {by} in these runs\n"
    names = [escape_line(name) for name, *_ in rows]
    cells = [row[1:] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    room = max(12, min(NAME if by != "rule" else width, width - sum(widths) - 2 * len(widths)))
    first = min(room, max([len(by), *map(cell_len, names)]))
    lines = [_line(by, titles, first, widths)]
    lines += [_line(name, row, first, widths) for name, row in zip(names, cells, strict=True)]
    if left:
        lines.append(f"and {left:,} more; --all lists them")
    return "\n".join(lines) + "\n"


def table_of(
    statistics: Statistics, by: Grouping, limit: int | None
) -> tuple[list[str], list[list[str]], int]:
    """The titles of the columns behind the name, a row for each group, and how many are left out.

    A row is the group's name and its cells.
    """
    groups, columns = rows_by(statistics, by), _COLUMNS[by]
    rows = [
        [group.name, *(_CELLS[cell](_value_at(group, path)) for _, path, cell in columns)]
        for group in groups[:limit]
    ]
    return [title for title, _, _ in columns], rows, len(groups) - len(rows)


def _line(name: str, cells: Iterable[str], first: int, widths: Iterable[int]) -> str:
    row = "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
    return f"{pad(name, first)}{row}"


def _value_at(group: Any, path: str) -> Any:
    for part in path.split("."):
        group = getattr(group, part)
    return group


def render_csv(statistics: Statistics, by: Grouping | None) -> str:
    """``figure,value`` lines of the total; or one line per group with all its figures."""
    if by is None:
        return write_csv([("figure", "value"), *_flat(statistics.total)])
    rows = [dict(_flat(group)) for group in rows_by(statistics, by)]
    names = list(dict.fromkeys(name for row in rows for name in row)) or ["name"]
    return write_csv([names, *([row.get(name) for name in names] for row in rows)])


def _flat(group: Figures | Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in to_builtins(group).items():
        place = f"{above}{name}".removeprefix("figures.")
        if isinstance(value, dict):
            yield from _flat(value, f"{place}.")
        else:
            yield place, value
