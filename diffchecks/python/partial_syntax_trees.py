"""Syntax trees whose function bodies are parsed on first access, since most are never needed.

A check that follows a name through the modules of a large tree needs only a few definitions of most
of them. Here a module is parsed without the bodies of its functions. The node of such a function is
like any other, and its body is parsed on first access.
"""

import ast
import re
from functools import cache
from itertools import chain
from typing import Final

from msgspec import Struct

from diffchecks.python import syntax_downgrade
from diffchecks.python.compact_syntax_trees import compact, leave_unread
from diffchecks.python.syntax_tree_cache import all_blocks

_TEXT: Final = r""" "(?:[^"\\\n]|\\.)*+" | '(?:[^'\\\n]|\\.)*+' """
_LONG_TEXT: Final = r""" \"{3}(?:[^"\\]|\\.|"(?!""))*+\"{3} | '{3}(?:[^'\\]|\\.|'(?!''))*+'{3} """
_OTHER: Final = rf""" (?: [^\#'"]++ | \#[^\n]*+ | (?! \"{{3}} | '{{3}} ) (?:{_TEXT}) )*+ """
_UP_TO_LONG_TEXT: Final = re.compile(f"{_OTHER} ({_LONG_TEXT})", re.VERBOSE | re.DOTALL)
_WITHOUT_LONG_TEXT: Final = re.compile(_OTHER, re.VERBOSE | re.DOTALL)
_UNUSUAL: Final = {"\r": "\r", "\f": "\f", "\v": "\v", "\t": r"(?m)^ *\t", "\\\n": r"#[^\n]*\\\n"}
"""Constructs, by a text that they contain, with which this line-based splitting does not work."""

_PLAIN: Final = rf""" [^()\#'"\n]++ | \n(?![ ]*(?:async[ ]+)?def[ ]) | \#[^\n]*+ | {_TEXT} """
_NESTED: Final = rf""" \((?: {_PLAIN} | \((?: {_PLAIN} )*+\) )*+\) """
_HEADER: Final = re.compile(
    rf"""^(?P<indent>[ ]*) (?:async[ ]+)? def[ ]+ \w+[ ]* \((?: {_PLAIN} | {_NESTED} )*+\)
    (?P<colon> [ ]*(?: ->(?: [^:\#'"\n]++ | {_TEXT} )*+ )? : ) [ ]*(?:\#[^\n]*+)?+ \n""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
Function = ast.FunctionDef | ast.AsyncFunctionDef
_MAX_DEPTH: Final = 200  # columns
_MAX_CHARACTERS: Final = (
    250_000  # characters; a body is parsed after as many empty lines as precede it
)
_DEFINITION: Final = re.compile(r"\bdef\b")


class _Unread(Struct, frozen=True):
    """An unparsed body of a function.

    Attributes:
        start, end: its offsets in ``text``, both at the start of a line.
        line: the 1-based number of its first line.
    """

    text: str
    start: int
    end: int
    line: int

    def read(self) -> list[ast.stmt]:
        """Its statements; empty if they do not parse, since then the module could not run."""
        before = "\n" * (self.line - 2) + "if 1:\n"
        try:
            tree = syntax_downgrade.parse(before + self.text[self.start : self.end])
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []
        block = compact(tree).body[0]
        return block.body if isinstance(block, ast.If) else []

    def may_define(self) -> bool:
        """Whether it contains the keyword ``def``."""
        return _DEFINITION.search(self.text, self.start, self.end) is not None


def parse_partially(text: str) -> ast.Module:
    """Parse a text; function bodies are parsed on first access.

    A syntax error in a body is not detected before.

    Args:
        text: its lines end with a line feed.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as ``syntax_downgrade.parse``.
    """
    masked = _join_lines(text)
    if masked is not None:
        pieces, unread = _without_bodies(text, masked)
        try:
            tree = compact(syntax_downgrade.parse("".join(pieces)))
        except SyntaxError:
            pass  # the lines were split wrongly, or the text has an error
        else:
            for statement in list(chain.from_iterable(all_blocks(tree))):
                if isinstance(statement, Function) and statement.lineno in unread:
                    leave_unread(statement, unread[statement.lineno])
            return tree
    return compact(syntax_downgrade.parse(text))


def _join_lines(text: str) -> str | None:
    """The text with each multi-line string joined into one line, at the same length.

    Returns:
        None if it is too unusual.
    """
    if len(text) > _MAX_CHARACTERS or any(
        part in text and re.search(whole, text) for part, whole in _UNUSUAL.items()
    ):
        return None
    pieces: list[str] = []
    done = 0
    while match := _UP_TO_LONG_TEXT.match(text, done):
        pieces += text[done : match.start(1)], match[1].replace("\n", " ")
        done = match.end()
    if not _WITHOUT_LONG_TEXT.fullmatch(text, done):
        return None
    return "".join((*pieces, text[done:])).replace("\\\n", "  ")


def _without_bodies(text: str, masked: str) -> tuple[list[str], dict[int, _Unread]]:
    """The parts of a text without function bodies, and the bodies by the line of their ``def``."""
    pieces: list[str] = []
    unread: dict[int, _Unread] = {}
    done, counted, line = 0, 0, 1
    header = _HEADER.search(masked)
    while header:
        first, colon = header.end(), header.end("colon")
        end = _end_of_block(masked, first, len(header["indent"]))
        code_end = _end_of_code(masked, first, end)
        if code_end:
            line += text.count("\n", counted, header.start())
            begun = line + text.count("\n", header.start(), first)
            unread[line] = _Unread(text, first, end, begun)
            # It is replaced with a digit in its last line, where the enclosing block may end too.
            lines = "\n" * text.count("\n", colon, code_end)
            pieces += text[done:colon], lines, header["indent"], " 0"
            done, counted = code_end, header.start()
        header = _HEADER.search(masked, end)
    return [*pieces, text[done:]], unread


@cache
def _code_within(indent: int) -> re.Pattern[str]:
    """A pattern for a line of code with at most this indentation."""
    return re.compile(rf"^ {{0,{indent}}}[^\s#]", re.MULTILINE)


def _end_of_block(masked: str, start: int, indent: int) -> int:
    """The start of the first line after a function with this indentation."""
    after = _code_within(min(indent, _MAX_DEPTH)).search(masked, start)
    return after.start() if after else len(masked)


def _end_of_code(masked: str, start: int, end: int) -> int:
    """The end of the last line of code; 0 without code."""
    while end > start:
        line = masked.rfind("\n", start, end) + 1 or start
        code = masked[line:end].rstrip()
        if code and not code.lstrip().startswith("#"):
            return line + len(code)
        end = line - 1
    return 0
