"""Findings as articles of the page: text, code, data flow, and reporters."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from orchestrator.app.finding_excerpts import ExcerptLine
from orchestrator.catalog.shared_literals import SEVERITIES
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.report.findings_text import (
    fix_command,
    format_location,
    name_provers,
    open_findings,
)
from orchestrator.report.formats.html_page.code_lines import render_excerpt, render_patch
from orchestrator.report.html_elements import text

MAX_FINDINGS = 5_000
"""Findings that a page shows."""
LISTED_FROM = 4
"""Findings from which on a list of them stands above."""
MAX_OPEN = 20
"""Findings up to which that list is open at first."""


def no_actions(finding: Finding) -> str:
    """Nothing below a finding."""
    return ""


def render_findings(
    verdict: Verdict,
    excerpts: Mapping[str, Sequence[ExcerptLine]],
    actions: Callable[[Finding], str] = no_actions,
) -> str:
    """All open findings, most severe first, then waived and rejected ones folded away.

    Args:
        actions: HTML at the end of a finding.
    """
    findings = open_findings(verdict)
    parts = ['<section aria-labelledby="findings"><h2 id="findings">Findings</h2>']
    if not findings:
        parts.append("<p>No open findings.</p>")
    else:
        parts += [_render_filters(findings), _render_index(findings[:MAX_FINDINGS])]
        parts += [
            _render_article(one, excerpts.get(one.id, ()), actions(one))
            for one in findings[:MAX_FINDINGS]
        ]
        if len(findings) > MAX_FINDINGS:
            parts.append(f"<p>{len(findings) - MAX_FINDINGS:,} more are in the verdict.</p>")
    waived = [(one, one.waiver) for one in verdict.findings if one.state == "waived"]
    parts.append(_render_folded("Waived: accepted, not counted", waived))
    rejected = [(entry.finding, entry.reason) for entry in verdict.rejected]
    parts.append(_render_folded("Rejected: reported, not counted", rejected))
    return "".join([*parts, "</section>"])


def _render_filters(findings: Sequence[Finding]) -> str:
    counts = Counter(one.severity for one in findings)
    buttons = "".join(
        f'<button type="button" data-severity="{name}" aria-pressed="false">'
        f"{name} {counts[name]:,}</button>"
        for name in SEVERITIES
        if counts[name]
    )
    categories = sorted({one.category for one in findings})
    options = "".join(f'<option value="{text(one)}">{text(one)}</option>' for one in categories)
    fresh = '<button type="button" id="fresh" aria-pressed="false">only new</button>'
    compared = any(one.since_previous for one in findings)
    return (
        '<div class="bar" role="search" aria-label="Filter the findings">'
        '<input id="search" type="search" aria-label="Search words" '
        'placeholder="Filter: file, rule, words (/)">'
        f'<select id="category" aria-label="Category"><option value="">all categories</option>'
        f"{options}</select>{buttons}{fresh if compared else ''}"
        '<span id="shown" class="small soft" role="status"></span></div>'
    )


def _render_index(findings: Sequence[Finding]) -> str:
    """A line for each finding, with a link to it; empty if there are few."""
    if len(findings) < LISTED_FROM:
        return ""
    items = "".join(
        f'<li><span class="pill {one.severity}">{one.severity}</span>'
        f'<a href="#{text(one.id)}">{text(one.title)}</a>'
        f'<span class="place">{text(format_location(one))}</span></li>'
        for one in findings
    )
    opened = " open" if len(findings) <= MAX_OPEN else ""
    return (
        f"<details{opened}><summary>List of all {len(findings):,} findings</summary>"
        f'<ol class="index" aria-label="All findings">{items}</ol></details>'
    )


def _render_article(finding: Finding, lines: Sequence[ExcerptLine], actions: str) -> str:
    name = text(finding.id)
    since = finding.since_previous if finding.since_previous in {"new", "reopened"} else ""
    marks = f'<span class="pill">{finding.severity}</span>'
    if since:
        marks += f'<span class="pill">{since}</span>'
    reporters = ", ".join(finding.reported_by)
    meta = [
        f"<span>{name}</span>",
        f"<span>{text(finding.rule)}</span>",
        *(f"<span>CWE-{number}</span>" for number in finding.cwe),
        f"<span>confidence {finding.confidence:.2f}, {finding.standing}</span>",
        f"<span>by {text(reporters)}</span>",
        *([f"<span>reported as {finding.lowered_from}</span>"] if finding.lowered_from else []),
        *(["<span>carried over from the previous review</span>"] if finding.carried_over else []),
    ]
    return (
        f'<article id="{name}" class="{finding.severity}" tabindex="-1" '
        f'data-severity="{finding.severity}" data-category="{text(finding.category)}" '
        f'data-since="{finding.since_previous}" aria-labelledby="{name}-title">'
        f'<h3 id="{name}-title">{marks}{text(finding.title)}</h3>'
        f'<p class="place">{text(format_location(finding))}</p>'
        f"{_render_words(finding)}{render_excerpt(finding, lines)}{_render_steps(finding)}"
        f"{_render_fix(finding)}"
        f'<p class="meta small soft">{"".join(meta)}</p>{actions}</article>'
    )


def _render_words(finding: Finding) -> str:
    rows = [("Why", finding.detail if not finding.steps else finding.detail.partition("\n")[0])]
    rows.append(("Fix", finding.fix_suggestion))
    if finding.because_of is not None:
        where = f"{finding.because_of.path}:{finding.because_of.line}"
        rows.append(("Because of", f"{where}  {finding.cause_quote}"))
    rows += [(f"But ({one.by})", one.reason) for one in finding.objections]
    if finding.confirmed_by:
        rows.append(("Confirmed by", ", ".join(finding.confirmed_by)))
    if finding.waiver:
        rows.append(("Waiver", finding.waiver))
    listed = "".join(
        f"<dt>{text(name)}</dt><dd>{text(words)}</dd>" for name, words in rows if words
    )
    return f'<dl class="words">{listed}</dl>' if listed else ""


def _render_fix(finding: Finding) -> str:
    """The patch, its state, and who proved it; one that is refused is folded away."""
    fix = finding.fix
    if fix is None:
        return ""
    words = {
        "verified": f"by {name_provers(finding)}",
        "applies": f"not proven: {fix.reason}",
        "refused": fix.reason,
    }
    said = (
        f'<span class="pill {fix.state}">patch {fix.state}</span>'
        f'<span class="small soft">{text(words[fix.state])}</span>'
    )
    if fix.state == "refused":
        return f"<details><summary>{said}</summary>{render_patch(finding)}</details>"
    command = f'<code class="place">{text(fix_command(finding))}</code>'
    return f'<p class="patch">{said} {command}</p>{render_patch(finding)}'


def _render_steps(finding: Finding) -> str:
    if not finding.steps:
        return ""
    items = "".join(
        f'<li><span class="place">{text(step.path)}:{step.line}</span> {text(step.text)}</li>'
        for step in finding.steps
    )
    return f'<ol class="steps" aria-label="Data flow">{items}</ol>'


def _render_folded(heading: str, entries: Sequence[tuple[Finding, str]]) -> str:
    if not entries:
        return ""
    items = "".join(
        f'<li><span class="place">{text(format_location(finding))}</span> '
        f"{finding.severity}: {text(finding.title)}<br>"
        f'<span class="soft">{text(why)}</span></li>'
        for finding, why in entries[:MAX_FINDINGS]
    )
    return f"<details><summary>{heading} ({len(entries):,})</summary><ul>{items}</ul></details>"
