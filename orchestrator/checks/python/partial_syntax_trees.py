"""Syntax trees whose functions are parsed when somebody looks into them: into most nobody does.

A check that follows a name through the modules of a large tree reads most of them for a few
definitions alone. Here a module is parsed with the bodies of its functions left out. A node of such
a function is like any other one, and its body is parsed when it is first read.
"""

import ast
import re
from functools import cache
from itertools import chain
from typing import Final

from msgspec import Struct

from orchestrator.checks.python import syntax_downgrade
from orchestrator.checks.python.compact_syntax_trees import compact, leave_unread
from orchestrator.checks.python.syntax_tree_cache import all_blocks

_TEXT: Final = r""" "(?:[^"\\\n]|\\.)*+" | '(?:[^'\\\n]|\\.)*+' """
_LONG_TEXT: Final = r""" \"{3}(?:[^"\\]|\\.|"(?!""))*+\"{3} | '{3}(?:[^'\\]|\\.|'(?!''))*+'{3} """
_OTHER: Final = rf""" (?: [^\#'"]++ | \#[^\n]*+ | (?! \"{{3}} | '{{3}} ) (?:{_TEXT}) )*+ """
_UP_TO_LONG_TEXT: Final = re.compile(f"{_OTHER} ({_LONG_TEXT})", re.VERBOSE | re.DOTALL)
_WITHOUT_LONG_TEXT: Final = re.compile(_OTHER, re.VERBOSE | re.DOTALL)
_UNUSUAL: Final = {"\r": "\r", "\f": "\f", "\v": "\v", "\t": r"(?m)^ *\t", "\\\n": r"#[^\n]*\\\n"}
"""A text with one of these, by what it must hold for that, cannot be told into lines so simply."""

_PLAIN: Final = rf""" [^()\#'"\n]++ | \n(?![ ]*(?:async[ ]+)?def[ ]) | \#[^\n]*+ | {_TEXT} """
_NESTED: Final = rf""" \((?: {_PLAIN} | \((?: {_PLAIN} )*+\) )*+\) """
_HEADER: Final = re.compile(
    rf"""^(?P<indent>[ ]*) (?:async[ ]+)? def[ ]+ \w+[ ]* \((?: {_PLAIN} | {_NESTED} )*+\)
    (?P<colon> [ ]*(?: ->(?: [^:\#'"\n]++ | {_TEXT} )*+ )? : ) [ ]*(?:\#[^\n]*+)?+ \n""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
Function = ast.FunctionDef | ast.AsyncFunctionDef
_DEEPEST: Final = 200  # columns
_LARGEST: Final = 250_000  # characters; the body of a far line is parsed behind as many empty lines
_DEFINITION: Final = re.compile(r"\bdef\b")


class _Unread(Struct, frozen=True):
    """A function's body that nobody has looked into.

    Attributes:
        start, end: where it is in ``text``, from the start of a line to that of another.
        line: the 1-based number of its first line.
    """

    text: str
    start: int
    end: int
    line: int

    def read(self) -> list[ast.stmt]:
        """Its statements; none where they do not parse, for then the module could not run."""
        before = "\n" * (self.line - 2) + "if 1:\n"
        try:
            tree = syntax_downgrade.parse(before + self.text[self.start : self.end])
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []
        block = compact(tree).body[0]
        return block.body if isinstance(block, ast.If) else []

    def may_define(self) -> bool:
        """Whether it holds the word that defines a function."""
        return _DEFINITION.search(self.text, self.start, self.end) is not None


def parse_partially(text: str) -> ast.Module:
    """A text's tree, in which bodies of functions are parsed when they are first read.

    An error in such a body is not noticed before.

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
            pass  # its lines were not what they looked like, or the text has an error
        else:
            for statement in list(chain.from_iterable(all_blocks(tree))):
                if isinstance(statement, Function) and statement.lineno in unread:
                    leave_unread(statement, unread[statement.lineno])
            return tree
    return compact(syntax_downgrade.parse(text))


def _join_lines(text: str) -> str | None:
    """The text, as long as it was, with each text of several lines in one line.

    Returns:
        None where it is too unusual to tell.
    """
    if len(text) > _LARGEST or any(
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
    """The parts of a text without bodies of functions, and those by the line of their ``def``."""
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
            # In its place stands a digit in its last line, where what is around it may end, too.
            lines = "\n" * text.count("\n", colon, code_end)
            pieces += text[done:colon], lines, header["indent"], " 0"
            done, counted = code_end, header.start()
        header = _HEADER.search(masked, end)
    return [*pieces, text[done:]], unread


@cache
def _code_within(indent: int) -> re.Pattern[str]:
    """Matches a line of code that is indented by at most so much."""
    return re.compile(rf"^ {{0,{indent}}}[^\s#]", re.MULTILINE)


def _end_of_block(masked: str, start: int, indent: int) -> int:
    """Where the first line begins that is not in a function of that indentation."""
    after = _code_within(min(indent, _DEEPEST)).search(masked, start)
    return after.start() if after else len(masked)


def _end_of_code(masked: str, start: int, end: int) -> int:
    """Where the last line of code ends; 0 where there is none."""
    while end > start:
        line = masked.rfind("\n", start, end) + 1 or start
        code = masked[line:end].rstrip()
        if code and not code.lstrip().startswith("#"):
            return line + len(code)
        end = line - 1
    return 0
