"""SARIF 2.1.0, within the limits of GitHub's code scanning.

Sources: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html and
https://docs.github.com/code-security/code-scanning/integrating-with-code-scanning
"""

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from diffchecks.check_io import FlowStep
from diffchecks.rules import Rule
from orchestrator import __version__
from orchestrator.catalog.shared_literals import is_as_severe
from orchestrator.code_review.fixes.patch_files import (
    PatchedLines,
    changed_span,
    patched_files,
    split_line_ends,
)
from orchestrator.code_review.verdict.model import Cause, Finding, Skipped, Verdict
from orchestrator.report.findings_text import name_provers
from orchestrator.report.formats import FormatInputs, listing_formats
from orchestrator.report.ranking import open_findings
from orchestrator.report.terminal_escaping import as_json, escape_code_lines, escape_line

MAX_RESULTS = 5_000
"""Results that code scanning keeps of one run; it takes 25,000 and drops the rest."""
MAX_BYTES = 9_000_000
"""Bytes of the document: code scanning refuses more than ten million after compression."""
MAX_TAGS = 20
MAX_DESCRIBED = 1_000
"""Characters of a rule's description; code scanning takes 1,024."""

_PRECISIONS = ((0.9, "very-high"), (0.7, "high"), (0.4, "medium"), (0.0, "low"))
_ROOT = "%SRCROOT%"
_WORD = re.compile(r"[A-Za-z0-9]+")
_LINK = re.compile(r"(?=[\[\]])")


def render_sarif(verdict: Verdict, sources: FormatInputs) -> str:
    """One run: rules, open and waived findings, and gaps as notifications.

    If there are too many, the least severe are left out, and a notification says so.
    """
    findings = open_findings(verdict)
    findings += [finding for finding in verdict.findings if finding.state == "waived"]
    kept = findings[:MAX_RESULTS]
    while len(text := _document(verdict, sources, kept, len(findings) - len(kept))) > MAX_BYTES:
        kept = kept[: len(kept) * MAX_BYTES // len(text) - 1]
    return text


def _document(verdict: Verdict, sources: FormatInputs, kept: list[Finding], left_out: int) -> str:
    worst: dict[str, Finding] = {}  # of each rule
    for finding in kept:
        if not is_as_severe(worst.setdefault(finding.rule, finding).severity, finding.severity):
            worst[finding.rule] = finding
    rules = [_describe_rule(worst[name], sources.rules.get(name)) for name in sorted(worst)]
    numbers = {rule["id"]: number for number, rule in enumerate(rules)}
    version = {"semanticVersion": __version__, "version": __version__}
    run = {
        "tool": {"driver": {"name": "Diffcourt", **version, "rules": rules}},
        "invocations": [_describe_invocation(verdict, left_out)],
        "automationDetails": {"id": "diffcourt/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the repository."}}},
        "results": [_describe_result(finding, numbers[finding.rule]) for finding in kept],
        "properties": {"verdict": verdict.verdict, "runId": verdict.run_id},
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return as_json({"$schema": schema, "version": "2.1.0", "runs": [run]})


def _describe_invocation(verdict: Verdict, left_out: int) -> dict[str, Any]:
    notifications = [
        _notify("not-reviewed", listing_formats.describe_skip(gap), gap)
        for gap in listing_formats.gaps(verdict)
    ]
    if left_out:
        text = (
            f"{left_out:,} results, the least severe, are left out here; the verdict has them all"
        )
        notifications.append(_notify("results-left-out", text))
    return {
        "executionSuccessful": verdict.status == "complete",
        "exitCode": verdict.exit_code,
        "exitCodeDescription": listing_formats.describe_result(verdict),
        "toolExecutionNotifications": notifications,
    }


def _notify(name: str, text: str, gap: Skipped | None = None) -> dict[str, Any]:
    notification: dict[str, Any] = {
        "level": "warning",
        "descriptor": {"id": f"diffcourt.{name}"},
        "message": {"text": _sentence(text)},
    }
    if gap is not None and gap.path != "*":
        notification["locations"] = [{"physicalLocation": _locate(gap.path)}]
    return notification


def _describe_rule(finding: Finding, rule: Rule | None) -> dict[str, Any]:
    title = rule.title if rule else finding.title
    why = rule.why if rule else ""
    fix = rule.fix if rule else finding.fix_suggestion
    cwe = rule.cwe if rule and rule.cwe else finding.cwe
    properties: dict[str, Any] = {
        "tags": [finding.category, *(f"external/cwe/cwe-{number:03}" for number in cwe)],
        "precision": next(name for least, name in _PRECISIONS if finding.confidence >= least),
    }
    properties["tags"] = properties["tags"][:MAX_TAGS]
    if finding.category == "security":
        properties["security-severity"] = listing_formats.SEVERITIES["code_scanning"][
            finding.severity
        ]
    else:
        level = listing_formats.LEVELS[finding.severity]
        properties["problem.severity"] = "recommendation" if level == "note" else level
    text = "\n\n".join(filter(None, (why, fix and f"Fix: {fix}"))) or f"{title}."
    return {
        "id": finding.rule,
        "name": "".join(part.capitalize() for part in _WORD.findall(finding.rule)),
        "shortDescription": {"text": _sentence(title[:MAX_DESCRIBED])},
        "fullDescription": {"text": _sentence((why or title)[:MAX_DESCRIBED])},
        "help": {"text": _message(text), "markdown": _markdown_help(text, rule)},
        "defaultConfiguration": {"level": listing_formats.LEVELS[finding.severity]},
        "properties": properties,
    }


def _markdown_help(text: str, rule: Rule | None) -> str:
    """The help with the rule's example; of a rule that is not ours, the text as code."""
    if rule is None:
        return "\n".join(f"    {line}" for line in text.splitlines())
    if rule.example is None:
        return text
    examples = (("Instead of", rule.example.bad), ("write", rule.example.good))
    return "\n\n".join([text, *(f"{word}\n\n```\n{code}\n```" for word, code in examples)])


def _describe_result(finding: Finding, number: int) -> dict[str, Any]:
    location: dict[str, Any] = {"physicalLocation": _locate_finding(finding)}
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": number,
        "level": listing_formats.LEVELS[finding.severity],
        "message": {"text": _sentence(listing_formats.describe_finding(finding))},
        "locations": [location],
        "partialFingerprints": {
            "diffcourt/v1": finding.fingerprint,
            "primaryLocationLineHash": finding.fingerprint,
        },
        "rank": round(finding.confidence * 100, 1),
        "properties": {
            "severity": finding.severity,
            "support": finding.support_told,
            "reportedBy": list(finding.reported_by),
        },
    }
    if finding.since_previous:
        result["baselineState"] = "unchanged" if finding.since_previous == "open" else "new"
    if finding.steps:
        result["codeFlows"] = [_describe_flow(finding.steps)]
    if finding.because_of is not None:
        result["relatedLocations"] = [_describe_cause(finding.because_of)]
    if changes := list(_describe_changes(finding)):
        text = _sentence(escape_line(f"Verified by {name_provers(finding)}"))
        result["fixes"] = [{"description": {"text": text}, "artifactChanges": changes}]
    if finding.state == "waived":
        result["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": _sentence(finding.waiver)}
        ]
    return result


def _describe_changes(finding: Finding) -> Iterator[dict[str, Any]]:
    """The files of a verified patch; none where one of its changes has no place in SARIF."""
    if finding.fix is None or not finding.fix.is_verified:
        return
    files = patched_files(finding.fix)
    spans = {file.path: [changed_span(hunk) for hunk in file.hunks] for file in files}
    if any(span is None for found in spans.values() for span in found):
        return
    for path, found in spans.items():
        yield {**_locate(path), "replacements": [_replace(span) for span in found if span]}


def _replace(span: PatchedLines) -> dict[str, Any]:
    """What replaces whole lines, without the end of the last one where it stays as it is."""
    last, text = span.old[-1], "".join(span.new)
    end = {"endLine": span.end, "endColumn": len(last) + 1}
    if ends := split_line_ends(last, span.new[-1]):
        end["endColumn"] = len(ends[0]) + 1
        text = "".join([*span.new[:-1], ends[1]])
    elif last.endswith("\n"):
        end = {"endLine": span.end + 1, "endColumn": 1}
    region = {"startLine": span.start, "startColumn": 1, **end}
    return {"deletedRegion": region, "insertedContent": {"text": text}}


def _describe_flow(steps: Sequence[FlowStep]) -> dict[str, Any]:
    locations = [
        {
            "location": {
                "physicalLocation": {**_locate(step.path), "region": {"startLine": step.line}},
                "message": {"text": _sentence(escape_line(step.text))},
            }
        }
        for step in steps
    ]
    return {"threadFlows": [{"locations": locations}]}


def _describe_cause(cause: Cause) -> dict[str, Any]:
    where = _locate(cause.path)
    text = "The removed line that causes it" if cause.removed else "The line that causes it"
    if not cause.removed:
        where["region"] = {"startLine": cause.line}
    return {"id": 1, "physicalLocation": where, "message": {"text": f"{text}."}}


def _locate_finding(finding: Finding) -> dict[str, Any]:
    """Lines of head; of a line that the change removes, the beginning of the file."""
    place = listing_formats.place_in_head(finding)
    region: dict[str, Any] = {"startLine": place.start or 1, "endLine": place.end or 1}
    if place.column:
        region["startColumn"] = place.column
    if place.start and finding.evidence.quote:
        quote = "\n".join(escape_code_lines(finding.evidence.quote))
        region["snippet"] = {"text": quote}
    return {**_locate(finding.path), "region": region}


def _locate(path: str) -> dict[str, Any]:
    """A path of the repository as a relative URI, also where it is not UTF-8."""
    return {"artifactLocation": {"uri": quote(os.fsencode(path)), "uriBaseId": _ROOT}}


def _sentence(text: str) -> str:
    """A message as the standard wants it: its last sentence ends."""
    return _message(text if text.endswith((".", "!", "?")) else f"{text}.")


def _message(text: str) -> str:
    """Plain text in which square brackets make no link (section 3.11.6)."""
    return _LINK.sub(r"\\", text)
