"""Lines of code as rows of a table, with the colors of their language."""

from collections.abc import Sequence
from html import escape

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType
from pygments.util import ClassNotFound

from orchestrator.app.finding_excerpts import ExcerptLine
from orchestrator.code_review.verdict.model import Finding
from orchestrator.report.terminal_escaping import escape_code_lines, escape_unprintable

MOST_CHARACTERS = 400
"""Of one line."""

_CLASSES = {"same": "", "added": "add", "removed": "del"}
_MARKS = {"same": " ", "added": "+", "removed": "-"}


def render_excerpt(finding: Finding, lines: Sequence[ExcerptLine]) -> str:
    """The lines of the change, or where there are none, the finding's quotation."""
    removed = finding.evidence.side == "base"
    if not lines:
        lines = _quoted_lines(finding, removed=removed)
    if not lines:
        return ""
    colored = _highlight(finding.path, [line.text for line in lines])
    rows = []
    for line, html in zip(lines, colored, strict=True):
        number = line.old if removed else line.new
        cited = finding.start_line <= number <= finding.end_line
        kind = "cite" if cited else _CLASSES[line.kind]
        rows.append(
            f'<tr class="{kind}"><td class="n">{line.old or ""}</td><td class="n">{line.new or ""}'
            f"</td><td>{_MARKS[line.kind]} {html}</td></tr>"
        )
    label = escape(f"Code of {finding.id}: {escape_unprintable(finding.path)}", quote=True)
    return (
        f'<div class="code" tabindex="0" role="region" aria-label="{label}">'
        f"<table>{''.join(rows)}</table></div>"
    )


def _quoted_lines(finding: Finding, *, removed: bool) -> list[ExcerptLine]:
    quote = finding.evidence.quote
    if not quote.strip():
        return []
    return [
        ExcerptLine("removed", number, 0, text) if removed else ExcerptLine("same", 0, number, text)
        for number, text in enumerate(escape_code_lines(quote), finding.start_line)
    ]


def _highlight(path: str, lines: Sequence[str]) -> list[str]:
    """Each line as HTML, colored by the whole text."""
    shown = [escape_unprintable(line.expandtabs(4))[:MOST_CHARACTERS] for line in lines]
    html = [""] * len(shown)
    at = 0
    for token, text in _lexer(path).get_tokens("\n".join(shown)):
        name = _class_of(token)
        for number, part in enumerate(text.split("\n")):
            at += number > 0
            if part and at < len(html):
                safe = escape(part)
                html[at] += f'<span class="{name}">{safe}</span>' if name else safe
    return html


def _lexer(path: str) -> Lexer:
    # Leading blank lines count, and a lexer must not run on for what looks like its own end.
    try:
        found: Lexer = get_lexer_for_filename(
            path.rpartition("/")[2], stripnl=False, ensurenl=False
        )
    except (ClassNotFound, UnicodeError):
        return TextLexer(stripnl=False, ensurenl=False)
    return found


def _class_of(token: _TokenType) -> str:
    for kind, name in (
        (Comment, "c"),
        (String, "s"),
        (Number, "m"),
        (Keyword, "k"),
        (Name.Function, "f"),
        (Name.Class, "f"),
    ):
        if kind in token.split():
            return name
    return ""
