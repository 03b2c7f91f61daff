"""Results of imported reports on the lines that a change adds.

A report may come from anywhere, so it is not trusted, like the change itself. A result that cannot
be placed in head is counted in a gap under the report's name; results on other lines are ignored.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from posixpath import basename, normpath
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from diffchecks.check_io import NOTHING_TO_COMPARE, CheckReply, RawFinding, ReportedRule, read_lines
from diffchecks.imported_reports.formats import NO_TOOLS, read_report
from diffchecks.imported_reports.result import TITLE_CHARACTERS, ImportedReport, Result, one_line
from diffchecks.jobs import GivenReport, ImportedReportsJob
from diffchecks.secrets.secret_scan import secrets_in
from diffchecks.test_quality.coverage_reports import find_meant
from diffchecks.xml_reports import ReportError

MAX_FINDINGS = 2000  # findings of one review
NEAR = 3  # lines around an added line that also count
FIX_CHARACTERS = 300
EXAMPLES = 3
_NAME = re.compile(r"[^a-z0-9]+")
_BANDIT = re.compile(r"B(\d{3})")


class _Head(Struct):
    """The tree under review, and the lines of it that count.

    Attributes:
        names: last part of a path → the tree's paths with that last part.
        counted: path of a changed file → its lines that count; None: all.
        changed_names: the last parts of the paths of the changed files.
        placed: places of a result → the path that they refer to, as a cache.
    """

    root: str
    names: Mapping[str, list[str]]
    counted: Mapping[str, frozenset[int] | None]
    changed_names: frozenset[str]
    lines: dict[str, list[str] | None] = field(default_factory=dict)
    placed: dict[tuple[str, ...], str | None] = field(default_factory=dict)

    def meant(self, places: tuple[str, ...]) -> str | None:
        """The tree's path to which the places of a result refer; None: none, or ambiguous."""
        if places not in self.placed:
            same_name = self.names.get(basename(places[0]), [])
            self.placed[places] = find_meant(list(places), same_name)
        return self.placed[places]

    def text(self, path: str) -> list[str] | None:
        """The lines of a changed file; None if it cannot be read."""
        if path not in self.lines:
            self.lines[path] = read_lines(self.root, path)
        return self.lines[path]


def run(job: ImportedReportsJob) -> CheckReply:
    """Report the results at counted lines of the changed files."""
    names: dict[str, list[str]] = defaultdict(list)
    for path in job.head_tree:
        names[basename(path)].append(path)
    counted = {
        file.path: _counted(file.added, job.lines) for file in job.files if file.status != "deleted"
    }
    head = _Head(job.head_root, names, counted, frozenset(map(basename, counted)))
    gaps: dict[str, str] = {}
    found: dict[RawFinding, None] = {}
    count = 0
    for given in job.reports:
        try:
            report = _read(given, job.head_commit)
        except ReportError as error:
            gaps[given.name] = one_line(str(error), 300)
            continue
        count += len(report.results)
        report = _named(report, given)
        left: dict[str, list[str]] = defaultdict(list)  # why results do not count
        for result in report.results:
            place = _place(result, head, left)
            if place and len(found) < MAX_FINDINGS:
                found[_finding(result, *place, job.severities)] = None
            elif place:
                left[f"findings beyond the first {MAX_FINDINGS}"].append(place[0])
        reasons = [*(one_line(gap, 300) for gap in report.gaps), *map(_counts, left.items())]
        if reasons:
            gaps[given.name] = "; ".join(reasons)
    findings = sorted(found, key=lambda raw: (raw.path, raw.line, raw.code, raw.message))
    examined = sorted({raw.path for raw in findings})
    facts: dict[str, Any] = {"results": count}
    if not findings:
        facts[NOTHING_TO_COMPARE] = "the reports have no result at lines of the change"
    return CheckReply(findings, examined, gaps, facts)


def _read(given: GivenReport, head: str) -> ImportedReport:
    """Read a report of the job; raises ``ReportError`` if it cannot be read."""
    if given.error:
        raise ReportError(given.error)
    try:
        data = Path(given.path).read_bytes()
    except OSError as error:
        raise ReportError(f"cannot be read: {error.strerror}") from None
    return read_report(data, given.format, head)


def _named(report: ImportedReport, given: GivenReport) -> ImportedReport:
    """The report with its tool's name and with paths of the tree, if these are known."""
    tool, start = given.tool, f"{given.made_in}/"
    if not tool:
        return report
    results = [
        replace(
            one,
            tool=tool if one.tool in NO_TOOLS else one.tool,
            places=tuple(place.removeprefix("file://").removeprefix(start) for place in one.places),
        )
        for one in report.results
    ]
    return ImportedReport(results, report.gaps)


def _counted(added: Iterable[int], filtered: str) -> frozenset[int] | None:
    if filtered == "file":
        return None
    near = NEAR if filtered == "context" else 0
    return frozenset(n for line in added for n in range(line - near, line + near + 1))


def _counts(entry: tuple[str, list[str]]) -> str:
    """The number of results left out for a reason, with examples."""
    why, names = entry
    shown = ", ".join(dict.fromkeys(one_line(name, 80) for name in names[:EXAMPLES]))
    return f"left out {why}: {len(names)}, such as {shown}"


def _place(result: Result, head: _Head, left: dict[str, list[str]]) -> tuple[str, int] | None:
    """A result's path and last line; None: outside of the change, or added to ``left``."""
    if not result.places:
        left["results without a file"].append(f"{result.tool} {result.rule}")
        return None
    places = tuple(normpath(place.replace("\\", "/")) for place in result.places)
    path = head.meant(places)
    if path is None:
        if places[0].startswith(("/", "../")) or ":" in places[0][:2]:
            left["results in files outside the repository"].append(places[0])
        elif basename(places[0]) in head.changed_names:
            left["results in files that head does not have"].append(places[0])
        return None
    if path not in head.counted:
        return None
    lines = head.text(path)
    if lines is None:
        left["results in files that cannot be read"].append(path)
        return None
    if result.line < 1:
        left["results without a line"].append(path)
        return None
    quoted = result.snippet.strip().partition("\n")[0].strip()
    if result.line > len(lines) or quoted not in lines[result.line - 1]:
        left["results about another version of the file"].append(f"{path}:{result.line}")
        return None
    last = min(max(result.end_line, result.line), len(lines))
    counted = head.counted[path]
    if counted is not None and counted.isdisjoint(range(result.line, last + 1)):
        return None
    return path, last


def _finding(result: Result, path: str, last: int, severities: Mapping[str, str]) -> RawFinding:
    tool, rule = one_line(result.tool, 80), one_line(result.rule, 200)
    message = one_line(result.message) or rule
    message = message.removeprefix(f"{rule}: ")
    text = one_line(result.title)
    if " " not in text or "{" in text or text.startswith("Semgrep Finding"):
        text = message.partition(". ")[0]  # a title that is no prose
    title = one_line(text, TITLE_CHARACTERS).rstrip(".")
    reported = ReportedRule(
        tool=_identifier(tool),
        rule=_identifier(rule),
        title=title,
        severity=_severity(f"{tool}:{rule}", result.level, severities),
        category="security" if result.security or result.cwe else "qa",
        fix=one_line(result.help, FIX_CHARACTERS),
        cwe=result.cwe,
        own=_own_codes(tool, rule),
    )
    return RawFinding(
        code=f"{tool}:{rule}",
        path=path,
        line=result.line,
        end_line=last,
        column=max(result.column, 0),
        message=message,
        detail=f"Reported by {tool} as {rule}",
        redact=tuple(sorted(secrets_in(path, f"{message}\n{title}"))),
        reported=reported,
    )


def _identifier(name: str) -> str:
    return _NAME.sub("-", name.lower()).strip("-")[:100].strip("-") or "unnamed"


def _severity(name: str, level: str, severities: Mapping[str, str]) -> str:
    """Our severity: by the first pattern in the table that matches ``tool:rule``, else by level."""
    matching = (
        severity
        for pattern, severity in severities.items()
        if ":" in pattern and fnmatchcase(name.lower(), pattern.lower())
    )
    return next(matching, severities.get(level, "low"))


def _own_codes(tool: str, rule: str) -> tuple[tuple[str, str], ...]:
    """Codes in our rule table for the same rule; ruff's ``S`` rules are bandit's."""
    name = tool.lower()
    if name == "bandit" and (number := _BANDIT.fullmatch(rule)):
        return (("ruff", f"S{number.group(1)}"),)
    return ((name, rule),) if name in {"ruff", "shellcheck", "hadolint", "zizmor"} else ()
