"""Reports in XML: Checkstyle, and linters' results in JUnit format."""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from diffchecks.imported_reports.printed_lines import PLACED, split_message
from diffchecks.imported_reports.result import ImportedReport, Result, level_of, weakness_numbers
from diffchecks.xml_reports import ReportError, parse_xml

_LINE = re.compile(r"\bline (\d{1,8})(?:, col(?:umn)? (\d{1,6}))?[,:]?\s*(.*)", re.IGNORECASE)
_BLOCK = re.compile(r"File: \S[^\n]{0,400}: (\d{1,8})-(\d{1,8})")
"""Matches the first and last line of the block in checkov's reports."""
_NUMBERED = re.compile(r"\[[A-Z]+\]\[([A-Za-z][\w.-]{1,80})\] ")
"""Matches the name of checkov's test cases: a severity, a rule, and its title."""
_PACKAGE = re.compile(r"org\.[a-z0-9]+\.(\S+)")
_WORD = re.compile(r"[A-Za-z][\w-]{1,40}")


class _Parser:
    """What a document's elements are collected in."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.results: list[Result] = []

    def begin(self, tag: str, given: Mapping[str, str]) -> None:
        """Handle the start of an element."""

    def end(self, tag: str) -> None:
        """Handle the end of an element."""

    def parse(self, data: bytes) -> ImportedReport:
        """Read a document."""
        parse_xml(data, self.begin, self.end, self.text.append)
        return ImportedReport(self.results, [])


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


class _Checkstyle(_Parser):
    def __init__(self) -> None:
        super().__init__()
        self.file = ""

    def begin(self, tag: str, given: Mapping[str, str]) -> None:
        if tag == "file":
            self.file = given.get("name", "")
        elif tag == "error":
            source = given.get("source", "")
            tool, rule = _tool_and_rule(source)
            message = given.get("message", "")
            self.results.append(
                Result(
                    tool=tool,
                    rule=rule or "result",
                    level=level_of(given.get("severity", "error")),
                    message=message,
                    places=(self.file,) if self.file else (),
                    line=_number(given.get("line")),
                    column=_number(given.get("column")),
                    cwe=weakness_numbers(message, source),
                )
            )


def _tool_and_rule(source: str) -> tuple[str, str]:
    """The tool and rule in a ``source``: a linter's rule, a Java class, or a rule alone."""
    first, last = source.partition(".")[0], source.rpartition(".")[2]
    if first in _LINTERS:
        return first, last
    return "checkstyle", (last if first in {"com", "net", "org"} else source)


def read_checkstyle(data: bytes, _head: str = "") -> ImportedReport:
    """Read Checkstyle XML, which many linters of other languages write."""
    return _Checkstyle().parse(data)


class _Case(Struct):
    """The current test case, with its tool and suite."""

    tool: str = "junit"
    suite: str = ""
    given: Mapping[str, str] = field(default_factory=dict)
    message: str = ""

    def result(
        self, rule: str, message: str, path: str, line: int, column: int = 0, end_line: int = 0
    ) -> Result:
        """A result of this case; the message may begin with its severity and end with its rule."""
        if named := _PACKAGE.fullmatch(rule) or _NUMBERED.match(rule):
            rule = named[1]
        said = split_message(message)
        return Result(
            tool=self.tool,
            rule=said.rule or rule,
            level=said.level,
            message=said.text,
            places=(path,) if path else (),
            line=line,
            end_line=end_line,
            column=column,
        )


class _JUnit(_Parser):
    def __init__(self) -> None:
        super().__init__()
        self.case, self.suites, self.tool = _Case(), [""], "junit"

    def begin(self, tag: str, given: Mapping[str, str]) -> None:
        name = given.get("name", "")
        if tag in {"testsuites", "testsuite"} and self.tool == "junit" and _WORD.fullmatch(name):
            self.tool = name
        if tag == "testsuite":
            self.suites.append(given.get("file") or name)
        elif tag == "testcase":
            self.case = _Case(self.tool, self.suites[-1], given)
        elif tag in {"failure", "error"}:
            self.text.clear()
            self.case.message = given.get("message", "")

    def end(self, tag: str) -> None:
        if tag in {"failure", "error"}:
            self.results += _failed(self.case, "".join(self.text))
        elif tag == "testsuite" and len(self.suites) > 1:
            self.suites.pop()


def _failed(case: _Case, text: str) -> Iterator[Result]:
    """The results of a failed case: one per line that names a place, else one for the case."""
    given, rule = case.given, case.given.get("name", "result")
    file, line = given.get("file", ""), _number(given.get("line"))
    message = case.message or text.strip()
    written = [case.message, *text.splitlines()]
    placed = [at for at in map(PLACED.match, written) if at and ("." in at[1] or "/" in at[1])]
    if placed:
        for path, number, column, rest in dict.fromkeys(at.groups() for at in placed):
            yield case.result(rule, rest or message, path, int(number), _number(column))
    elif line:
        yield case.result(rule, message, file or case.suite, line, _number(given.get("column")))
    elif file and (block := next(filter(None, map(_BLOCK.fullmatch, written)), None)):
        yield case.result(rule, message, file, int(block[1]), end_line=int(block[2]))
    else:
        near = next(filter(None, map(_LINE.search, written)), None)
        number, column, rest = near.groups() if near else ("0", None, "")
        place = file or case.suite
        yield case.result(rule, rest or message, place, int(number), _number(column))


def read_junit(data: bytes, _head: str = "") -> ImportedReport:
    """Read the failures of a JUnit report."""
    return _JUnit().parse(data)
