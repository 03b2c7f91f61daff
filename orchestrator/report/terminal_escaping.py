"""Prints text, and escapes external text: it can neither move the cursor nor forge a line."""

import json
import os
import re
from typing import Any, TextIO

from orchestrator.errors import OutputError
from orchestrator.foreign_json import escape_character, escape_surrogates, map_strings

_COMMAND_ANYWHERE = re.compile(r"##(?=(?:vso|teamcity)?\[)", re.IGNORECASE)
_CODE_OR_BLANKS = re.compile(r"((?<!`)(`+)(?!`).*?(?<!`)\2(?!`))| {2,}")
_IN_A_LINE = re.compile(r"[^\n\t]+")
_OUR_STYLE = re.compile(r"(\x1b\[(?:[012]|1;3[1-4])m)")
_COMMAND_AT_LINE_START = re.compile(r"^([^\S\n]*)::", re.MULTILINE)


def escape_unprintable(text: str) -> str:
    r"""The text on one line, with every unprintable character as an escape sequence.

    Control characters, ANSI sequences, bidi overrides, zero-width characters, line separators and
    unusual spaces become ``\x1b``, ``\u202e`` and the like. A byte that was not UTF-8 (held as a
    lone surrogate) becomes ``\xff``, so that the result can always be encoded.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else escape_character(char) for char in text)


def escape_line(text: str) -> str:
    """Prose on one line: white space becomes single spaces, other unprintable text is escaped.

    Blanks in code between backticks stay: there they may be what a finding is about.
    """
    spaced = text.replace("\r\n", " ").replace("\n", " ").replace("\t", " ")
    return escape_unprintable(_CODE_OR_BLANKS.sub(lambda found: found[1] or " ", spaced.strip(" ")))


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
    r"""A document as indented JSON in ASCII, which every terminal and encoding can show.

    A byte that is not UTF-8 becomes ``\xff``: strict parsers refuse lone surrogates.
    """
    text = json.dumps(document, indent=2, allow_nan=False)
    if r"\ud" in text:
        text = json.dumps(map_strings(document, escape_surrogates), indent=2)
    return neutralize_ci_commands(text) + "\n"


def make_printable(text: str, *, styles: bool = False) -> str:
    """Lines as a terminal may show them, whatever is in them.

    Only line feeds and tabs stay of what is unprintable.

    Args:
        styles: our own styles stay too.
    """
    text = text.replace("\r\n", "\n")
    parts = _OUR_STYLE.split(text) if styles else [text]
    parts[::2] = [_IN_A_LINE.sub(lambda m: escape_unprintable(m[0]), part) for part in parts[::2]]
    return "".join(parts)


def emit(text: str, stream: TextIO | None, *, commands: bool = False, data: bool = False) -> None:
    """Print text; a closed pipe is no error, since the exit code gives the outcome.

    This is the one place that prints, so nothing unprintable reaches a terminal or a job's log.

    Args:
        commands: leave commands to a CI runner, since they are intended.
        data: a document for a program: it is left as it is, unless a terminal shows it.

    Raises:
        OutputError: it cannot be written, for example because the disk is full.
    """
    if stream is None:  # closed by the parent process
        return
    if not data or stream.isatty():
        text = make_printable(text, styles=use_color(stream))
    if not commands:
        text = neutralize_ci_commands(text)
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        discard(stream)
    except OSError as error:
        discard(stream)
        raise OutputError(f"cannot write the output: {error.strerror}") from None


def emit_line(text: str, stream: TextIO | None) -> None:
    """Print a text on one line: what it quotes cannot begin another."""
    emit(f"{escape_unprintable(text)}\n", stream)


def discard(stream: TextIO | None) -> None:
    """Redirect a broken stream to /dev/null, so that the flush at exit does not fail."""
    try:
        if stream is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
    except (OSError, ValueError):
        return  # it has no file descriptor, so nothing is flushed at exit


def use_color(stream: TextIO | None) -> bool:
    """Whether to print ANSI colors (https://no-color.org)."""
    if stream is None or not stream.isatty() or os.environ.get("NO_COLOR"):
        return False
    return os.environ.get("TERM", "dumb") not in {"", "dumb", "unknown"}
