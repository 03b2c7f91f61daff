"""The strings of newer Python, found and taken apart without the help of its parser."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
      | (?P<prefix>[rRbBuUfFtT]{0,2})(?P<quote>'''|\"\"\"|'|")
      | (?P<open>[(\[{]) | (?P<close>[)\]}])
      | (?P<other>\w+|[^\w'"\#()\[\]{}:!]+|.)""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN = {
    quote: re.compile(body, re.DOTALL)
    for quote, body in {
        "'": r"(?:[^\\'\n]|\\.)*'",
        '"': r'(?:[^\\"\n]|\\.)*"',
        "'''": r"(?:[^\\']|\\.|'(?!''))*'''",
        '"""': r'(?:[^\\"]|\\.|"(?!""))*"""',
    }.items()
}
_LITERAL = re.compile(r"[^\\{}'\"\n]+|\\N\{[^}]*\}|\\[^{}]|\{\{|\}\}|.", re.DOTALL)
_RAW_LITERAL = re.compile(r"[^\\{}'\"\n]+|\\['\"\\]|\{\{|\}\}|.", re.DOTALL)
_BESIDE = re.compile(r"(?:[ \t\f]|\\\r?\n)*")
_ACROSS = re.compile(r"(?:\s|\\\r?\n|\#[^\n]*)*")


class UnknownSyntaxError(Exception):
    """Not what is known of any version."""


@dataclass
class Text:
    """A piece of text; ``start`` is its offset in the source."""

    start: int
    value: str


@dataclass
class Field:
    """A replacement field: its expression's offsets, its own text if that is shown, the rest."""

    start: int
    end: int
    shown: str = ""
    conversion: str = ""
    spec: list[Text | Field] = field(default_factory=list)


def split(source: str) -> Iterator[tuple[bool, str]]:
    """Code, and groups of strings side by side (True) that have fields or go over several lines.

    Raises:
        UnknownSyntaxError: a string does not end.
    """
    done = at = depth = 0
    while at < len(source):
        token = _token(source, at)
        if token["quote"] is None:
            depth += _nesting(token)
            at = token.end()
            continue
        end, fields = _group(source, at, _ACROSS if depth > 0 else _BESIDE)
        if fields or "\n" in source[at:end]:
            yield False, source[done:at]
            yield True, source[at:end]
            done = end
        at = end
    yield False, source[done:]


def read(source: str) -> list[Text | Field]:
    """The pieces of strings that stand side by side.

    Raises:
        UnknownSyntaxError: it is not such a group.
    """
    pieces: list[Text | Field] = []
    at = 0
    while at < len(source):
        token = _token(source, at)
        if token["quote"] is None:
            raise UnknownSyntaxError
        if _has_fields(token):
            at, found = _Body(source, token).read()
            pieces += found
        else:
            end = _plain_end(source, token)
            pieces.append(Text(at, str(ast.literal_eval(source[at:end]))))
            at = end
        at = _behind(_ACROSS, source, at)
    return pieces


def _token(source: str, at: int) -> re.Match[str]:
    found = _TOKEN.match(source, at)
    assert found is not None
    return found


def _behind(gap: re.Pattern[str], source: str, at: int) -> int:
    found = gap.match(source, at)
    return found.end() if found else at


def _nesting(token: re.Match[str]) -> int:
    return (token["open"] is not None) - (token["close"] is not None)


def _has_fields(token: re.Match[str]) -> bool:
    return not {"f", "t"}.isdisjoint(token["prefix"].lower())


def _group(source: str, at: int, gap: re.Pattern[str]) -> tuple[int, bool]:
    """Where strings side by side end, ``gap`` being between them, and whether one has fields."""
    fields, end = False, at
    while at < len(source) and (token := _token(source, at))["quote"] is not None:
        if _has_fields(token):
            fields, (end, _) = True, _Body(source, token).read()
        else:
            end = _plain_end(source, token)
        at = _behind(gap, source, end)
    return end, fields


def _plain_end(source: str, token: re.Match[str]) -> int:
    found = _PLAIN[token["quote"]].match(source, token.end())
    if found is None:
        raise UnknownSyntaxError
    return found.end()


class _Body:
    """Reads one string with fields."""

    def __init__(self, source: str, token: re.Match[str]) -> None:
        self._source, self._at = source, token.end()
        self._quote = token["quote"]
        self._raw = "r" in token["prefix"].lower()

    def read(self) -> tuple[int, list[Text | Field]]:
        """Where it ends, and its pieces."""
        pieces = self._literal(self._quote)
        return self._at + len(self._quote), pieces

    def _literal(self, end: str) -> list[Text | Field]:
        """Text and fields up to a quote, or to the brace that ends a field."""
        pieces: list[Text | Field] = []
        start = self._at
        pattern = _RAW_LITERAL if self._raw else _LITERAL
        while not self._source.startswith(end, self._at):
            found = pattern.match(self._source, self._at)
            if found is None or (found[0] == "\n" and len(self._quote) == 1) or found[0] == "}":
                raise UnknownSyntaxError
            if found[0] != "{" and not (end == "}" and found[0] == "{{"):
                self._at = found.end()
                continue
            pieces += self._text(start)
            pieces.append(self._field())
            start = self._at
        return pieces + self._text(start)

    def _text(self, start: int) -> list[Text]:
        written = self._source[start : self._at]
        if not written:
            return []
        value = written.replace("{{", "{").replace("}}", "}")
        if not self._raw:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with suppress(
                    SyntaxError
                ):  # it ends with a quote of its own: escapes stay as they are written
                    value = ast.literal_eval(f"{self._quote}{value}{self._quote}")
        return [Text(start, value)]

    def _field(self) -> Field:
        self._at += 1
        start, depth = self._at, 0
        while True:
            token = _TOKEN.match(self._source, self._at)
            if token is None:
                raise UnknownSyntaxError
            if token["quote"] is not None:
                self._at, _ = _group(self._source, self._at, _ACROSS)
                continue
            if depth == 0 and self._ends(token):
                return self._tail(Field(start, self._at))
            depth += _nesting(token)
            if depth < 0:
                raise UnknownSyntaxError
            self._at = token.end()

    def _ends(self, token: re.Match[str]) -> bool:
        one = token[0]
        return one in {"}", ":"} or (
            one == "!" and self._source[self._at + 1 : self._at + 2] != "="
        )

    def _tail(self, found: Field) -> Field:
        """What follows the expression: ``=``, a conversion, a format."""
        whole = self._source[found.start : found.end]
        written = whole.rstrip()
        if written.endswith("=") and written[-2:-1] not in {"=", "!", "<", ">"}:
            found.shown, found.end = whole, found.start + len(written) - 1
        if self._source[self._at] == "!":
            found.conversion = self._source[self._at + 1 : self._at + 2]
            self._at = _behind(_ACROSS, self._source, self._at + 2)
        if self._source.startswith(":", self._at):
            self._at += 1
            found.spec = self._literal("}")
        if (
            not self._source.startswith("}", self._at)
            or not self._source[found.start : found.end].strip()
        ):
            raise UnknownSyntaxError
        self._at += 1
        return found
