"""Findings as text: open ones by severity with evidence, then waived and rejected ones."""

from collections.abc import Iterable, Sequence
from textwrap import dedent

from orchestrator.catalog.shared_literals import SEVERITIES
from orchestrator.code_review.verdict.model import Finding, Verdict, severity_counts
from orchestrator.report.terminal_escaping import (
    escape_code_lines,
    escape_line,
    escape_unprintable,
    quote_path,
)
from orchestrator.report.text_layout import DEEP_INDENT, Page, count_noun, render_omitted, truncate

MAX_FINDINGS = 50
MAX_OTHERS = 10
QUOTE_LINES = 6
_STYLE = {"critical": "red", "high": "red", "medium": "yellow", "low": "blue", "info": "bold"}


def sort_open_findings(verdict: Verdict) -> list[Finding]:
    """Open findings, most severe first, otherwise in the verdict's order."""
    counted = [finding for finding in verdict.findings if finding.state == "open"]
    return sorted(counted, key=lambda finding: SEVERITIES.index(finding.severity))


def count_by_severity(findings: Iterable[Finding]) -> str:
    """``1 critical, 3 low``, of open findings; empty for none."""
    counts = severity_counts(findings)
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


def format_location(finding: Finding) -> str:
    """``path:line``, which editors and terminals recognize, and whether it is a line of base."""
    removed = " (removed)" if finding.evidence.side == "base" else ""
    return f"{quote_path(finding.path)}:{finding.start_line}{removed}"


def _render_quote(page: Page, finding: Finding) -> list[str]:
    if not finding.evidence.quote.strip():
        return []
    quoted = escape_code_lines(finding.evidence.quote)
    shown = dedent("\n".join(quoted[:QUOTE_LINES])).split("\n")
    digits = len(str(finding.start_line + len(shown) - 1))
    lines = [
        page.paint(f"      {number:>{digits}} | ", "dim") + truncate(line, page.width - digits - 9)
        for number, line in enumerate(shown, finding.start_line)
    ]
    if len(quoted) > len(shown):
        left = count_noun(len(quoted) - len(shown), "more line")
        lines.append(page.paint(f"      {'':>{digits}} | ({left})", "dim"))
    return lines


def _describe_source(finding: Finding) -> str:
    """Id, rule, CWE numbers, reporters and confidence."""
    parts = [finding.id, finding.rule, *(f"CWE-{number}" for number in finding.cwe)]
    by = ", ".join(finding.reported_by[:6])
    if len(finding.reported_by) > 6:
        by += f" and {len(finding.reported_by) - 6} more"
    confidence = f", confidence {finding.confidence:.2f}" if finding.confidence < 1 else ""
    return escape_line(f"[{', '.join(filter(None, parts))}] by {by or 'unknown'}{confidence}")


def _render_finding(page: Page, finding: Finding) -> list[str]:
    where = format_location(finding)
    first, *others = page.wrap(
        escape_line(finding.title), first=f"  {where}  ", rest=DEEP_INDENT, limit=4
    )
    lines = ["  " + page.paint(where, "bold") + first[2 + len(where) :], *others]
    lines += _render_quote(page, finding)
    if finding.detail and escape_line(finding.detail) != escape_line(finding.title):
        lines += page.wrap(
            escape_line(finding.detail), first="      why: ", rest=DEEP_INDENT, limit=4
        )
    if finding.fix_suggestion:
        lines += page.wrap(
            escape_line(finding.fix_suggestion), first="      fix: ", rest=DEEP_INDENT, limit=4
        )
    lines += _render_contradictions(page, finding)
    waiver = [escape_line(finding.waiver)] if finding.waiver else []
    for text in (*waiver, _describe_source(finding)):
        lines += [
            page.paint(line, "dim")
            for line in page.wrap(text, first="      ", rest=DEEP_INDENT, limit=3)
        ]
    return lines


def _render_contradictions(page: Page, finding: Finding) -> list[str]:
    """Reporters who rate it differently or dispute it."""
    if not finding.contested:
        return []
    texts = [
        f"{report.by} rates it {report.severity}"
        for report in finding.reports
        if report.severity != finding.severity
    ]
    texts += [
        f"{objection.by} disputes it: {objection.reason} (kept: {objection.why_not})"
        for objection in finding.objections
    ]
    lines: list[str] = []
    for text in dict.fromkeys(texts):
        lines += page.wrap(escape_line(text), first="      but: ", rest=DEEP_INDENT, limit=4)
    return lines


def render_open(page: Page, verdict: Verdict) -> list[str]:
    """Open findings up to a maximum, grouped by severity."""
    counted = sort_open_findings(verdict)
    lines: list[str] = []
    for severity in SEVERITIES:
        group = [finding for finding in counted[:MAX_FINDINGS] if finding.severity == severity]
        if not group:
            continue
        total = sum(finding.severity == severity for finding in counted)
        lines += ["", page.heading(f"{severity.capitalize()} ({total:,})", _STYLE[severity])]
        for number, finding in enumerate(group):
            lines += ([""] if number else []) + _render_finding(page, finding)
    left = counted[MAX_FINDINGS:]
    if left:
        text = f"and {len(left):,} more in the JSON ({count_by_severity(left)})"
        lines += ["", f"  {text}"]
    return lines[1:]


def render_waived(page: Page, verdict: Verdict) -> list[str]:
    """Findings that a waiver accepts: shown, and not counted."""
    accepted = [finding for finding in verdict.findings if finding.state == "waived"]
    if not accepted:
        return []
    lines = [page.heading(f"Waived ({len(accepted):,}): accepted, not counted")]
    for finding in accepted[:MAX_OTHERS]:
        text = f"{finding.severity}: {finding.title} [{finding.rule}]; {finding.waiver}"
        lines += page.wrap(
            escape_line(text), first=f"  {format_location(finding)}  ", rest=DEEP_INDENT, limit=2
        )
    return lines + render_omitted(len(accepted), MAX_OTHERS)


def render_rejected(page: Page, verdict: Verdict) -> list[str]:
    """Reported findings that are not counted, by reason."""
    by_reason: dict[str, list[Finding]] = {}
    for entry in verdict.rejected:
        by_reason.setdefault(entry.reason, []).append(entry.finding)
    listed = {entry.finding.id for entry in verdict.rejected}
    for finding in verdict.findings:
        if finding.state == "rejected" and finding.id not in listed:
            by_reason.setdefault("marked as rejected", []).append(finding)
    total = sum(map(len, by_reason.values()))
    if not total:
        return []
    lines = [page.heading(f"Rejected ({total:,}): reported, not counted")]
    for reason, group in list(by_reason.items())[:MAX_OTHERS]:
        lines += page.wrap(
            escape_line(reason), first=f"  {len(group):>4,}  ", rest=DEEP_INDENT, limit=3
        )
        lines += page.wrap(_list_examples(group), first=DEEP_INDENT, limit=3)
    return lines + render_omitted(len(by_reason), MAX_OTHERS, "reasons")


def _list_examples(group: Sequence[Finding]) -> str:
    shown = ", ".join(
        f"{format_location(finding)} [{escape_unprintable(finding.rule)}]" for finding in group[:2]
    )
    return shown + (", ..." if len(group) > 2 else "")
