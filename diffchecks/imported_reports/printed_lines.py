"""Results in lines of text, as compilers print them: ``PATH:LINE:COLUMN: MESSAGE``."""

import re

from diffchecks.imported_reports.result import ImportedReport, Result, level_of, weakness_numbers

_PLACED = re.compile(
    r"^\s*([^\s:][^:\n]{0,400}|[A-Za-z]:[^:\n]{1,400}):(\d{1,8})(?::(\d{1,6}))?:?\s*(.*)$"
)
"""Path, line, column and the rest."""
_SEVERITY = re.compile(
    r"\[?(?:(error|warning|note|info)\b|"
    r"(fatal error|style|portability|performance|convention|refactor|information)(?=[:\]]))"
    r"\]?[:\s-]*",
    re.IGNORECASE,
)
_CODE_LAST = re.compile(r"[\[(]([A-Za-z][\w./-]{1,80})[,\w./-]{0,400}[\])]$")
_CODE_FIRST = re.compile(
    r"\[?([A-Z]{1,8}\d{1,5})(?:\(([\w-]{1,80})\))?(?:,[^\]]{0,80})?\]?:?\s+(?:\[\*\]\s+)?"
)
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
