"""The lines of a change, in pages, with the findings at them."""

from collections.abc import Sequence

from markupsafe import Markup
from msgspec import Struct

from orchestrator.app.finding_excerpts import ExcerptLine, FileExcerpt, read_change
from orchestrator.app.runs.run_details import RunDetails
from orchestrator.code_review.verdict.model import Finding
from orchestrator.report.findings_text import open_findings
from orchestrator.report.formats.html_page.findings import render_lines

LINES_PER_PAGE = 1_500


class ShownFile(Struct, frozen=True):
    """One file of a change, with its open findings; ``html`` is empty without lines."""

    path: str
    added: int
    removed: int
    findings: Sequence[Finding]
    html: Markup
    omitted: int


def split_into_pages(files: Sequence[FileExcerpt]) -> list[list[FileExcerpt]]:
    """The files in pages of limited length; a longer file has its own page."""
    pages: list[list[FileExcerpt]] = [[]]
    lines = 0
    for file in files:
        if pages[-1] and lines + len(file.lines) > LINES_PER_PAGE:
            pages.append([])
            lines = 0
        pages[-1].append(file)
        lines += len(file.lines)
    return pages


def read_pages(found: RunDetails) -> list[list[FileExcerpt]]:
    """The change of a run in pages; one empty page if its commits are not available."""
    if found.verdict is None:
        return [[]]
    return split_into_pages(read_change(found.summary.repo, found.verdict))


def show_files(found: RunDetails, files: Sequence[FileExcerpt]) -> list[ShownFile]:
    """The files of a page."""
    findings = open_findings(found.verdict) if found.verdict else []
    return [
        _show_file(file, [finding for finding in findings if finding.path == file.path])
        for file in files
    ]


def _show_file(file: FileExcerpt, findings: Sequence[Finding]) -> ShownFile:
    heads = {n for f in findings if f.evidence.side == "head" for n in _lines_of(f)}
    bases = {n for f in findings if f.evidence.side == "base" for n in _lines_of(f)}

    def is_cited(line: ExcerptLine) -> bool:
        return line.new in heads or line.old in bases

    kinds = [line.kind for line in file.lines]
    html = render_lines("Change of", file.path, file.lines, is_cited) if file.lines else Markup()
    return ShownFile(
        file.path, kinds.count("added"), kinds.count("removed"), findings, html, file.omitted
    )


def _lines_of(finding: Finding) -> range:
    return range(finding.start_line, finding.end_line + 1)
