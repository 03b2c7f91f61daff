"""GitLab's Code Quality report.

Source: https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

from collections import Counter
from typing import Any

from orchestrator.code_review.verdict.model import Finding, Skipped, Verdict
from orchestrator.report.findings_text import open_findings
from orchestrator.report.formats import FormatInputs
from orchestrator.report.formats.open_findings import describe_skip, gaps, place_in_head
from orchestrator.report.terminal_escaping import as_json, escape_line, escape_unprintable

_SEVERITY = {
    "critical": "blocker",
    "high": "critical",
    "medium": "major",
    "low": "minor",
    "info": "info",
}


def render_code_quality(verdict: Verdict, _: FormatInputs) -> str:
    """Open findings, then gaps, each under a fingerprint of its own.

    GitLab shows only the first of those that share one.
    """
    entries = [*map(_describe_finding, open_findings(verdict)), *map(_describe_gap, gaps(verdict))]
    seen: Counter[str] = Counter()
    for entry in entries:
        name = entry["fingerprint"]
        seen[name] += 1
        if seen[name] > 1:
            entry["fingerprint"] = f"{name}/{seen[name]}"
    return as_json(entries)


def _describe_finding(finding: Finding) -> dict[str, Any]:
    place = place_in_head(finding)
    return {
        "description": escape_line(finding.title),
        "check_name": finding.rule,
        "fingerprint": finding.fingerprint,
        "severity": _SEVERITY[finding.severity],
        "location": {"path": place.path, "lines": {"begin": place.start or 1}},
    }


def _describe_gap(gap: Skipped) -> dict[str, Any]:
    return {
        "description": describe_skip(gap),
        "check_name": "diffcourt.not-reviewed",
        "fingerprint": escape_unprintable(f"not-reviewed/{gap.tool}/{gap.path}"),
        "severity": "major",
        "location": {"path": escape_unprintable(gap.path), "lines": {"begin": 1}},
    }
