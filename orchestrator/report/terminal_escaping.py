"""Escapes external text, so that it can neither move the cursor nor forge a line of a report."""

import json
import re
from typing import Any

_COMMAND_ANYWHERE = re.compile(r"##(?=(?:vso|teamcity)?\[)", re.IGNORECASE)
_COMMAND_AT_LINE_START = re.compile(r"^([^\S\n]*)::", re.MULTILINE)


def escape_unprintable(text: str) -> str:
    r"""The text on one line, with every unprintable character as an escape sequence.

    Control characters, ANSI sequences, bidi overrides, zero-width characters, line separators and
    unusual spaces become ``\x1b``, ``\u202e`` and the like. A byte that was not UTF-8 (held as a
    lone surrogate) becomes ``\xff``, so that the result can always be encoded.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape_character(char) for char in text)


def _escape_character(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode("ascii")


def escape_line(text: str) -> str:
    """Prose on one line: white space becomes single spaces, other unprintable text is escaped."""
    spaced = text.replace("\r\n", " ").replace("\n", " ").replace("\t", " ")
    return escape_unprintable(" ".join(filter(None, spaced.split(" "))))


def quote_path(path: str) -> str:
    """A path for printing, in double quotes when it contains spaces, quotes or escapes."""
    shown = escape_unprintable(path)
    if shown != path or not path or any(char in path for char in " \"'"):
        return '"' + shown.replace('"', '\\"') + '"'
    return shown


def escape_code_lines(quote: str) -> list[str]:
    """A quotation's lines, tabs as four columns; only a newline ends a line."""
    lines = quote.replace("\r\n", "\n").rstrip("\n").split("\n")
    return [escape_unprintable(line.expandtabs(4)) for line in lines]


def neutralize_ci_commands(text: str) -> str:
    r"""The text without commands to a CI runner that reads it as a job's log.

    GitHub's runner executes ``::stop-commands::x`` at the start of a line and ``##[add-mask]x``
    anywhere in one, Azure's ``##vso[task.complete]``, TeamCity's ``##teamcity[buildStatus]``. The
    second character becomes ``\u0023`` or ``\u003a``: JSON stays the same document.
    """
    if "##" in text:
        text = _COMMAND_ANYWHERE.sub(r"#\\u0023", text)
    return _COMMAND_AT_LINE_START.sub(r"\1:\\u003a", text) if "::" in text else text


def as_json(document: Any) -> str:
    """A document as indented JSON in ASCII, which every terminal and encoding can show."""
    return neutralize_ci_commands(json.dumps(document, indent=2, allow_nan=False)) + "\n"
