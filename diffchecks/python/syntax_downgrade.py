"""Parses Python newer than the interpreter, by rewriting the new syntax to older equivalents.

Whether a file can be read must not depend on the interpreter that runs the check. Strings with
replacement fields (PEP 701, PEP 750) and multi-line strings are cut out, parsed in pieces and put
back into the tree; type parameters and ``type`` statements (PEP 695) and ``except`` without
parentheses (PEP 758) are rewritten in place. Line numbers are kept; columns may change.
"""

import ast
import copy
import re
import sys
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import decode_source

COMPLETE = sys.version_info >= (3, 14)  # the newest supported syntax

_MAX_DEPTH = 12  # nesting of strings in replacement fields
_HEAD = re.compile(
    r"^([ \t]*)(type[ \t]+|(?:async[ \t]+def|def|class)[ \t]+)(\w+)[ \t]*", re.MULTILINE
)
_EXCEPT = re.compile(
    r"^([ \t]*except\*?[ \t]+)([\w.]+(?:[ \t]*,[ \t]*[\w.]+)+)(?=[ \t]*:)", re.MULTILINE
)


def parse(source: str | bytes, name: str = "<text>") -> ast.Module:
    """Parse Python of this interpreter's version or newer, without printing warnings.

    Args:
        source: bytes are decoded by their own encoding declaration.

    Raises:
        SyntaxError: the interpreter's error; the text is invalid in all supported versions.
    """
    try:
        return _parse(source, name)
    except SyntaxError:
        if COMPLETE:
            raise
        with suppress(SyntaxError, UnknownSyntaxError):
            text = source if isinstance(source, str) else decode_source(source)
            return _rewritten(text, name, 0)
        raise


def rewrite_newer_syntax(text: str) -> tuple[str, Mapping[str, str]]:
    """The text in older syntax, and placeholder name → source of the strings that it replaces.

    The name depends only on the string, so that equal code stays equal.
    """
    taken: dict[str, str] = {}
    parts = [_stand_in(part, taken) if strings else part for strings, part in split(text)]
    return _plain_heads(_EXCEPT.sub(r"\1(\2)", "".join(parts))), taken


def _parse(text: str | bytes, name: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, name)


def _rewritten(text: str, name: str, depth: int) -> ast.Module:
    if depth > _MAX_DEPTH:
        raise UnknownSyntaxError
    old, taken = rewrite_newer_syntax(text)
    tree = _parse(old, name)
    _Restore(taken, depth).visit(tree)
    return tree


def _stand_in(source: str, taken: dict[str, str]) -> str:
    name = f"ǂ{zlib.crc32(source.encode('utf-8', 'surrogatepass')):08x}"
    taken[name] = source
    ends = "\n" * source.count("\n")
    return f"({name}{ends})" if ends else name.ljust(len(source))


def _plain_heads(code: str) -> str:
    """The text without type parameters, and with ``type`` statements as assignments."""
    done, at = [], 0
    for head in _HEAD.finditer(code):
        after = code[head.end() : head.end() + 1]
        alias = head[2].startswith("type")
        if head.start() < at or (alias and after not in {"[", "="}):
            continue
        done += [code[at : head.start()], f"{head[1]}{head[3]} " if alias else head[0]]
        at = head.end()
        if after == "[":
            at = _closing(code, at)
            done.append("\\\n" * code.count("\n", head.end(), at))
    return "".join([*done, code[at:]])


def _closing(code: str, start: int) -> int:
    """The offset after the bracket that closes the one at ``start``."""
    depth = 0
    for bracket in re.compile(r"[\[\]]").finditer(code, start):
        depth += 1 if bracket[0] == "[" else -1
        if depth == 0:
            return bracket.end()
    raise UnknownSyntaxError


class _Restore(ast.NodeTransformer):
    """Puts the strings that were cut out back into a tree."""

    def __init__(self, taken: Mapping[str, str], depth: int) -> None:
        self._taken, self._depth = taken, depth
        self._known: dict[str, ast.expr] = {}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a placeholder name with its string."""
        if node.id not in self._taken:
            return node
        if node.id not in self._known:
            self._known[node.id] = self._string(self._taken[node.id])
        found = copy.deepcopy(self._known[node.id])
        return ast.increment_lineno(found, node.lineno - 1)

    def _string(self, source: str) -> ast.expr:
        """The tree of adjacent strings, with lines counted from 1."""
        try:
            node: ast.expr = ast.Constant(ast.literal_eval(f"({source})"))
        except (SyntaxError, ValueError):
            node = ast.JoinedStr(self._values(read(source), source))
        placed = self._placed(node, 1)
        placed.end_lineno = source.count("\n") + 1
        return placed

    def _values(self, pieces: "list[SourcePiece | Field]", source: str) -> list[ast.expr]:
        found: list[ast.expr] = []
        for piece in pieces:
            line = source.count("\n", 0, piece.start) + 1
            if isinstance(piece, SourcePiece):
                found.append(self._placed(ast.Constant(piece.value), line))
            else:
                found += self._field(piece, source, line)
        return found

    def _field(self, field: "Field", source: str, line: int) -> list[ast.expr]:
        written = source[field.start : field.end]
        tree = _rewritten(f"({written}\n)", "<field>", self._depth + 1).body
        if len(tree) != 1 or not isinstance(tree[0], ast.Expr):
            raise UnknownSyntaxError
        value = ast.increment_lineno(tree[0].value, line - 1)
        spec = self._placed(ast.JoinedStr(self._values(field.spec, source)), line)
        by_default = "r" if field.shown and not field.spec else ""
        conversion = ord(field.conversion or by_default) if field.conversion or by_default else -1
        node = ast.FormattedValue(value, conversion, spec if field.spec else None)
        shown = [self._placed(ast.Constant(field.shown), line)] if field.shown else []
        return [*shown, self._placed(node, line)]

    @staticmethod
    def _placed(node: ast.expr, line: int) -> ast.expr:
        node.lineno = node.end_lineno = line
        node.col_offset = node.end_col_offset = 0
        return node


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
    """The syntax is not valid in any supported version."""


@dataclass
class SourcePiece:
    """A piece of text; ``start`` is its offset in the source."""

    start: int
    value: str


@dataclass
class Field:
    """A replacement field: offsets of its expression, its text if ``=`` shows it, and the rest."""

    start: int
    end: int
    shown: str = ""
    conversion: str = ""
    spec: "list[SourcePiece | Field]" = field(default_factory=list)


def split(source: str) -> Iterator[tuple[bool, str]]:
    """Split code from groups of adjacent strings (True) that have fields or several lines."""
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


def read(source: str) -> list[SourcePiece | Field]:
    """Read the pieces of adjacent strings."""
    pieces: list[SourcePiece | Field] = []
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
            pieces.append(SourcePiece(at, str(ast.literal_eval(source[at:end]))))
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
    """The end of adjacent strings, separated by ``gap``, and whether one has fields."""
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

    def read(self) -> tuple[int, list[SourcePiece | Field]]:
        """Read the string: its end, and its pieces."""
        pieces = self._literal(self._quote)
        return self._at + len(self._quote), pieces

    def _literal(self, end: str) -> list[SourcePiece | Field]:
        """Text and fields up to a quote, or up to the brace that closes a field."""
        pieces: list[SourcePiece | Field] = []
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

    def _text(self, start: int) -> list[SourcePiece]:
        written = self._source[start : self._at]
        if not written:
            return []
        value = written.replace("{{", "{").replace("}}", "}")
        if not self._raw:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with suppress(
                    SyntaxError
                ):  # it ends with a quote of its own: escapes are kept as written
                    value = ast.literal_eval(f"{self._quote}{value}{self._quote}")
        return [SourcePiece(start, value)]

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
        text = token[0]
        return text in {"}", ":"} or (
            text == "!" and self._source[self._at + 1 : self._at + 2] != "="
        )

    def _tail(self, found: Field) -> Field:
        """What follows the expression: ``=``, a conversion, a format spec."""
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
