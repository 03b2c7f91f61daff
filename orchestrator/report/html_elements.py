"""Elements of HTML pages: escaped text, sections, tables and lists."""

from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import urlsplit

from orchestrator.report.terminal_escaping import escape_unprintable

MAX_TEXT = 4_000
"""Characters of an item's text that a page shows."""


def text(raw: str) -> str:
    """External text as HTML, with unprintable characters escaped."""
    return escape("\n".join(escape_unprintable(line.expandtabs(4)) for line in raw.split("\n")))


def render_section(name: str, heading: str, body: str) -> str:
    """A part of the page; ``body`` is HTML."""
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{heading}</h2>{body}</section>'


def render_table(label: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are HTML already; nothing without rows."""
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-name="{name}">{cell}</td>' for name, cell in zip(head, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    if not body:
        return ""
    names = "".join(f'<th scope="col">{name}</th>' for name in head)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table class="list">'
        f"<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def figure(caption: str, note: str, svg: str) -> str:
    """A chart with what it shows."""
    return (
        f"<figure><figcaption>{text(caption)}<small>{text(note)}</small></figcaption>{svg}</figure>"
    )


def link(name: str, url: str) -> str:
    """A name, as a link where its address is of the web."""
    if urlsplit(url).scheme not in {"http", "https"}:
        return text(name)
    return f'<a rel="noreferrer" href="{escape(url)}">{text(name)}</a>'


def quote(raw: str) -> str:
    """An item's text; nothing where it has none."""
    cut = raw[:MAX_TEXT].rstrip()
    more = "…" if len(raw.rstrip()) > len(cut) else ""
    return f"<blockquote>{text(cut)}{more}</blockquote>" if cut else ""


def bullets(lines: Iterable[str]) -> str:
    """A list of external texts; nothing without any."""
    items = "".join(f"<li>{text(line)}</li>" for line in lines)
    return f'<ul class="plain">{items}</ul>' if items else ""


def fold(summary: str, body: str) -> str:
    """Something that is unfolded by a click; nothing without a body."""
    return f"<details><summary>{text(summary)}</summary>{body}</details>" if body else ""
