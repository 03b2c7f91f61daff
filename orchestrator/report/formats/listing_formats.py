"""Open findings and gaps by their places in head: what formats share, and formats that list them.

Sources: https://docs.github.com/actions/reference/workflow-commands-for-github-actions,
https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format,
https://github.com/reviewdog/reviewdog/tree/master/proto/rdf,
https://github.com/testmoapp/junitxml, https://checkstyle.org/
"""

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from typing import Any, Literal
from xml.etree import ElementTree as ET

from msgspec import Struct, to_builtins

from orchestrator.catalog.shared_literals import Severity
from orchestrator.code_review.verdict.model import Cause, Finding, Skipped, Verdict, name_counts
from orchestrator.data_directories import read_table
from orchestrator.report.findings_text import describe_support
from orchestrator.report.formats import FormatInputs
from orchestrator.report.ranking import headline, open_findings
from orchestrator.report.review_gaps_text import join_tools
from orchestrator.report.terminal_escaping import (
    as_json,
    escape_line,
    escape_unprintable,
    make_printable,
)

Level = Literal["error", "warning", "note"]
SEVERITIES: Mapping[str, Mapping[Severity, Any]] = read_table(__file__, "severities.yaml")
LEVELS: Mapping[Severity, Level] = SEVERITIES["levels"]

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
    if support := describe_support(finding):
        parts.append(f"{support[0].upper()}{support[1:]}.")
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
    return f"{headline(verdict)}: {name_counts(verdict.findings) or 'no findings'}"


MAX_ANNOTATIONS = 10
"""Annotations of one level that a step shows; it drops the rest silently."""
NAMED = 12
"""Characters of a finding's identity in the name of its test case."""
_RDJSON: Mapping[Level, str] = {"error": "ERROR", "warning": "WARNING", "note": "INFO"}


def render_annotations(verdict: Verdict, _: FormatInputs) -> str:
    """Workflow commands of a GitHub Actions step: one for each entry, and one with the outcome.

    The most severe of each level are kept, and the last one says how many are left out.
    """
    commands: dict[Level, list[str]] = {"error": [], "warning": [], "note": []}
    for entry in list_entries(verdict):
        commands[LEVELS[entry.severity]].append(_annotate(entry))
    annotations = [command for found in commands.values() for command in found[:MAX_ANNOTATIONS]]
    if len(commands["note"]) >= MAX_ANNOTATIONS:
        annotations.pop()  # a notice says the outcome
    left_out = sum(map(len, commands.values())) - len(annotations)
    text = escape_line(describe_result(verdict))
    if left_out:
        text += f". {left_out:,} more than a step can show: see the report"
    return "".join([*annotations, _command("note", text, {"title": "Diffcourt"})])


def _annotate(entry: ListedEntry) -> str:
    place, title = entry.place, "Not reviewed"
    properties = {} if entry.rule == NOT_REVIEWED and place.path == "*" else {"file": place.path}
    if place.start:
        properties |= {"line": str(place.start), "endLine": str(place.end)}
        if place.column and place.start == place.end:
            properties["col"] = str(place.column)
    if entry.finding:
        title = escape_line(f"{entry.severity}: {entry.rule}")
    return _command(LEVELS[entry.severity], entry.message, {**properties, "title": title})


def _command(level: Level, message: str, properties: Mapping[str, str]) -> str:
    def escape(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    given = ",".join(
        f"{name}={escape(value).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
    )
    return f"::{'notice' if level == 'note' else level} {given}::{escape(message)}\n"


def render_code_quality(verdict: Verdict, _: FormatInputs) -> str:
    """GitLab's Code Quality report, each entry under a fingerprint of its own.

    GitLab shows only the first of those that share one.
    """
    seen: Counter[str] = Counter()
    listed = []
    for entry in list_entries(verdict):
        seen[entry.fingerprint] += 1
        number = seen[entry.fingerprint]
        listed.append(
            {
                "description": entry.title,
                "check_name": entry.rule,
                "fingerprint": f"{entry.fingerprint}/{number}" if number > 1 else entry.fingerprint,
                "severity": SEVERITIES["gitlab"][entry.severity],
                "location": {"path": entry.place.path, "lines": {"begin": entry.place.start or 1}},
            }
        )
    return as_json(listed)


def render_rdjson(verdict: Verdict, _: FormatInputs) -> str:
    """The Reviewdog Diagnostic Format, which reviewdog posts to several forges.

    Columns are left out: the format counts bytes of UTF-8 and the verdict characters.
    """
    diagnostics = [_diagnose(entry) for entry in list_entries(verdict)]
    source = {"name": "diffcourt"}
    return as_json({"source": source, "severity": "WARNING", "diagnostics": diagnostics})


def _diagnose(entry: ListedEntry) -> dict[str, Any]:
    location: dict[str, Any] = {"path": entry.place.path}
    if entry.place.start:
        location["range"] = _lines(entry.place.start, entry.place.end)
    found: dict[str, Any] = {
        "message": entry.message,
        "location": location,
        "severity": _RDJSON[LEVELS[entry.severity]],
        "code": {"value": entry.rule},
    }
    if entry.finding and (suggestion := _suggest(entry.finding)):
        found["suggestions"] = [suggestion]
    return found


def _lines(start: int, end: int) -> dict[str, Any]:
    return {"start": {"line": start}, "end": {"line": end}}


def _suggest(finding: Finding) -> dict[str, Any] | None:
    """A verified patch of one hunk in the finding's file: several suggestions are alternatives."""
    # Reading patches takes a tenth of a second to import, and most reviews have none.
    from orchestrator.code_review.fixes import patch_files  # noqa: PLC0415

    span = patch_files.only_span(finding)
    ends = span and patch_files.split_line_ends(span.old[-1], span.new[-1])
    if not span or not ends:
        return None
    return {"range": _lines(span.start, span.end), "text": "".join([*span.new[:-1], ends[1]])}


def render_junit(verdict: Verdict, _: FormatInputs) -> str:
    """Required checks, findings and gaps as test cases of one suite of JUnit XML.

    An open finding is a failure, a waived one is skipped, and a gap is an error. The name of a
    finding's case stays the same from report to report.
    """
    cases = [_case("required checks", check.name) for check in verdict.required_checks]
    for check, case in zip(verdict.required_checks, cases, strict=True):
        if check.status == "not_applicable":
            _add(case, "skipped", check.status)
        elif not check.has_passed:
            _add(case, "error", f"{check.status}: {check.detail}")
    for finding in open_findings(verdict):
        case = _finding_case(finding)
        failure = _add(case, "failure", f"{finding.severity}: {finding.title}")
        failure.set("type", finding.rule)
        failure.text = describe_finding(finding)
        cases.append(case)
    for finding in verdict.findings:
        if finding.state == "waived":
            cases.append(_finding_case(finding))
            _add(cases[-1], "skipped", f"waived: {finding.waiver}")
    for gap in gaps(verdict):
        cases.append(_case(gap.path, gap.tool or "review"))
        _add(cases[-1], "error", describe_skip(gap))
    totals = {"name": "diffcourt", "tests": str(len(cases))}
    for tag, total in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        totals[total] = str(sum(case.find(tag) is not None for case in cases))
    root = ET.Element("testsuites", totals)
    ET.SubElement(root, "testsuite", totals).extend(cases)
    return _xml_document(root)


def _finding_case(finding: Finding) -> ET.Element:
    place = place_in_head(finding)
    # A consumer knows a case of an earlier report by its name; F1 may be another finding by then.
    case = _case(place.path, f"{finding.rule} {finding.identity[:NAMED]}")
    case.set("file", place.path)
    if place.start:
        case.set("line", str(place.start))
    return case


def _case(group: str, name: str) -> ET.Element:
    return ET.Element("testcase", {"classname": group, "name": escape_line(name)})


def _add(case: ET.Element, tag: str, message: str) -> ET.Element:
    return ET.SubElement(case, tag, {"message": escape_line(message)})


def render_checkstyle(verdict: Verdict, _: FormatInputs) -> str:
    """Open findings and gaps by file, as Checkstyle XML."""
    entries = sorted(
        list_entries(verdict), key=lambda one: (one.place.path, one.place.start, one.place.column)
    )
    root = ET.Element("checkstyle", {"version": "10.0"})
    for path, found in groupby(entries, key=lambda one: one.place.path):
        file = ET.SubElement(root, "file", {"name": path})
        for entry in found:
            error = {"line": str(entry.place.start or 1)}
            if entry.place.column:
                error["column"] = str(entry.place.column)
            level = LEVELS[entry.severity]
            error["severity"] = "info" if level == "note" else level
            error["message"] = escape_line(entry.message)
            ET.SubElement(file, "error", {**error, "source": entry.rule})
    return _xml_document(root)


def _xml_document(root: ET.Element) -> str:
    for element in root.iter():  # no XML may hold control characters
        element.attrib = {name: escape_unprintable(value) for name, value in element.attrib.items()}
        element.text = make_printable(element.text) if element.text else None
    ET.indent(root)
    text: str = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def render_json(verdict: Verdict, _: FormatInputs) -> str:
    """The verdict document (``diffcourt schema verdict``)."""
    return as_json(to_builtins(verdict))
