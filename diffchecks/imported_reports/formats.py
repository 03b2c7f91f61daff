"""Detects a report's format from its content, and reads it."""

from collections.abc import Callable, Mapping

from msgspec import DecodeError, Raw, Struct, ValidationError
from msgspec.json import decode

from diffchecks.imported_reports.checkstyle import read_checkstyle, root_of
from diffchecks.imported_reports.json_formats import (
    read_eslint,
    read_gitlab,
    read_rdjson,
    read_rdjsonl,
)
from diffchecks.imported_reports.printed_lines import read_gcc
from diffchecks.imported_reports.result import ImportedReport
from diffchecks.imported_reports.sarif import read_sarif
from diffchecks.xml_reports import ReportError

READERS: Mapping[str, Callable[[bytes, str], ImportedReport]] = {
    "sarif": read_sarif,
    "checkstyle": read_checkstyle,
    "eslint": read_eslint,
    "gitlab": read_gitlab,
    "rdjson": read_rdjson,
    "rdjsonl": read_rdjsonl,
    "gcc": read_gcc,
}
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
            found = _of_item(decode(items[0], type=_Keys))
        elif start == b"{":
            found = _detect_object(data)
        else:
            found = None
    except (ValidationError, DecodeError, RecursionError, MemoryError, UnicodeDecodeError):
        found = None
    if not found:
        raise ReportError(_UNKNOWN)
    return found


def _of_item(keys: _Keys) -> str | None:
    if bytes(keys.file_path):
        return "eslint"
    return "gitlab" if bytes(keys.description) else None


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
