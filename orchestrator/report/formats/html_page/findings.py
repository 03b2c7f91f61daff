"""Findings as articles of the page: text, colored code, data flow, and reporters."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from markupsafe import Markup
from msgspec import Struct
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename
from pygments.lexers.special import TextLexer
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType

from orchestrator.app.finding_excerpts import KINDS, ExcerptLine
from orchestrator.catalog.shared_literals import SEVERITIES
from orchestrator.code_review.fixes.patch_files import hunk_rows, patched_files
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.report import findings_text
from orchestrator.report.page_templates import element, html, join, make_printable, render
from orchestrator.report.ranking import Cause, rank_findings
from orchestrator.report.terminal_escaping import escape_code_lines, escape_unprintable

MAX_CHARACTERS = 400
"""Of one line."""

MAX_ROWS = 300
"""Of the patch of one file."""

_CLASSES = {"same": "", "added": "add", "removed": "del"}
Parts = list[tuple[str, str]]
"""Of a line: class and text."""


class _Row(Struct, frozen=True):
    """A line as a row of the table; ``kind`` is its class."""

    kind: str
    old: int
    new: int
    mark: str
    parts: Parts


def render_excerpt(finding: Finding, lines: Sequence[ExcerptLine]) -> Markup:
    """The lines of the change, or where there are none, the finding's quotation."""
    removed = finding.evidence.side == "base"
    if not lines:
        lines = _quoted_lines(finding, removed=removed)
    if not lines:
        return Markup()

    def is_cited(line: ExcerptLine) -> bool:
        number = line.old if removed else line.new
        return finding.start_line <= number <= finding.end_line

    return render_lines(f"Code of {finding.id}", finding.path, lines, is_cited)


def render_patch(finding: Finding) -> Markup:
    """A finding's patch as tables, one for each file; as plain lines where it cannot be read."""
    fix = finding.fix
    if fix is None or not fix.patch:
        return Markup()
    files, tables = patched_files(fix), list[Markup]()
    for file in files:
        rows = [row for hunk in file.hunks for row in hunk_rows(hunk)]
        lines = [
            ExcerptLine(KINDS[row.sign], row.old, row.new, row.text.removesuffix("\n"))
            for row in rows[:MAX_ROWS]
        ]
        if len(files) > 1:
            tables.append(html('<p class="place">{}</p>', file.path))
        tables.append(render_lines(f"Patch of {finding.id}", file.path, lines))
    if not tables:
        texts = fix.patch.split("\n")[:MAX_ROWS]
        lines = [ExcerptLine("same", 0, 0, text) for text in texts]
        tables = [render_lines(f"Patch of {finding.id}", finding.path, lines)]
    return join(tables)


def render_lines(
    name: str,
    path: str,
    lines: Sequence[ExcerptLine],
    is_cited: Callable[[ExcerptLine], bool] = lambda _: False,
) -> Markup:
    """Lines with both numbers, a mark and colors, in a region that scrolls."""
    rows = [
        _Row(
            "cite" if is_cited(line) else _CLASSES[line.kind], line.old, line.new, line.mark, parts
        )
        for line, parts in zip(lines, _highlight(path, [line.text for line in lines]), strict=True)
    ]
    return element("code", f"{name}: {escape_unprintable(path)}", rows)


def _quoted_lines(finding: Finding, *, removed: bool) -> list[ExcerptLine]:
    quote = finding.evidence.quote
    if not quote.strip():
        return []
    return [
        ExcerptLine("removed", number, 0, text) if removed else ExcerptLine("same", 0, number, text)
        for number, text in enumerate(escape_code_lines(quote), finding.start_line)
    ]


def _highlight(path: str, lines: Sequence[str]) -> list[Parts]:
    """Each line in parts, colored by the whole text."""
    shown = [make_printable(line)[:MAX_CHARACTERS] for line in lines]
    parts: list[Parts] = [[] for _ in shown]
    at = 0
    # Leading blank lines count, and a lexer must not run on for what looks like its own end.
    lexer = _lexer_class(path.rpartition("/")[2])(stripnl=False, ensurenl=False)
    for token, text in lexer.get_tokens("\n".join(shown)):
        name = _class_of(token)
        for number, part in enumerate(text.split("\n")):
            at += number > 0
            if part and at < len(parts):
                parts[at].append((name, part))
    return parts


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


MAX_FINDINGS = 5_000
"""Findings that a page shows."""
LISTED_FROM = 4
"""Findings from which on a list of them stands above."""


def render_findings(
    verdict: Verdict,
    excerpts: Mapping[str, Sequence[ExcerptLine]],
    actions: Callable[[Finding], Markup] = lambda _: Markup(),
    *,
    part: slice = slice(MAX_FINDINGS),
    link: Callable[[Finding], str] = "#{0.id}".format,
) -> Markup:
    """The few findings told at length; folded away the others, waived and rejected ones.

    Args:
        actions: what stands at the end of a finding.
        part: of the findings that stand here; the list of all above them has the others too.
        link: where a finding stands.
    """
    ranked = rank_findings(verdict)
    findings = ranked.in_order
    here = {one.id for one in findings[part]}

    def causes(ranks: Sequence[Cause]) -> list[list[Finding]]:
        kept = ([one for one in cause if one.id in here] for cause in ranks)
        return [cause for cause in kept if cause]

    counts = Counter(one.severity for one in findings)
    return render(
        "findings.html",
        findings=findings,
        at_length=causes(ranked.at_length),
        also_noticed=causes(ranked.also_noticed),
        link=link,
        noticed=sum(map(len, ranked.also_noticed)),
        severities=[(name, counts[name]) for name in SEVERITIES if counts[name]],
        waived=[(one, one.waiver) for one in verdict.findings if one.state == "waived"],
        older=[(one.finding, one.reason) for one in verdict.rejected if one.cause == "older"],
        rejected=[(one.finding, one.reason) for one in verdict.rejected if one.cause != "older"],
        excerpt=lambda one: render_excerpt(one, excerpts.get(one.id, ())),
        actions=actions,
        location=findings_text.format_location,
        support=findings_text.describe_support,
        provers=findings_text.name_provers,
        patch_lines=render_patch,
        command=findings_text.fix_command,
        max_findings=MAX_FINDINGS,
        listed_from=LISTED_FROM,
    )
