"""Text from outside, made fit to print: nothing in it can move a cursor or forge a line of ours."""

from __future__ import annotations

import re

_ANYWHERE = re.compile(r"##(?=(?:vso|teamcity)?\[)", re.IGNORECASE)
_AT_THE_START = re.compile(r"^([^\S\n]*)::", re.MULTILINE)


def escape_unprintable(text: str) -> str:
    r"""The text on one line, with every character that does not print written as an escape.

    Control characters, ANSI sequences, bidi overrides, zero-width characters, line separators and
    unusual spaces become ``\x1b``, ``\u202e`` and the like. A byte that was not UTF-8 (held as a
    lone surrogate) becomes ``\xff``, so that the result can always be encoded.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode("ascii")


def escape_line(text: str) -> str:
    """Prose on one line: white space becomes single spaces, the rest is made visible."""
    spaced = text.replace("\r\n", " ").replace("\n", " ").replace("\t", " ")
    return escape_unprintable(" ".join(filter(None, spaced.split(" "))))


def quote_path(path: str) -> str:
    """A path as it can be printed, in double quotes when it holds anything out of the ordinary."""
    shown = escape_unprintable(path)
    if shown != path or not path or any(char in path for char in " \"'"):
        return '"' + shown.replace('"', '\\"') + '"'
    return shown


def escape_code_lines(quote: str) -> list[str]:
    """A quotation line by line, tabs as four columns; only a newline ends a line."""
    lines = quote.replace("\r\n", "\n").rstrip("\n").split("\n")
    return [escape_unprintable(line.expandtabs(4)) for line in lines]


def neutralize_ci_commands(text: str) -> str:
    r"""What is printed, without orders to the runner of a CI job that reads it as its log.

    GitHub's runner obeys ``::stop-commands::x`` where a line begins and ``##[add-mask]x`` anywhere
    in one, Azure's ``##vso[task.complete]``, TeamCity's ``##teamcity[buildStatus]``, whoever wrote
    them. The second character becomes ``\u0023`` or ``\u003a``: JSON stays the same document.
    """
    if "##" in text:
        text = _ANYWHERE.sub(r"#\\u0023", text)
    return _AT_THE_START.sub(r"\1:\\u003a", text) if "::" in text else text
