"""The Reviewdog Diagnostic Format, which reviewdog posts to several forges.

Columns are left out: the format counts bytes of UTF-8 and the verdict characters.

Source: https://github.com/reviewdog/reviewdog/tree/master/proto/rdf
"""

from typing import Any

from orchestrator.code_review.fixes.patch_lines import only_span, split_line_ends
from orchestrator.code_review.verdict.model import Finding, Skipped, Verdict
from orchestrator.report.findings_text import open_findings
from orchestrator.report.formats import FormatInputs
from orchestrator.report.formats.open_findings import (
    ERRORS,
    describe_finding,
    describe_skip,
    gaps,
    place_in_head,
)
from orchestrator.report.terminal_escaping import as_json, escape_unprintable


def render_rdjson(verdict: Verdict, _: FormatInputs) -> str:
    """One diagnostic for each open finding and gap."""
    findings = map(_describe_finding, open_findings(verdict))
    diagnostics = [*findings, *map(_describe_gap, gaps(verdict))]
    source = {"name": "diffcourt"}
    return as_json({"source": source, "severity": "WARNING", "diagnostics": diagnostics})


def _describe_gap(gap: Skipped) -> dict[str, Any]:
    return {
        "message": describe_skip(gap),
        "location": {"path": escape_unprintable(gap.path)},
        "severity": "WARNING",
        "code": {"value": "diffcourt.not-reviewed"},
    }


def _describe_finding(finding: Finding) -> dict[str, Any]:
    place = place_in_head(finding)
    location: dict[str, Any] = {"path": place.path}
    if place.start:
        location["range"] = {"start": {"line": place.start}, "end": {"line": place.end}}
    severity = "WARNING" if finding.severity == "medium" else "INFO"
    found: dict[str, Any] = {
        "message": describe_finding(finding),
        "location": location,
        "severity": "ERROR" if finding.severity in ERRORS else severity,
        "code": {"value": finding.rule},
    }
    if suggestion := _suggest(finding):
        found["suggestions"] = [suggestion]
    return found


def _suggest(finding: Finding) -> dict[str, Any] | None:
    """A verified patch of one hunk in the finding's file: several suggestions are alternatives."""
    span = only_span(finding)
    if span is None:
        return None
    ends = split_line_ends(span.old[-1], span.new[-1])
    if ends is None:
        return None
    region = {"start": {"line": span.start}, "end": {"line": span.end}}
    return {"range": region, "text": "".join([*span.new[:-1], ends[1]])}
