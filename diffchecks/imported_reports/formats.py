"""Detects a report's format from its content, and reads it; ``sarif`` reads the largest of them."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import DecodeError, Raw, Struct, ValidationError
from msgspec.json import decode

from diffchecks.data_files import read_patterns
from diffchecks.imported_reports.result import ImportedReport, Result, level_of, weakness_numbers
from diffchecks.imported_reports.sarif import read_sarif
from diffchecks.xml_reports import ReportError, parse_xml


class _Position(Struct, frozen=True):
    line: int = 0
    column: int = 0


class _Range(Struct, frozen=True):
    start: _Position = _Position()
    end: _Position = _Position()


class _Place(Struct, frozen=True):
    path: str
    range: _Range = _Range()


class _Source(Struct, frozen=True):
    name: str = ""


class _Code(Struct, frozen=True):
    value: str = ""


class _Diagnostic(Struct, frozen=True):
    message: str
    location: _Place
    severity: str | int | None = None
    source: _Source | None = None
    code: _Code | None = None


class _Diagnostics(Struct, frozen=True):
    diagnostics: tuple[_Diagnostic, ...]
    source: _Source | None = None
    severity: str | int | None = None


def read_rdjson(data: bytes, _head: str = "") -> ImportedReport:
    """Read the Reviewdog Diagnostic Format."""
    whole = decode(data, type=_Diagnostics)
    found = [_diagnosed(one, whole.source, whole.severity) for one in whole.diagnostics]
    return ImportedReport(found, [])


def read_rdjsonl(data: bytes, _head: str = "") -> ImportedReport:
    """Read the Reviewdog Diagnostic Format with one diagnostic per line."""
    lines = (line for line in data.splitlines() if line.strip())
    return ImportedReport([_diagnosed(decode(line, type=_Diagnostic)) for line in lines], [])


def _diagnosed(
    one: _Diagnostic, source: _Source | None = None, severity: str | int | None = None
) -> Result:
    given = one.severity or severity or "warning"
    names = {1: "error", 2: "warning", 3: "info"}
    start, end = one.location.range.start, one.location.range.end
    return Result(
        tool=(one.source or source or _Source()).name or "rdjson",
        rule=(one.code or _Code()).value or "result",
        level=level_of(names.get(given, "warning") if isinstance(given, int) else given),
        message=one.message,
        places=(one.location.path,),
        line=start.line,
        end_line=end.line,
        column=start.column,
    )


class _LintMessage(Struct, frozen=True, rename="camel"):
    message: str
    rule_id: str | None = None
    severity: int = 1
    line: int | None = None
    end_line: int | None = None
    column: int | None = None


class _LintFile(Struct, frozen=True, rename="camel"):
    file_path: str
    messages: tuple[_LintMessage, ...]


def read_eslint(data: bytes, _head: str = "") -> ImportedReport:
    """Read the output of ``eslint --format json``, which several other linters also write."""
    results = [
        Result(
            tool="eslint",
            rule=one.rule_id or "syntax",
            level=level_of("error" if one.severity == 2 else "warning"),
            message=one.message,
            places=(file.file_path,),
            line=one.line or 0,
            end_line=one.end_line or 0,
            column=one.column or 0,
        )
        for file in decode(data, type=tuple[_LintFile, ...])
        for one in file.messages
    ]
    return ImportedReport(results, [])


class _Lines(Struct, frozen=True):
    begin: int | _Position = 0
    end: int | _Position | None = None


class _QualityPlace(Struct, frozen=True):
    path: str
    lines: _Lines | None = None
    positions: _Lines | None = None


class _Quality(Struct, frozen=True):
    description: str
    location: _QualityPlace
    check_name: str = "result"
    engine_name: str = "codequality"
    severity: str = "minor"
    categories: tuple[Any, ...] = ()


def read_gitlab(data: bytes, _head: str = "") -> ImportedReport:
    """Read a GitLab Code Quality report, which is a subset of Code Climate's format."""
    return ImportedReport([_quality(one) for one in decode(data, type=tuple[_Quality, ...])], [])


def _quality(one: _Quality) -> Result:
    place = one.location
    lines = place.lines or place.positions or _Lines()
    start, end = (
        each if isinstance(each, _Position) else _Position(each or 0)
        for each in (lines.begin, lines.end)
    )
    return Result(
        tool=one.engine_name,
        rule=one.check_name,
        level=level_of(one.severity),
        message=one.description,
        places=(place.path,),
        line=start.line,
        end_line=end.line,
        column=start.column,
        cwe=weakness_numbers(one.check_name, one.description),
        security=any(str(name).lower() == "security" for name in one.categories),
    )


def root_of(data: bytes) -> str:
    """The name of a document's root element; empty if there is none near its start."""
    names: list[str] = []
    try:
        parse_xml(data[: 64 << 10], lambda tag, _: names.append(tag), whole=False)
    except ReportError:
        if not names:  # a DTD stands before it
            raise
    return names[0].rpartition(":")[2] if names else ""


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else 0


_LINTERS = frozenset({"detekt", "eslint", "jshint", "oxlint", "stylelint", "tslint"})
"""Tools whose name is the prefix of ``source`` in their Checkstyle reports."""


def _tool_and_rule(source: str) -> tuple[str, str]:
    """The tool and rule in a ``source``: a linter's rule, a Java class, or a rule alone."""
    first, last = source.partition(".")[0], source.rpartition(".")[2]
    if first in _LINTERS:
        return first, last
    return "checkstyle", (last if first in {"com", "net", "org"} else source)


def read_checkstyle(data: bytes, _head: str = "") -> ImportedReport:
    """Read a report."""
    results: list[Result] = []
    file = ""

    def begin(tag: str, given: dict[str, str]) -> None:
        nonlocal file
        if tag == "file":
            file = given.get("name", "")
        elif tag == "error":
            source, message = given.get("source", ""), given.get("message", "")
            tool, rule = _tool_and_rule(source)
            results.append(
                Result(
                    tool=tool,
                    rule=rule or "result",
                    level=level_of(given.get("severity", "error")),
                    message=message,
                    places=(file,) if file else (),
                    line=_number(given.get("line")),
                    column=_number(given.get("column")),
                    cwe=weakness_numbers(message, source),
                )
            )

    parse_xml(data, begin)
    return ImportedReport(results, [])


_PLACED = read_patterns("formats")["placed"]
"""Path, line, column and the rest."""
_SEVERITY = read_patterns("formats")["severity"]
_CODE_LAST = re.compile(r"[\[(]([A-Za-z][\w./-]{1,80})[,\w./-]{0,400}[\])]$")
_CODE_FIRST = read_patterns("formats")["code_first"]
_LEVELS = {"fatal error": "error", "style": "note", "convention": "note", "refactor": "note"}
MAX_CHARACTERS = 4000  # of a line


def _split_message(message: str) -> tuple[str, str, str]:
    """Level, rule and text of a message that may begin with its severity and end with its rule."""
    message = message.rstrip()
    word = _SEVERITY.match(message)
    code = _CODE_LAST.search(message)
    named = (word[1] or word[2]).lower() if word else "warning"
    text = message[word.end() if word else 0 : code.start() if code else None].strip()
    return level_of(_LEVELS.get(named, named)), code[1] if code else "", text


def read_gcc(data: bytes, _head: str = "") -> ImportedReport:
    """Read lines in the format of gcc and many linters; other lines are ignored."""
    results = []
    for line in data.decode("utf-8", "replace").splitlines():
        placed = _PLACED.match(line[:MAX_CHARACTERS])
        if not placed:
            continue
        path, number, column, rest = placed.groups()
        level, rule, text = _split_message(rest)
        if code := _CODE_FIRST.match(text):
            rule, text = rule or code[2] or code[1], text[code.end() :]
        # A note without a rule explains the line before it.
        if text and (rule or not rest.lower().startswith("note:")):
            results.append(
                Result(
                    tool="gcc",
                    rule=rule or "result",
                    level=level,
                    message=text,
                    places=(path,),
                    line=int(number),
                    column=int(column or 0),
                    cwe=weakness_numbers(rest),
                )
            )
    return ImportedReport(results, [])


READERS: Mapping[str, Callable[[bytes, str], ImportedReport]] = {
    "sarif": read_sarif, "checkstyle": read_checkstyle, "eslint": read_eslint,
    "gitlab": read_gitlab, "rdjson": read_rdjson, "rdjsonl": read_rdjsonl, "gcc": read_gcc,
}  # fmt: skip
FORMATS = tuple(READERS)
NO_TOOLS = frozenset({"checkstyle", "codequality", "gcc", "rdjson", "sarif"})
"""The placeholder for the name of a tool that a report does not name."""
_UNKNOWN = f"is in no known format: {', '.join(FORMATS)}"


class _Keys(Struct, frozen=True, rename="camel"):
    """Keys that distinguish the formats; their values are not read here."""

    runs: Raw = Raw()
    diagnostics: Raw = Raw()
    file_path: Raw = Raw()
    description: Raw = Raw()


def read_report(data: bytes, name: str = "", head: str = "") -> ImportedReport:
    """Read a report.

    Args:
        name: its format; empty: detect it from the content.
        head: the commit under review; empty where head is no commit.

    Raises:
        ReportError: it is not a report of that format, or of any format.
    """
    data = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    found = name or _detect(data)
    try:
        return READERS[found](data, head)
    except (ValidationError, DecodeError, UnicodeDecodeError) as error:
        raise ReportError(f"is not a valid {found} report: {error}") from None
    except RecursionError:
        raise ReportError("is nested too deeply") from None
    except MemoryError:
        raise ReportError("needs too much memory to be read") from None


def _detect(data: bytes) -> str:
    start = data[:1]
    if start == b"<":
        if root_of(data) != "checkstyle":
            raise ReportError(_UNKNOWN)
        return "checkstyle"
    try:
        if start == b"[":
            items = decode(data, type=list[Raw])
            if not items:
                return "eslint"
            keys = decode(items[0], type=_Keys)
            described = "gitlab" if bytes(keys.description) else None
            found = "eslint" if bytes(keys.file_path) else described
        elif start == b"{":
            found = _detect_object(data)
        else:
            found = None
    except (ValidationError, DecodeError, RecursionError, MemoryError, UnicodeDecodeError):
        found = None
    if not found:
        raise ReportError(_UNKNOWN)
    return found


def _detect_object(data: bytes) -> str | None:
    first = data.partition(b"\n")[0]
    try:
        decode(first, type=dict[str, Raw])
        lines = data.strip().count(b"\n") > 0 or b'"location"' in first
    except (DecodeError, RecursionError):
        lines = False
    if lines and b'"runs"' not in first and b'"diagnostics"' not in first:
        return "rdjsonl"
    keys = decode(data, type=_Keys)
    if bytes(keys.runs):
        return "sarif"
    return "rdjson" if bytes(keys.diagnostics) else None
