"""Reading coverage reports: Cobertura XML, coverage.py JSON and lcov.

A report is written by the tests of the change under review, so it is as little trusted as the
change: no entity is expanded, nothing is loaded, and every number is checked.
"""

import json
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.parsers import expat

from msgspec import Struct, field

LARGEST_LINE = 10_000_000
MILLISECONDS = 1e11  # a time above it is no number of seconds since 1970


class NotAReportError(Exception):
    """A file that is no report we know; ``str()`` says why."""


class Lines(Struct):
    """The executable lines of one file, 1-based: those that tests ran, and all."""

    ran: set[int] = field(default_factory=set)
    known: set[int] = field(default_factory=set)

    def add(self, number: Any, hits: Any) -> None:
        """Record whether a line ran.

        Raises:
            ValueError, TypeError: it is no line's number, or no count.
        """
        line = int(number)
        if not 1 <= line <= LARGEST_LINE:
            raise ValueError(line)
        self.known.add(line)
        if int(hits) > 0:
            self.ran.add(line)

    def merge(self, other: "Lines") -> None:
        """Take another report's lines over: one ran if it ran in either."""
        self.ran |= other.ran
        self.known |= other.known


class Report(Struct, frozen=True):
    """A coverage report.

    Attributes:
        files: path as written → its lines.
        roots: directories that these paths may be relative to; empty: the tests' own.
        made: when, in seconds since 1970, where the report says so.
    """

    files: Mapping[str, Lines]
    roots: tuple[str, ...] = ()
    made: float | None = None


def parse(data: bytes) -> Report:
    """Read a report of any of the three formats, recognized by its first character."""
    start = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    read = {b"<": _cobertura, b"{": _coverage_json}.get(start, _lcov)
    try:
        report = read(data)
    except expat.ExpatError as error:
        raise NotAReportError(f"is not well-formed XML: {error}") from None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise NotAReportError("is not a Cobertura XML, coverage.py JSON, or lcov report") from None
    if not report.files:
        raise NotAReportError("names no file")
    return report


def _cobertura(data: bytes) -> Report:
    """Read Cobertura XML; a DTD may be named, as many tools do, and is never loaded or allowed."""
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

    def doctype(name: str, system: str | None, public: str | None, has_subset: bool) -> None:
        if has_subset:
            raise NotAReportError("contains a DTD, which is not allowed in a report")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler = text.append
    parser.StartDoctypeDeclHandler = doctype
    parser.Parse(data, True)
    seconds = made[0] / 1000 if made and made[0] > MILLISECONDS else made[0] if made else None
    return Report(files, tuple(filter(None, roots)), seconds)


def _coverage_json(data: bytes) -> Report:
    """Read what ``coverage json`` writes. Its time has no zone, so it is not used."""
    files: dict[str, Lines] = {}
    for path, about in json.loads(data)["files"].items():
        lines = files[path] = Lines()
        for hits, key in ((1, "executed_lines"), (0, "missing_lines")):
            for number in about[key]:
                lines.add(number, hits)
    return Report(files)


def _lcov(data: bytes) -> Report:
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
        raise NotAReportError("is not a Cobertura XML, coverage.py JSON, or lcov report")
    return Report(files)


# --- which file of the tree a report speaks of ---------------------------------------------------


def locate_files(report: Report, tree: Iterable[str], paths: Iterable[str]) -> dict[str, Lines]:
    """The given files that a report speaks of, with their lines.

    A report names files as they lay where the tests ran. The file of the tree is meant whose path
    is the longest end of that; where two could be meant, neither is.
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
    """Where a file may have lain, with forward slashes."""
    plain = posixpath.normpath(written.replace("\\", "/"))
    if not roots or plain.startswith("/") or re.match(r"[A-Za-z]:/", plain):
        return [plain]
    return [posixpath.normpath(f"{root}/{plain}".replace("\\", "/")) for root in roots]


def find_meant(places: list[str], candidates: list[str]) -> str | None:
    """The candidate that shares the longest end with a place; None when two share as much."""
    candidates = [path for path in candidates if path in places] or candidates
    shared = {path: max(_shared(place, path) for place in places) for path in candidates}
    most = max(shared.values(), default=(False, 0))
    best = [path for path, much in shared.items() if much == most and most[1]]
    return best[0] if len(best) == 1 else None


def _shared(place: str, path: str) -> tuple[bool, int]:
    """Whether place and path are equal, and how much of them is, where one is the other's end."""
    if place == path or place.endswith(f"/{path}") or path.endswith(f"/{place}"):
        return place == path, min(len(place), len(path))
    return False, 0
