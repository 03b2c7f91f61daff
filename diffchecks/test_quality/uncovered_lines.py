"""Changed lines without test coverage, by the coverage reports of the change's tests.

A report is only valid for the text that was tested: a report that is older than head, or that has
lines that head does not have, is a gap.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.check_io import CheckReply, Gap, RawFinding, Source, read
from diffchecks.jobs import UncoveredLinesJob
from diffchecks.path_kinds import is_product
from diffchecks.python.source_definitions import definitions_in
from diffchecks.test_quality.coverage_reports import Lines, locate_files, parse
from diffchecks.xml_reports import ReportError

# Minimum executable lines of an untested function for the stricter rule.
FUNCTION_LINES = 5
NEAR = 3  # maximum distance of uncovered lines that are reported together outside of functions
SHOWN = 20  # maximum places in one review, the longest first
SKEW = 300.0  # tolerated clock difference in seconds


class _Place(Struct, frozen=True):
    """A group of uncovered lines.

    Attributes:
        name: of the function or class; empty if they are grouped by distance.
        changed: executable lines that the change adds in it.
        whole: no line of the function is covered.
    """

    path: str
    name: str
    lines: list[int]
    changed: int
    whole: bool


def run(job: UncoveredLinesJob) -> CheckReply:
    """Report groups of uncovered lines; facts contain the counts."""
    gaps: dict[str, str] = {}
    paths = [file.path for file in job.files if file.status != "deleted" and is_product(file.path)]
    lines = _lines(job, paths, gaps)
    gaps |= _unmentioned(paths, lines) if lines or not gaps else {}
    places: list[_Place] = []
    changed = 0
    for file in job.files:
        path = file.path
        if path in lines:
            try:
                text = Source(path, read(job.head_root, path)).text
                _same_version(path, text, lines[path])
            except Gap as gap:
                gaps[path] = str(gap)
                continue
            added = frozenset(file.added)
            changed += len(lines[path].known & added)
            places += _places(path, text, lines[path], added)
    places.sort(key=lambda place: (-len(place.lines), place.path, place.lines))
    findings = [_make_finding(place) for place in places[:SHOWN]]
    if places[SHOWN:]:
        more = f"{len(places) - SHOWN} further places are not shown."
        findings[-1] = replace(findings[-1], detail=more)
    return CheckReply(
        findings,
        sorted(lines.keys() - gaps.keys()),
        gaps,
        {"changed": changed, "uncovered": sum(len(place.lines) for place in places)},
    )


def _lines(job: UncoveredLinesJob, paths: list[str], gaps: dict[str, str]) -> dict[str, Lines]:
    """Merge all reports for these files: a line is covered if any report covers it."""
    found: dict[str, Lines] = {}
    for given in job.reports:
        try:
            report = parse(Path(given.path).read_bytes())
        except OSError as error:
            gaps[given.name] = f"cannot be read: {error.strerror}"
            continue
        except ReportError as why:
            gaps[given.name] = str(why)
            continue
        made = report.made if report.made is not None else given.made
        if job.head_time is not None and made + SKEW < job.head_time:
            gaps[given.name] = "is older than head; run the tests again"
            continue
        for path, lines in locate_files(report, job.head_tree, paths).items():
            found.setdefault(path, Lines()).merge(lines)
    return found


def _unmentioned(paths: list[str], lines: Mapping[str, Lines]) -> dict[str, str]:
    """Files missing in the reports although these name other files of the same top directory."""
    if not lines:
        return dict.fromkeys(paths, "the coverage reports name none of the changed files")
    known = {(_top(path), Source(path, b"").suffix) for path in lines}
    return {
        path: "no coverage report names it"
        for path in paths
        if path not in lines and (_top(path), Source(path, b"").suffix) in known
    }


def _top(path: str) -> str:
    return path.partition("/")[0] if "/" in path else ""


def _same_version(path: str, text: str, lines: Lines) -> None:
    """Check that a report is for this text."""
    written = text.split("\n")
    other = max(lines.known, default=0) > len(written) or (
        path.endswith(".py")
        and any(written[line - 1].strip()[:1] in {"", "#"} for line in lines.known)
    )
    if other:
        raise Gap("the coverage report is for another version of the file; run the tests again")


def _places(path: str, text: str, lines: Lines, added: frozenset[int]) -> Iterator[_Place]:
    """Group uncovered lines by enclosing function or class, else by distance."""
    uncovered = sorted((lines.known - lines.ran) & added)
    scopes = definitions_in(text) if uncovered and path.endswith(".py") else []
    ranges = [scope.lines for scope in scopes]
    groups: dict[int, list[int]] = {}
    for line in uncovered:
        at = max((n for n, inside in enumerate(ranges) if line in inside), default=-1)
        groups.setdefault(at, []).append(line)
    for at, held in groups.items():
        if at < 0:
            for part in _runs(held, NEAR):
                changed = [n for n in lines.known & added if part[0] <= n <= part[-1]]
                yield _Place(path, "", part, len(changed), False)
        else:
            scope = scopes[at]
            changed = [n for n in lines.known & added if n in ranges[at]]
            body = range(scope.node.body[0].lineno, ranges[at].stop)
            is_function = not isinstance(scope.node, ast.ClassDef)
            whole = is_function and lines.ran.isdisjoint(body)
            yield _Place(path, scope.dotted, held, len(changed), whole)


def _runs(lines: list[int], near: int) -> Iterator[list[int]]:
    """Group lines so that consecutive ones are within a maximum distance."""
    part = lines[:1]
    for line in lines[1:]:
        if line - part[-1] > near:
            yield part
            part = []
        part.append(line)
    yield part


def _make_finding(place: _Place) -> RawFinding:
    whole = place.whole and len(place.lines) >= FUNCTION_LINES
    of = f" of {place.name}" if place.name else ""
    if whole:
        message = f"No test covers {place.name}: {len(place.lines)} of its changed lines never ran"
    else:
        parts = _runs(place.lines, 1)
        numbers = ", ".join(f"{part[0]}-{part[-1]}" if part[1:] else str(part[0]) for part in parts)
        count = f"{len(place.lines)} of the {place.changed} changed lines{of}"
        message = f"No test covers {count}: {numbers}"
    return RawFinding(
        "function" if whole else "lines",
        place.path,
        place.lines[0],
        message,
        end_line=place.lines[-1],
        key=f"{place.path}: {place.name}" if place.name else None,
    )
