"""One result of an imported report, whatever its format, and the errors of reading one."""

import re

from msgspec import Struct

TITLE_CHARACTERS = 120
TEXT_CHARACTERS = 1000
_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_CWE = re.compile(r"\bCWE[-_ ]?(\d{1,5})\b", re.IGNORECASE)


class NotAReportError(Exception):
    """A file that is no report we know; ``str()`` says why, to follow its name."""


class Result(Struct, frozen=True, kw_only=True):
    """What a tool reports.

    Attributes:
        tool, rule: names as the report has them.
        level: blocker, critical, major, minor or info.
        places: where the file may lie, as written; the first is the most complete.
        line, end_line, column: 1-based; 0: not known.
        title: the tool's own name of the rule; empty: it has none.
        help: what the tool says on how to fix it.
        snippet: the text that stands at ``line``, as the report has it; empty: not known.
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


class Report(Struct):
    """All results of a report, and why some of its parts are left out."""

    results: list[Result] = []
    gaps: list[str] = []


def one_line(text: str, most: int = TEXT_CHARACTERS) -> str:
    """Text of a report in one line, without control characters, bounded."""
    plain = _BLANK.sub(" ", text[: 4 * most]).strip()
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def weakness_numbers(*texts: str) -> tuple[int, ...]:
    """The CWE numbers that texts name, in order."""
    found = (int(number) for text in texts for number in _CWE.findall(text[:TEXT_CHARACTERS]))
    return tuple(dict.fromkeys(found))


def level_of(name: str, *, security: bool = False) -> str:
    """The level of a tool's own word for a severity; one higher for a security rule's."""
    levels = ("info", "minor", "major", "critical", "blocker")
    known = {
        "error": 2, "fatal": 2, "failure": 2, "warning": 1, "warn": 1, "note": 0, "none": 0,
        "information": 0, "ignore": 0,
    }  # fmt: skip
    word = name.lower()
    if word in levels:
        return word
    return levels[known.get(word, 1) + security]
