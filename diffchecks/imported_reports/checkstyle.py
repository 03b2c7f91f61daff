"""Checkstyle XML, which many linters of other languages write."""

from diffchecks.imported_reports.result import ImportedReport, Result, level_of, weakness_numbers
from diffchecks.xml_reports import ReportError, parse_xml


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
