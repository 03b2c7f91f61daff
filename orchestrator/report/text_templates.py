"""Plain-text reports from templates: every value is on one line and printable, lines are laid out.

The first characters of a template's line say how:

- ``# `` is a heading, ``=`` a row that is not wrapped, ``~`` an empty line;
- any other line is wrapped below its indent and its ``- ``, four columns deeper after ``> ``;
- an empty line only separates parts of the template.
"""

import re
from collections.abc import Iterable
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from orchestrator.report.page_templates import new_environment
from orchestrator.report.terminal_escaping import escape_line, escape_unprintable
from orchestrator.report.text_layout import TextLayout, pad, truncate

_STYLED = re.compile("\x01(.+?)\x01")
_BESIDE = "\x02"
"""These marks cannot be in a value: there they are escaped."""
_START = re.compile(r"( *)(> |- )?")


def new_text_environment(package: str, **known: Any) -> Environment:
    """The text templates of a package; ``known`` is what every one of them may use."""
    made = new_environment(package, paint=_paint, side_by_side=_join, **known)
    made.finalize = _make_printable
    made.filters.update(pad=_pad, cut=lambda text, width: truncate(escape_line(text), width))
    return made


def render_lines(page: TextLayout, module: Any, macro: str, *values: Any) -> list[str]:
    """What a template's macro makes of some values, as the lines of a page."""
    text = str(getattr(module, macro)(*values))
    return [line for raw in text.split("\n") if raw.strip() for line in _lay_out(page, raw)]


def _lay_out(page: TextLayout, raw: str) -> list[str]:
    if raw[0] in "~=":
        return [raw[1:].rstrip()]
    if raw.startswith("# "):
        return [page.heading(raw[2:])]
    indent, mark = _START.match(raw).groups(default="")  # type: ignore[union-attr]
    text = raw[len(indent) + len(mark) :]
    if _BESIDE in text:
        return page.inline_list(text.split(_BESIDE), first=indent)
    styled = _STYLED.match(text)
    if styled:
        text = text[styled.end() :]
    rest = indent + " " * 4 if mark == "> " else None
    lines = page.wrap(text, first=indent + ("" if mark == "> " else mark), rest=rest)
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
