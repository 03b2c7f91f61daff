"""Reading coverage reports: Cobertura XML, coverage.py JSON and lcov.

A report is written by the tests of the change under review, so it is not trusted: no entity is
expanded, nothing is loaded, and every number is validated.
"""

import json
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from diffchecks.xml_reports import ReportError, parse_xml

MAX_LINE = 10_000_000
MILLISECONDS = 1e11  # a larger number is not a time in seconds since 1970


class Lines(Struct):
    """The executable lines of one file, 1-based: the covered ones, and all."""

    ran: set[int] = field(default_factory=set)
    known: set[int] = field(default_factory=set)

    def add(self, number: Any, hits: Any) -> None:
        """Record whether a line ran.

        Raises:
            ValueError, TypeError: the line number or the count is invalid.
        """
        line = int(number)
        if not 1 <= line <= MAX_LINE:
            raise ValueError(line)
        self.known.add(line)
        if int(hits) > 0:
            self.ran.add(line)

    def merge(self, other: "Lines") -> None:
        """Merge the lines of another report: a line is covered if it is covered in either."""
        self.ran |= other.ran
        self.known |= other.known


class CoverageReport(Struct, frozen=True):
    """A coverage report.

    Attributes:
        files: path as written → its lines.
        roots: directories to which these paths may be relative; empty: the tests' own.
        made: its time in seconds since 1970, if known.
    """

    files: Mapping[str, Lines]
    roots: tuple[str, ...] = ()
    made: float | None = None


def parse(data: bytes) -> CoverageReport:
    """Read a report of any of the three formats, recognized by its first character."""
    start = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    read = {b"<": _cobertura, b"{": _coverage_json}.get(start, _lcov)
    try:
        report = read(data)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise ReportError("is not a Cobertura XML, coverage.py JSON, or lcov report") from None
    if not report.files:
        raise ReportError("names no file")
    return report


def _cobertura(data: bytes) -> CoverageReport:
    """Read Cobertura XML; a reference to an external DTD is ignored, an internal DTD is refused."""
    files: dict[str, Lines] = defaultdict(Lines)
    roots: list[str] = []
    inside: list[Lines] = []
    made: list[float] = []
    text: list[str] = []

    def begin(tag: str, given: dict[str, str]) -> None:
        text.clear()
        if tag == "coverage" and given.get("timestamp"):
            made.append(float(given["timestamp"]))
        elif tag == "class":
            inside[:] = [files[given["filename"]]]
        elif tag == "line" and inside:
            inside[0].add(given["number"], given["hits"])

    def end(tag: str) -> None:
        if tag == "source":
            roots.append("".join(text).strip())
        elif tag == "class":
            inside.clear()

    parse_xml(data, begin, end, text.append, reference=True)
    seconds = made[0] / 1000 if made and made[0] > MILLISECONDS else made[0] if made else None
    return CoverageReport(files, tuple(filter(None, roots)), seconds)


def _coverage_json(data: bytes) -> CoverageReport:
    """Read the output of ``coverage json``. Its time has no time zone, so it is not used."""
    files: dict[str, Lines] = {}
    for path, about in json.loads(data)["files"].items():
        lines = files[path] = Lines()
        for hits, key in ((1, "executed_lines"), (0, "missing_lines")):
            for number in about[key]:
                lines.add(number, hits)
    return CoverageReport(files)


def _lcov(data: bytes) -> CoverageReport:
    files: dict[str, Lines] = defaultdict(Lines)
    lines: Lines | None = None
    for record in data.decode("utf-8", "replace").splitlines():
        kind, _, value = record.partition(":")
        if kind == "SF":
            lines = files[value.strip()]
        elif kind == "DA" and lines is not None:
            number, hits, *_ = value.split(",")
            lines.add(number, hits)
        elif kind == "end_of_record":
            lines = None
    if not files:
        raise ReportError("is not a Cobertura XML, coverage.py JSON, or lcov report")
    return CoverageReport(files)


# --- which file of the tree a report refers to ---------------------------------------------------


def locate_files(
    report: CoverageReport, tree: Iterable[str], paths: Iterable[str]
) -> dict[str, Lines]:
    """Find the given files in a report, with their lines.

    A report has the paths of the machine that ran the tests. The matching file of the tree is the
    one whose path is the longest suffix; if two match equally, neither counts.
    """
    names = {posixpath.basename(path) for path in paths}
    same_name: dict[str, list[str]] = defaultdict(list)
    for path in tree:
        if posixpath.basename(path) in names:
            same_name[posixpath.basename(path)].append(path)
    found: dict[str, Lines] = {}
    for written, lines in report.files.items():
        places = _places(written, report.roots)
        meant = find_meant(places, same_name.get(posixpath.basename(places[0]), []))
        if meant is not None:
            found.setdefault(meant, Lines()).merge(lines)
    return {path: found[path] for path in paths if path in found}


def _places(written: str, roots: Sequence[str]) -> list[str]:
    """The possible paths of a file, with forward slashes."""
    plain = posixpath.normpath(written.replace("\\", "/"))
    if not roots or plain.startswith("/") or re.match(r"[A-Za-z]:/", plain):
        return [plain]
    return [posixpath.normpath(f"{root}/{plain}".replace("\\", "/")) for root in roots]


def find_meant(places: list[str], candidates: list[str]) -> str | None:
    """The candidate with the longest common suffix; None if two are equally long."""
    candidates = [path for path in candidates if path in places] or candidates
    shared = {path: max(_shared(place, path) for place in places) for path in candidates}
    most = max(shared.values(), default=(False, 0))
    best = [path for path, much in shared.items() if much == most and most[1]]
    return best[0] if len(best) == 1 else None


def _shared(place: str, path: str) -> tuple[bool, int]:
    """Whether the paths are equal, and the common length if one is a suffix of the other."""
    if place == path or place.endswith(f"/{path}") or path.endswith(f"/{place}"):
        return place == path, min(len(place), len(path))
    return False, 0
