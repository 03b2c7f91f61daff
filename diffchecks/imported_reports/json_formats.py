"""Reports in JSON other than SARIF: rdjson, rdjsonl, ESLint, and GitLab Code Quality."""

from typing import Any

from msgspec import Struct
from msgspec.json import decode

from diffchecks.imported_reports.result import ImportedReport, Result, level_of, weakness_numbers


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


class _Positions(Struct, frozen=True):
    begin: _Position = _Position()
    end: _Position = _Position()


class _QualityPlace(Struct, frozen=True):
    path: str
    lines: _Lines | None = None
    positions: _Positions | None = None


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
    start, end = (place.positions or _Positions()).begin, (place.positions or _Positions()).end
    if place.lines:
        begin, last = place.lines.begin, place.lines.end or 0
        start = begin if isinstance(begin, _Position) else _Position(begin)
        end = last if isinstance(last, _Position) else _Position(last)
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
