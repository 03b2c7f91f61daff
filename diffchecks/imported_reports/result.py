"""The common form of a result of any report format, and the error for unreadable reports."""

import re

from msgspec import Struct

TITLE_CHARACTERS = 120
TEXT_CHARACTERS = 1000
_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_CWE = re.compile(r"\bCWE[-_ ]?(\d{1,5})\b", re.IGNORECASE)


class Result(Struct, frozen=True, kw_only=True):
    """One result of a tool.

    Attributes:
        tool, rule: names as in the report.
        level: blocker, critical, major, minor or info.
        places: possible paths of the file, as written; the first is the most complete.
        line, end_line, column: 1-based; 0: not known.
        title: the tool's title of the rule; empty: none.
        help: the tool's advice on how to fix it.
        snippet: the text at ``line`` as quoted by the report; empty: not known.
    """

    tool: str
    rule: str
    level: str
    message: str
    places: tuple[str, ...] = ()
    line: int = 0
    end_line: int = 0
    column: int = 0
    title: str = ""
    help: str = ""
    cwe: tuple[int, ...] = ()
    security: bool = False
    snippet: str = ""


class ImportedReport(Struct):
    """All results of a report, and why some of its parts are left out."""

    results: list[Result] = []
    gaps: list[str] = []


def one_line(text: str, most: int = TEXT_CHARACTERS) -> str:
    """A report's text as one bounded line without control characters."""
    plain = _BLANK.sub(" ", text[: 4 * most]).strip()
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def weakness_numbers(*texts: str) -> tuple[int, ...]:
    """The CWE numbers in texts, in order."""
    found = (int(number) for text in texts for number in _CWE.findall(text[:TEXT_CHARACTERS]))
    return tuple(dict.fromkeys(found))


def level_of(name: str, *, security: bool = False) -> str:
    """The level for a tool's severity; one level higher for a security rule."""
    levels = ("info", "minor", "major", "critical", "blocker")
    known = {
        "error": 2, "fatal": 2, "failure": 2, "warning": 1, "warn": 1, "note": 0, "none": 0,
        "information": 0, "ignore": 0,
    }  # fmt: skip
    word = name.lower()
    if word in levels:
        return word
    return levels[known.get(word, 1) + security]
