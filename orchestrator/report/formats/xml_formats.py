"""JUnit and Checkstyle XML, as the test and lint views of CI systems read them.

Sources: https://github.com/testmoapp/junitxml, https://checkstyle.org/
"""

from collections.abc import Iterable
from itertools import groupby
from xml.etree import ElementTree as ET

from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.report.findings_text import open_findings
from orchestrator.report.formats import FormatInputs
from orchestrator.report.formats.open_findings import (
    ERRORS,
    FindingPlace,
    describe_finding,
    describe_skip,
    gaps,
    place_in_head,
)
from orchestrator.report.terminal_escaping import escape_line, escape_unprintable, make_printable

NAMED = 12
"""Characters of a finding's identity in the name of its test case."""


def render_junit(verdict: Verdict, _: FormatInputs) -> str:
    """Required checks, findings and gaps as test cases of one suite.

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
    for entry in gaps(verdict):
        cases.append(_case(entry.path, entry.tool or "review"))
        _add(cases[-1], "error", describe_skip(entry))
    return _junit_document(cases)


def _junit_document(cases: list[ET.Element]) -> str:
    totals = {"name": "diffcourt", "tests": str(len(cases))}
    for tag, total in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        totals[total] = str(sum(case.find(tag) is not None for case in cases))
    root = ET.Element("testsuites", totals)
    ET.SubElement(root, "testsuite", totals).extend(cases)
    return _document(root)


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
    """Open findings and gaps by file."""
    rows = [_checkstyle_row(finding) for finding in open_findings(verdict)]
    for entry in gaps(verdict):
        error = {"severity": "warning", "message": describe_skip(entry)}
        error["source"] = "diffcourt.not-reviewed"
        rows.append((FindingPlace(entry.path, 0, 0, 0), error))
    root = ET.Element("checkstyle", {"version": "10.0"})
    for path, found in groupby(_by_path(rows), key=lambda row: row[0].path):
        file = ET.SubElement(root, "file", {"name": path})
        for place, error in found:
            where = {"line": str(place.start or 1)}
            if place.column:
                where["column"] = str(place.column)
            ET.SubElement(file, "error", {**where, **error})
    return _document(root)


def _by_path(
    rows: Iterable[tuple[FindingPlace, dict[str, str]]],
) -> list[tuple[FindingPlace, dict[str, str]]]:
    return sorted(rows, key=lambda row: (row[0].path, row[0].start, row[0].column))


def _checkstyle_row(finding: Finding) -> tuple[FindingPlace, dict[str, str]]:
    severity = "warning" if finding.severity == "medium" else "info"
    return place_in_head(finding), {
        "severity": "error" if finding.severity in ERRORS else severity,
        "message": escape_line(describe_finding(finding)),
        "source": finding.rule,
    }


def _document(root: ET.Element) -> str:
    for element in root.iter():  # no XML may hold control characters
        element.attrib = {name: escape_unprintable(value) for name, value in element.attrib.items()}
        element.text = make_printable(element.text) if element.text else None
    ET.indent(root)
    text: str = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'
