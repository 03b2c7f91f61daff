"""Shared by several formats: the places of findings in head, and messages."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from orchestrator.catalog.shared_literals import Severity
from orchestrator.code_review.verdict.model import Cause, Finding, Skipped, Verdict
from orchestrator.report.findings_text import count_by_severity
from orchestrator.report.ranking import headline, open_findings
from orchestrator.report.review_gaps_text import join_tools
from orchestrator.report.terminal_escaping import escape_line, escape_unprintable

Level = Literal["error", "warning", "note"]
LEVELS: Mapping[Severity, Level] = {
    "critical": "error",
    "high": "error",
    "medium": "warning",
    "low": "note",
    "info": "note",
}
"""What formats of three levels call a severity."""

NOT_REVIEWED = "diffcourt.not-reviewed"
"""The rule under which formats of linters list a gap."""


class FindingPlace(Struct, frozen=True):
    """The place of a finding in head.

    Attributes:
        path: escaped, on one line.
        start, end: 1-based lines; 0: the finding is about lines that the change removes.
        column: 1-based, in characters; 0: not known.
    """

    path: str
    start: int
    end: int
    column: int


def place_in_head(finding: Finding) -> FindingPlace:
    """The place of a finding in head; of removed lines, only the file."""
    path = escape_unprintable(finding.path)
    if finding.evidence.side == "base":
        return FindingPlace(path, 0, 0, 0)
    return FindingPlace(path, finding.start_line, finding.end_line, finding.start_column or 0)


class ListedEntry(Struct, frozen=True):
    """An open finding, or a gap, in the words of formats that list such entries by place.

    Attributes:
        title, message: escaped; the title is one line, the message may be several.
        finding: None for a gap.
    """

    place: FindingPlace
    severity: Severity
    rule: str
    title: str
    message: str
    fingerprint: str
    finding: Finding | None = None


def list_entries(verdict: Verdict) -> list[ListedEntry]:
    """Open findings, the most severe first, then gaps."""
    findings = [
        ListedEntry(
            place_in_head(finding),
            finding.severity,
            finding.rule,
            escape_line(finding.title),
            describe_finding(finding),
            finding.fingerprint,
            finding,
        )
        for finding in open_findings(verdict)
    ]
    return findings + [
        ListedEntry(
            FindingPlace(escape_unprintable(gap.path), 0, 0, 0),
            "medium",
            NOT_REVIEWED,
            describe_skip(gap),
            describe_skip(gap),
            escape_unprintable(f"not-reviewed/{gap.tool}/{gap.path}"),
        )
        for gap in gaps(verdict)
    ]


def describe_finding(finding: Finding) -> str:
    """Title, cause, detail, a waiver that does not hold, and advice, unprintable text escaped."""
    parts = [finding.title.rstrip(".") + "."]
    if finding.evidence.side == "base":
        parts.append(f"Removed: line {finding.start_line} of base.")
    if finding.because_of:
        parts.append(describe_cause(finding.because_of))
    if finding.detail:
        parts.append(finding.detail)
    if finding.waiver and finding.state == "open":
        parts.append(finding.waiver)
    if finding.fix_suggestion:
        parts.append(f"Fix: {finding.fix_suggestion}")
    lines = "\n".join(parts).splitlines()
    return "\n".join(escape_unprintable(line.expandtabs(4)) for line in lines)


def describe_cause(cause: Cause) -> str:
    """``Because of src/app.py:7 (removed).``, unescaped."""
    return f"Because of {cause.path}:{cause.line}{' (removed)' if cause.removed else ''}."


def describe_skip(entry: Skipped) -> str:
    """``not reviewed by mypy: it timed out``, on one line."""
    by = f" by {entry.tool}" if entry.tool else ""
    return escape_line(f"not reviewed{by}: {entry.why}")


def gaps(verdict: Verdict) -> list[Skipped]:
    """The gaps that make the review incomplete."""
    return [entry for entry in verdict.skipped if entry.gap]


def joined_gaps(verdict: Verdict) -> list[Skipped]:
    """The gaps, those of one file for one reason as one entry, under all their tools."""
    return join_tools(gaps(verdict))


def describe_result(verdict: Verdict) -> str:
    """The headline with the number of findings, on one line."""
    return f"{headline(verdict)}: {count_by_severity(verdict.findings) or 'no findings'}"
