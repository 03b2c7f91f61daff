"""HTML pages, their elements and plain-text reports, of templates in which every value is escaped.

The first characters of a line in a template of plain text say how it is laid out:

- ``# `` is a heading, ``=`` a row that is not wrapped, ``~`` an empty line;
- any other line is wrapped below its indent and its ``- ``, four columns deeper after ``> ``, or
  below what stands behind ``{{ hang }}``;
- an empty line only separates parts of the template.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct

from orchestrator.report.terminal_escaping import escape_line, escape_unprintable
from orchestrator.report.text_layout import TextLayout, format_duration, pad, truncate
from orchestrator.wording import count_noun


class PageSection(Struct, frozen=True):
    """A part of a page; one without a body is left out."""

    id: str
    heading: str
    body: Markup


def new_environment(package: str, **known: Any) -> Environment:
    """The templates of a package: every value is escaped, and a missing one is an error."""
    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=make_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        digest=_digest, duration=format_duration, line=escape_line, number="{:,}".format
    )
    made.globals.update(known, noun=count_noun)
    return made


@cache
def _environment() -> Environment:
    return new_environment("orchestrator.report")


def make_printable(value: Any) -> Any:
    """A value without characters that are not seen; nothing for None."""
    if value is None:
        return ""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "\n".join(escape_unprintable(line.expandtabs(4)) for line in value.split("\n"))


def render(template: str, **context: Any) -> Markup:
    """A template of ``report/templates`` as HTML."""
    made = _environment().get_template(template).render(context)
    return Markup(made)  # noqa: S704 - the template escapes


def element(name: str, *values: Any) -> Markup:
    """An element of ``elements.html``."""
    found: Markup = getattr(_environment().get_template("elements.html").module, name)(*values)
    return found


def html(literal: str, *values: Any) -> Markup:
    """A literal as HTML, with values in place of its ``{}``, escaped as in a template."""
    return Markup(literal).format(*map(make_printable, values))  # noqa: S704 - not the values


def join(parts: Iterable[Markup]) -> Markup:
    """Parts one after the other."""
    return Markup().join(parts)


def table(label: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Markup:
    """A table; nothing without rows."""
    return element("table", f"{label} (table)", head, [*rows])


def charts(*figures: tuple[str, str, Markup]) -> Markup:
    """Charts beside each other, each with its caption and a note."""
    return html('<div class="charts">{}</div>', join(element("figure", *one) for one in figures))


def render_document(
    template: str, title: str, sections: Sequence[PageSection], **context: Any
) -> str:
    """A page of figures, ending in a newline: a head, then sections; no script, no network."""
    style = asset("shared.css") + asset("figures.css")
    shown = [one for one in sections if one.body]
    return render(template, title=title, style=style, sections=shown, **context) + "\n"


@cache
def asset(name: str) -> str:
    """Our own style or script, of ``report/templates``."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    """What a Content-Security-Policy calls a style or script."""
    found = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(found).decode()}"


_STYLED = re.compile("\x01(.+?)\x01")
_BESIDE, _HANG = "\x02", "\x03"
"""These marks cannot be in a value: there they are escaped."""
_START = re.compile(r"( *)(> |- )?")


def new_text_environment(package: str, **known: Any) -> Environment:
    """The text templates of a package; ``known`` is what every one of them may use."""
    hang = Markup(_HANG)  # noqa: S704 - our mark
    made = new_environment(package, paint=_paint, side_by_side=_join, hang=hang, **known)
    made.finalize = _make_printable
    made.filters.update(pad=_pad, cut=lambda text, width: truncate(escape_line(text), width))
    return made


@cache
def text_macros(template: str) -> Any:
    """The macros of a text template of ``report/templates`` that needs nothing but its values."""
    return new_text_environment("orchestrator.report").get_template(template).module


def render_lines(page: TextLayout, module: Any, macro: str, *values: Any) -> list[str]:
    """What a template's macro makes of some values, as the lines of a page."""
    text = str(getattr(module, macro)(*values))
    return [line for raw in text.split("\n") if raw.strip() for line in _lay_out(page, raw)]


def _lay_out(page: TextLayout, raw: str) -> list[str]:
    if raw[0] in "~=":
        styled = _STYLED.match(raw, 1)
        row = raw[styled.end() if styled else 1 :].rstrip()
        return [page.paint(row, styled[1]) if styled else row]
    if raw.startswith("# "):
        return [page.heading(raw[2:])]
    first, _, text = raw.rpartition(_HANG)
    rest = None
    if not first:
        indent, mark = _START.match(text).groups(default="")  # type: ignore[union-attr]
        text = text[len(indent) + len(mark) :]
        first, rest = (indent, indent + " " * 4) if mark == "> " else (indent + mark, None)
    if _BESIDE in text:
        return page.inline_list(text.split(_BESIDE), first=first)
    styled = _STYLED.match(text)
    if styled:
        text = text[styled.end() :]
    lines = page.wrap(text, first=first, rest=rest, limit=page.cut(12))
    return [page.paint(lines[0], styled[1]), *lines[1:]] if styled else lines


def _make_printable(value: Any) -> Any:
    if isinstance(value, Markup):
        return value
    text = escape_unprintable(str(value).replace("\n", " "))
    return Markup(text)  # noqa: S704 - no HTML: the environment shall not escape it again


def _paint(text: str, style: str) -> Markup:
    return Markup("\x01{}\x01{}").format(style, _make_printable(text))


def _join(parts: Iterable[str]) -> Markup:
    return Markup(_BESIDE).join(map(_make_printable, parts))  # noqa: S704 - our mark


def _pad(text: str, width: int) -> str:
    return pad(escape_unprintable(text), width)
