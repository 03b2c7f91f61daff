"""Lines of code as rows of a table, with the colors of their language."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from html import escape
from typing import Literal

from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename
from pygments.lexers.special import TextLexer
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType

from orchestrator.app.finding_excerpts import ExcerptLine
from orchestrator.code_review.fixes.patch_lines import hunk_rows, patched_files
from orchestrator.code_review.verdict.model import Finding
from orchestrator.report.terminal_escaping import escape_code_lines, escape_unprintable

MAX_CHARACTERS = 400
"""Of one line."""

MAX_ROWS = 300
"""Of the patch of one file."""

_KINDS: Mapping[str, Literal["same", "added", "removed"]] = {
    " ": "same",
    "+": "added",
    "-": "removed",
}
_CLASSES = {"same": "", "added": "add", "removed": "del"}
_MARKS = {"same": " ", "added": "+", "removed": "-"}


def render_excerpt(finding: Finding, lines: Sequence[ExcerptLine]) -> str:
    """The lines of the change, or where there are none, the finding's quotation."""
    removed = finding.evidence.side == "base"
    if not lines:
        lines = _quoted_lines(finding, removed=removed)
    if not lines:
        return ""

    def is_cited(line: ExcerptLine) -> bool:
        number = line.old if removed else line.new
        return finding.start_line <= number <= finding.end_line

    return render_lines(f"Code of {finding.id}", finding.path, lines, is_cited)


def render_patch(finding: Finding) -> str:
    """A finding's patch as tables, one for each file; as plain lines where it cannot be read."""
    fix = finding.fix
    if fix is None or not fix.patch:
        return ""
    files, tables = patched_files(fix), list[str]()
    for file in files:
        rows = [row for hunk in file.hunks for row in hunk_rows(hunk)]
        lines = [
            ExcerptLine(_KINDS[row.mark], row.old, row.new, row.text.removesuffix("\n"))
            for row in rows[:MAX_ROWS]
        ]
        if len(files) > 1:
            tables.append(f'<p class="place">{escape(escape_unprintable(file.path))}</p>')
        tables.append(render_lines(f"Patch of {finding.id}", file.path, lines))
    if not tables:
        texts = fix.patch.split("\n")[:MAX_ROWS]
        lines = [ExcerptLine("same", 0, 0, text) for text in texts]
        tables = [render_lines(f"Patch of {finding.id}", finding.path, lines)]
    return "".join(tables)


def render_lines(
    name: str,
    path: str,
    lines: Sequence[ExcerptLine],
    is_cited: Callable[[ExcerptLine], bool] = lambda _: False,
) -> str:
    """Lines with both numbers, a mark and colors, in a region that scrolls."""
    rows = [
        f'<tr class="{"cite" if is_cited(line) else _CLASSES[line.kind]}"><td class="n">'
        f'{line.old or ""}</td><td class="n">{line.new or ""}</td>'
        f"<td>{_MARKS[line.kind]} {html}</td></tr>"
        for line, html in zip(lines, _highlight(path, [line.text for line in lines]), strict=True)
    ]
    label = escape(f"{name}: {escape_unprintable(path)}", quote=True)
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
    shown = [escape_unprintable(line.expandtabs(4))[:MAX_CHARACTERS] for line in lines]
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
    return _lexer_class(path.rpartition("/")[2])(stripnl=False, ensurenl=False)


@lru_cache(1024)
def _lexer_class(name: str) -> type[Lexer]:
    """The lexer for a file's name; to look for one takes longer than most pages otherwise do."""
    try:
        found: type[Lexer] | None = find_lexer_class_for_filename(name)
    except UnicodeError:
        found = None
    return found or TextLexer


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
