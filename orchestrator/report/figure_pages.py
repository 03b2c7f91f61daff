"""Parts of pages of figures: a head, then sections; no script, no network."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from orchestrator.report.formats.html_page import shared_style
from orchestrator.report.html_elements import render_section, render_table, text


class PageSection(Struct, frozen=True):
    """A part of a page; ``body`` is HTML. One without a body is left out."""

    id: str
    heading: str
    body: str


def render_document(title: str, head: str, sections: Sequence[PageSection]) -> str:
    """A page, ending in a newline.

    Args:
        head: HTML before the list of sections, with the page's ``h1``.
    """
    style = shared_style() + _own_style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    shown = [section for section in sections if section.body]
    links = "".join(f'<li><a href="#{s.id}">{text(s.heading)}</a></li>' for s in shown)
    body = "\n".join(render_section(s.id, text(s.heading), s.body) for s in shown)
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


def table(label: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already; nothing without rows."""
    return render_table(f"{label} (table)", head, rows)
