"""Annotations of a GitHub Actions step: workflow commands, which the runner reads in its log.

A step shows at most ten errors, ten warnings and ten notices; the rest would be dropped silently,
so the most severe are kept and a notice says how many are left out.

Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from typing import Literal

from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.report.findings_text import open_findings
from orchestrator.report.formats import FormatInputs
from orchestrator.report.formats.open_findings import (
    ERRORS,
    describe_finding,
    describe_skip,
    gaps,
    headline,
    place_in_head,
)
from orchestrator.report.terminal_escaping import escape_line, escape_unprintable

MAX_ANNOTATIONS = 10
"""Annotations of one level that a step shows."""

Level = Literal["error", "warning", "notice"]


def render_annotations(verdict: Verdict, _: FormatInputs) -> str:
    """One command for each open finding and gap, and a last one with the outcome."""
    commands: dict[Level, list[str]] = {"error": [], "warning": [], "notice": []}
    for finding in open_findings(verdict):
        commands[_level(finding)].append(_annotate(finding))
    for entry in gaps(verdict):
        where = {} if entry.path == "*" else {"file": escape_unprintable(entry.path)}
        commands["warning"].append(
            _command("warning", describe_skip(entry), {**where, "title": "Not reviewed"})
        )
    kept = [
        command for level in ("error", "warning") for command in commands[level][:MAX_ANNOTATIONS]
    ]
    kept += commands["notice"][: MAX_ANNOTATIONS - 1]
    left_out = sum(map(len, commands.values())) - len(kept)
    text = escape_line(headline(verdict))
    if left_out:
        text += f". {left_out:,} more than a step can show: see the report"
    return "".join([*kept, _command("notice", text, {"title": "Diffcourt"})])


def _level(finding: Finding) -> Level:
    if finding.severity in ERRORS:
        return "error"
    return "warning" if finding.severity == "medium" else "notice"


def _annotate(finding: Finding) -> str:
    place = place_in_head(finding)
    properties = {"file": place.path}
    if place.start:
        properties |= {"line": str(place.start), "endLine": str(place.end)}
        if place.column and place.start == place.end:
            properties["col"] = str(place.column)
    properties["title"] = escape_line(f"{finding.severity}: {finding.rule}")
    return _command(_level(finding), describe_finding(finding), properties)


def _command(level: Level, message: str, properties: dict[str, str]) -> str:
    given = ",".join(f"{name}={_escape_property(value)}" for name, value in properties.items())
    return f"::{level} {given}::{_escape_data(message)}\n"


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
