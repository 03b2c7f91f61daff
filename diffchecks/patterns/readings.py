"""How grammars read a program: syntax trees, and the lines that none of them has.

Where a grammar fails, the program is read again with the holes of its language filled, and with one
branch of each condition that a preprocessor decides. Places stay the same, what the first tree
shows stays found, and a line is read where one reading has all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.check_io import Source, parse_program
from diffchecks.data_files import read_patterns

if TYPE_CHECKING:
    from ast_grep_py import SgNode

    from diffchecks.patterns.pattern_loading import PatternFile

_PATTERNS = read_patterns("readings")

_SPLIT = {"kind": "ERROR", "has": {"regex": r"^#\s*(if|el|endif)"}}  # a statement by a directive

# A node that the parser inserts for missing text is empty and not a named node.
_BROKEN = {"any": [{"kind": "ERROR"}, {"regex": "^$"}]}


class Reading(Struct, frozen=True):
    """A program as one grammar reads it.

    Attributes:
        text: what was parsed: the program, or one of its length with parts blanked.
        lost: lines, from 0, of which code is blanked.
        unread: lines, from 0, that are lost, or that the grammar cannot parse.
        noted: lines, from 0, that are lost or have a comment.
        errors: how many nodes the parser skipped or inserted text for, macros among them.
    """

    grammar: str
    root: SgNode
    text: str
    lost: frozenset[int]
    unread: frozenset[int]
    noted: frozenset[int]
    errors: int


def read_program(source: Source, language: PatternFile) -> list[Reading]:
    """The program as it stands, then readings with parts blanked that have more of its lines."""
    # Grammars end at a NUL, and Go's needs a line end after the last line.
    text = source.text.encode("utf-8", "replace").decode().replace("\0", "\1") + "\n"
    best = first = _read(text, frozenset(), language.grammars[source.suffix], language)
    readings = [first, *_branches(first, language)]
    # Branches come before fillers, each of which costs a parse: many headers need no other.
    open_lines = unread_lines(readings)
    for hole, filler in language.holes.items():
        if left := best.unread & open_lines:
            filled, lost = _fill(best.text, re.compile(hole), filler)
            if filled != best.text:
                reading = _read(filled, best.lost | lost, [first.grammar], language)
                best = reading if len(reading.unread & open_lines) < len(left) else best
    filled_ones = readings if best is first else [first, best, *_branches(best, language)]
    return min(filled_ones, readings, key=lambda each: len(unread_lines(each)))


def without_comments(reading: Reading, language: PatternFile) -> Reading:
    """The reading with its comments blank: what they say must not plead for the code."""
    root, text = reading.root, reading.text
    found = root.find_all({"rule": dict(language.comments)})  # type: ignore[call-overload]
    if not found:
        return reading
    blanks = [node.replace(re.sub(r"[^\r\n]", " ", node.text())) for node in found]
    span = root.range()  # without white space around it
    text = text[: span.start.index] + root.commit_edits(blanks) + text[span.end.index :]
    return replace(reading, root=parse_program(text, reading.grammar), text=text)


def _branches(reading: Reading, language: PatternFile) -> Iterator[Reading]:
    """A reading again with the first, then the last branch of each of its conditions."""
    unread = bool(reading.unread) and (language.macros or language.branches)
    if unread or (language.macros and reading.root.find({"rule": _SPLIT})):  # type: ignore[call-overload]
        for last in (False, True):
            kept, dropped = _keep_branches(reading.text, last=last)
            yield _read(kept, reading.lost | dropped, [reading.grammar], language)


def unread_lines(readings: Sequence[Reading]) -> frozenset[int]:
    """The lines, from 0, that no reading has, or only in a comment that another has not."""
    always = frozenset.intersection(*(each.noted for each in readings))
    return frozenset.intersection(*(each.unread | each.noted - always for each in readings))


def _read(
    text: str, lost: frozenset[int], grammars: Sequence[str], language: PatternFile
) -> Reading:
    """The reading of the grammar with the fewest unread lines and errors together."""
    readings = list[Reading]()
    for grammar in grammars:
        root = parse_program(text, grammar)
        broken = root.find_all({"rule": _BROKEN})  # type: ignore[call-overload]
        unread = lost | _unparsed_lines(broken, text, language)
        noted = lost | _lines(root.find_all(kind="comment") if language.macros else ())
        readings.append(Reading(grammar, root, text, lost, unread, noted, len(broken)))
        if not broken:
            break
    return min(readings, key=lambda each: len(each.unread) + each.errors)


def _unparsed_lines(broken: Sequence[SgNode], text: str, language: PatternFile) -> frozenset[int]:
    """The lines of what the parser skipped or, where the language has no macros, inserted."""
    unread = set[int]()
    for node in broken:
        if node.kind() != "ERROR" and (node.is_named() or language.macros):
            continue
        parts = [part for part in node.children() or [node] if part.kind() != "comment"]
        skipped = [part for part in parts if not (part.is_named() and part.children())]
        if not (language.macros and _holds_no_code(skipped, text)):
            unread |= _lines(skipped or [node])
    return frozenset(unread)


def _lines(nodes: Sequence[SgNode]) -> frozenset[int]:
    """The lines of nodes, from 0."""
    spans = [node.range() for node in nodes]
    return frozenset(n for span in spans for n in range(span.start.line, span.end.line + 1))


def _holds_no_code(skipped: Sequence[SgNode], text: str) -> bool:
    """Whether no call, text or assignment is among skipped tokens, such as the names of macros."""
    words = [token.text() for token in skipped]
    if any(_PATTERNS["called"].match(text, token.range().start.index) for token in skipped):
        return False
    has_assignment = "=" in words and any(map(str.isidentifier, words))
    return not has_assignment and not any(map(_PATTERNS["call_or_text"].search, words))


def _fill(text: str, hole: re.Pattern[str], filler: str) -> tuple[str, frozenset[int]]:
    """The text with fillers in its holes, and the lines of those that may hold code."""
    lost = set[int]()

    def fill(found: re.Match[str]) -> str:
        start, end = found.span(found.lastindex or 0)
        blanked = text[start:end]
        code = _PATTERNS["code"].search(_PATTERNS["string"].sub("", blanked))
        if code and not found[0].lstrip().startswith("#"):
            first = text.count("\n", 0, start)
            lost.update(range(first, first + blanked.count("\n") + 1))
        filled = re.sub(r"[^\n]", filler, blanked)
        return text[found.start() : start] + filled + text[end : found.end()]

    return hole.sub(fill, text), frozenset(lost)


def _keep_branches(text: str, *, last: bool) -> tuple[str, frozenset[int]]:
    """The text with the first or last branch of each condition, and the lines of the others."""
    marks, at, line = list[tuple[str, int, int]](), 0, 0
    for found in _PATTERNS["conditions"].finditer(text):
        if found["kind"]:
            begin = line + text.count("\n", at, found.start())
            at, line = found.end(), begin + found[0].count("\n")
            marks.append((found["kind"], begin, line + 1))
    dropped, is_dropped = set[int](), [False]
    for (kind, begin, end), (_, next_, next_end) in pairwise(marks[::-1] if last else marks):
        if kind == ("endif" if last else "if"):
            is_dropped.append(is_dropped[-1])
        elif len(is_dropped) > 1:
            is_dropped[-1:] = [True] if kind == "el" else []
        if is_dropped[-1]:
            dropped.update(range(end, next_) or range(next_end, begin))
    blank = dropped.union(*(range(begin, end) for _, begin, end in marks))
    kept = [" " * len(line) if n in blank else line for n, line in enumerate(text.split("\n"))]
    return "\n".join(kept), frozenset(dropped)
