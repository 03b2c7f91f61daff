"""Parses the output of mypy, pyright and tsc, as text or JSON."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import decode

_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_MYPY = re.compile(r"([^\s:][^:\n]{0,400}):(\d{1,8})(?::(\d{1,6}))?(?::\d+:\d+)?: error: (.+)")
_MYPY_CODE = re.compile(r"  \[([\w-]+)\]$")
_PYRIGHT = re.compile(r"\s{0,8}(\S[^:\n]{0,400}):(\d{1,8}):(\d{1,6}) - (\w+)(?:: (.*))?")
_PYRIGHT_CODE = re.compile(r" \((report\w+)\)$")
_TSC = re.compile(
    r"(\S[^:(\n]{0,400})(?:\((\d{1,8}),(\d{1,6})\):|:(\d{1,8}):(\d{1,6}) -) error (TS\d+): (.*)"
)
_TSC_NOWHERE = re.compile(r"error (TS\d+): (.*)")
MAX_CHARACTERS = 4000  # of a line
MAX_LINES = 20  # of a message


class NotPrintedByCheckerError(Exception):
    """The output is not the checker's; ``str()`` is the reason, to be shown after its name."""


class PrintedError(Struct, frozen=True):
    """An error that a checker printed.

    Attributes:
        path: as printed.
        line, column: 1-based; column 0: not known.
        code: the checker's error code; empty: none.
    """

    path: str
    line: int
    column: int
    code: str
    message: str


def read_errors(checker: str, data: bytes) -> list[PrintedError]:
    """Read the errors in a checker's output, without warnings and notes.

    Raises:
        NotPrintedByCheckerError: it looks like JSON, but not like the checker's.
    """
    text = _COLOR.sub("", data.decode("utf-8", "replace"))
    try:
        if text.lstrip().startswith("{") and checker in _JSON:
            return list(_JSON[checker](text))
    except (ValidationError, DecodeError, RecursionError) as error:
        raise NotPrintedByCheckerError(f"printed JSON that is not {checker}'s: {error}") from None
    return list(_TEXT[checker](text))


class _MypyError(Struct):
    file: str
    line: int
    message: str
    severity: str
    column: int = -1
    code: str | None = None


def _mypy_json(text: str) -> Iterator[PrintedError]:
    for line in text.splitlines():
        if line.startswith("{"):
            one = decode(line, type=_MypyError)
            if one.severity == "error":
                yield PrintedError(one.file, one.line, one.column + 1, one.code or "", one.message)


def _mypy_text(text: str) -> Iterator[PrintedError]:
    for line in text.splitlines():
        if found := _MYPY.match(line[:MAX_CHARACTERS]):
            path, number, column, message = found.groups()
            code = _MYPY_CODE.search(message)
            said = message[: code.start()] if code else message
            yield PrintedError(path, int(number), int(column or 0), code[1] if code else "", said)


class _Position(Struct):
    line: int
    character: int


class _Range(Struct):
    start: _Position


class _PyrightError(Struct):
    file: str
    severity: str
    message: str
    range: _Range | None = None
    rule: str = ""


class _PyrightReport(Struct, rename={"diagnostics": "generalDiagnostics"}):
    diagnostics: list[_PyrightError]


def _pyright_json(text: str) -> Iterator[PrintedError]:
    for one in decode(text, type=_PyrightReport).diagnostics:
        if one.severity == "error":
            start = one.range.start if one.range else _Position(-1, -1)
            place = (one.file, start.line + 1, start.character + 1)
            yield PrintedError(*place, one.rule, one.message)


def _pyright_text(text: str) -> Iterator[PrintedError]:
    lines = text.splitlines()
    for at, line in enumerate(lines):
        found = _PYRIGHT.match(line[:MAX_CHARACTERS])
        if found and found[4] == "error":
            # The rule is at the end, and the message may continue on lines with more indentation.
            more = takewhile(_is_continuation, lines[at + 1 : at + MAX_LINES])
            message = " ".join([found[5] or "", *(one.strip()[:MAX_CHARACTERS] for one in more)])
            code = _PYRIGHT_CODE.search(message)
            said = message[: code.start()] if code else message
            place = (found[1], int(found[2]), int(found[3]))
            yield PrintedError(*place, code[1] if code else "", said)


def _is_continuation(line: str) -> bool:
    """Whether a line continues the message before it; pyright also indents with no-break spaces."""
    return bool(line.strip()) and not line[:4].strip()


def _tsc_text(text: str) -> Iterator[PrintedError]:
    for line in text.splitlines():
        if found := _TSC.match(line[:MAX_CHARACTERS]):
            path, number, column, pretty, pretty_column, code, message = found.groups()
            place = (path, int(number or pretty), int(column or pretty_column))
            yield PrintedError(*place, code, message)
        elif nowhere := _TSC_NOWHERE.match(line[:MAX_CHARACTERS]):
            yield PrintedError("", 0, 0, nowhere[1], nowhere[2])


_JSON: Mapping[str, Callable[[str], Iterator[PrintedError]]] = {
    "mypy": _mypy_json,
    "pyright": _pyright_json,
}
_TEXT: Mapping[str, Callable[[str], Iterator[PrintedError]]] = {
    "mypy": _mypy_text,
    "pyright": _pyright_text,
    "tsc": _tsc_text,
}
