"""Parts of pages of figures: a head, then sections; no script, no network."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from orchestrator.report.formats.html_page import shared_style
from orchestrator.report.formats.html_page.overview import render_table
from orchestrator.report.terminal_escaping import escape_unprintable

MOST_TEXT = 4_000
"""Characters of an item's text that a page shows."""


class Section(Struct, frozen=True):
    """A part of a page; ``body`` is HTML. One without a body is left out."""

    id: str
    heading: str
    body: str


def render_document(title: str, head: str, sections: Sequence[Section]) -> str:
    """A page, ending in a newline.

    Args:
        head: HTML before the list of sections, with the page's ``h1``.
    """
    style = shared_style() + _own_style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    shown = [section for section in sections if section.body]
    links = "".join(f'<li><a href="#{s.id}">{text(s.heading)}</a></li>' for s in shown)
    body = "\n".join(
        f'<section aria-labelledby="{s.id}"><h2 id="{s.id}">{text(s.heading)}</h2>'
        f"{s.body}</section>"
        for s in shown
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        # Nothing may be fetched or executed, whatever an item's text contains.
        '<meta http-equiv="Content-Security-Policy" content="'
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'\">"
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{text(title)}</title><style>{style}</style></head>\n"
        '<body><a class="skip" href="#content">Skip to the details</a>\n'
        f'<header><div>{head}<nav aria-label="Sections"><ul>{links}</ul></nav></div></header>\n'
        f'<main id="content">\n{body}\n</main></body></html>\n'
    )


@cache
def _own_style() -> str:
    return Path(__file__).with_suffix(".css").read_text(encoding="utf-8")


def text(raw: str) -> str:
    """External text as HTML."""
    return escape("\n".join(map(escape_unprintable, raw.expandtabs(4).split("\n"))))


def table(label: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already; nothing without rows."""
    return render_table(f"{label} (table)", head, rows)


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
    cut = raw[:MOST_TEXT].rstrip()
    more = "…" if len(raw.rstrip()) > len(cut) else ""
    return f"<blockquote>{text(cut)}{more}</blockquote>" if cut else ""


def bullets(lines: Iterable[str]) -> str:
    """A list of external texts; nothing without any."""
    items = "".join(f"<li>{text(line)}</li>" for line in lines)
    return f'<ul class="plain">{items}</ul>' if items else ""


def fold(summary: str, body: str) -> str:
    """Something that is unfolded by a click; nothing without a body."""
    return f"<details><summary>{text(summary)}</summary>{body}</details>" if body else ""
