"""The findings as text: the open ones by severity with evidence, then those that do not count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import dedent

from orchestrator.catalog.fields import SEVERITIES
from orchestrator.report.terminal_escaping import (
    escape_code_lines,
    escape_line,
    escape_unprintable,
    quote_path,
)
from orchestrator.report.text_layout import DEEP_INDENT, Page, count_noun, render_omitted, truncate
from orchestrator.review.verdict.model import Finding, Verdict, severity_counts

MOST_FINDINGS = 50
MOST_OTHERS = 10
QUOTE_LINES = 6
_STYLE = {"critical": "red", "high": "red", "medium": "yellow", "low": "blue", "info": "bold"}


def open_findings(verdict: Verdict) -> list[Finding]:
    """The findings that count, worst first, otherwise in the verdict's order."""
    counted = [finding for finding in verdict.findings if finding.state == "open"]
    return sorted(counted, key=lambda finding: SEVERITIES.index(finding.severity))


def count_by_severity(findings: Iterable[Finding]) -> str:
    """``1 critical, 3 low``, of those that count; empty for none."""
    counts = severity_counts(findings)
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


def place(finding: Finding) -> str:
    """Where it stands, as editors and terminals understand it."""
    return f"{quote_path(finding.path)}:{finding.start_line}"


def _quote(page: Page, finding: Finding) -> list[str]:
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


def _source(finding: Finding) -> str:
    """Who reported it, under which rule, and how sure."""
    parts = [finding.id, finding.rule, *(f"CWE-{number}" for number in finding.cwe)]
    by = ", ".join(finding.reported_by[:6])
    if len(finding.reported_by) > 6:
        by += f" and {len(finding.reported_by) - 6} more"
    sure = f", confidence {finding.confidence:.2f}" if finding.confidence < 1 else ""
    return escape_line(f"[{', '.join(filter(None, parts))}] by {by or 'nobody named'}{sure}")


def _one(page: Page, finding: Finding) -> list[str]:
    where = place(finding)
    first, *others = page.wrap(
        escape_line(finding.title), first=f"  {where}  ", rest=DEEP_INDENT, most=4
    )
    lines = ["  " + page.paint(where, "bold") + first[2 + len(where) :], *others]
    lines += _quote(page, finding)
    if finding.detail and escape_line(finding.detail) != escape_line(finding.title):
        lines += page.wrap(
            escape_line(finding.detail), first="      why: ", rest=DEEP_INDENT, most=4
        )
    if finding.fix_suggestion:
        lines += page.wrap(
            escape_line(finding.fix_suggestion), first="      fix: ", rest=DEEP_INDENT, most=4
        )
    lines += _contradictions(page, finding)
    told = [escape_line(finding.waiver)] if finding.waiver else []
    for text in (*told, _source(finding)):
        lines += [
            page.paint(line, "dim")
            for line in page.wrap(text, first="      ", rest=DEEP_INDENT, most=3)
        ]
    return lines


def _contradictions(page: Page, finding: Finding) -> list[str]:
    """Who calls it graver or milder, and who argues that it is none."""
    if not finding.contested:
        return []
    told = [
        f"{said.by} calls it {said.severity}"
        for said in finding.reports
        if said.severity != finding.severity
    ]
    told += [
        f"{said.by} argues that it is none: {said.reason} (it stands: {said.why_not})"
        for said in finding.objections
    ]
    lines: list[str] = []
    for text in dict.fromkeys(told):
        lines += page.wrap(escape_line(text), first="      but: ", rest=DEEP_INDENT, most=4)
    return lines


def findings(page: Page, verdict: Verdict) -> list[str]:
    """Every open finding up to a cap, grouped by severity."""
    counted = open_findings(verdict)
    lines: list[str] = []
    for severity in SEVERITIES:
        group = [finding for finding in counted[:MOST_FINDINGS] if finding.severity == severity]
        if not group:
            continue
        total = sum(finding.severity == severity for finding in counted)
        lines += ["", page.heading(f"{severity.capitalize()} ({total:,})", _STYLE[severity])]
        for number, finding in enumerate(group):
            lines += ([""] if number else []) + _one(page, finding)
    left = counted[MOST_FINDINGS:]
    if left:
        text = f"and {len(left):,} more in the JSON ({count_by_severity(left)})"
        lines += ["", f"  {text}"]
    return lines[1:]


def waived(page: Page, verdict: Verdict) -> list[str]:
    """Findings that a person has accepted: they stand, and do not count."""
    accepted = [finding for finding in verdict.findings if finding.state == "waived"]
    if not accepted:
        return []
    lines = [page.heading(f"Waived ({len(accepted):,}): these stand, and do not count")]
    for finding in accepted[:MOST_OTHERS]:
        text = f"{finding.severity}: {finding.title} [{finding.rule}]; {finding.waiver}"
        lines += page.wrap(
            escape_line(text), first=f"  {place(finding)}  ", rest=DEEP_INDENT, most=2
        )
    return lines + render_omitted(len(accepted), MOST_OTHERS)


def rejected(page: Page, verdict: Verdict) -> list[str]:
    """What was reported and not believed, by reason."""
    named: dict[str, list[Finding]] = {}
    for entry in verdict.rejected:
        named.setdefault(entry.reason, []).append(entry.finding)
    listed = {entry.finding.id for entry in verdict.rejected}
    for finding in verdict.findings:
        if finding.state == "rejected" and finding.id not in listed:
            named.setdefault("marked as rejected", []).append(finding)
    total = sum(map(len, named.values()))
    if not total:
        return []
    lines = [page.heading(f"Rejected ({total:,}): reported, and not believed")]
    for reason, group in list(named.items())[:MOST_OTHERS]:
        lines += page.wrap(
            escape_line(reason), first=f"  {len(group):>4,}  ", rest=DEEP_INDENT, most=3
        )
        lines += page.wrap(_examples(group), first=DEEP_INDENT, most=3)
    return lines + render_omitted(len(named), MOST_OTHERS, "reasons")


def _examples(group: Sequence[Finding]) -> str:
    shown = ", ".join(
        f"{place(finding)} [{escape_unprintable(finding.rule)}]" for finding in group[:2]
    )
    return shown + (", ..." if len(group) > 2 else "")
