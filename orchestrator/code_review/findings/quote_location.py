"""Finds the lines of a quotation in a file, even if copying has altered it.

Models change white space, copy diff prefixes, line numbers, code fences, escapes and redactions
along with the text, or replace lines by an ellipsis. These alterations are undone; a text that is
not in the file is never found.
"""

import html
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate

from diffchecks.new_findings import remove_white_space
from orchestrator.data_directories import read_table
from orchestrator.engine.untrusted_text import escape_markers

MIN_QUOTE = 5
"""Characters without white space; a shorter quotation occurs nearly everywhere."""

NEAR_LINES = 30
"""How far from the cited lines one of several places of a quotation may be."""

REDACTED = "[redacted]"
"""What agents are shown in place of a secret."""

_MARKS: dict[str, str] = read_table(__file__, "quote_marks.yaml")
_PATTERNS = {name: re.compile(text, re.MULTILINE) for name, text in _MARKS.items()}
_MAX_LEFT_OUT = 1500
"""Characters without white space that an ellipsis or a redaction may stand for."""

Place = tuple[int, int]
"""First and last line, 1-based and inclusive."""


class FileText:
    """The lines of a file, searched without regard to white space."""

    def __init__(self, lines: Iterable[str]) -> None:
        # Agents see look-alikes of our delimiters in escaped form, and quote them so.
        plain = [_normalize(line) for line in lines]
        self._text = "".join(plain)
        self._starts = [0, *accumulate(map(len, plain))][:-1]

    def find(self, quote: str) -> list[Place]:
        """The places of a quotation, in the first form that is found."""
        for form in _forms(quote):
            if places := self._places(form):
                return places
        return []

    def _places(self, quote: str) -> list[Place]:
        whole = _normalize(quote)
        if whole in self._text:
            return self._matches(f"({re.escape(whole)})") if whole else []
        elided = bool(_PATTERNS["ellipsis"].search(quote))
        most_lines = len(self._starts) if elided else quote.count("\n") + 1
        left_out = _PATTERNS["left_out"]
        parts = [part for part in map(_normalize, left_out.split(quote)) if part]
        # A secret has a line of its own around it; an ellipsis stands for anything.
        least = MIN_QUOTE if {*left_out.findall(quote)} <= {REDACTED} else 2 * MIN_QUOTE
        if parts == [whole] or sum(map(len, parts)) < least:
            return []
        gap = f".{{0,{_MAX_LEFT_OUT}}}?"
        # A match may begin within another that has too many lines.
        gapped = self._matches(f"(?=({gap.join(map(re.escape, parts))}))")
        return [place for place in gapped if place[1] - place[0] < most_lines]

    def _matches(self, pattern: str) -> list[Place]:
        """The places of the first group of a pattern."""
        return [
            (self._line(found.start(1)), self._line(found.end(1) - 1))
            for found in re.finditer(pattern, self._text)
        ]

    def _line(self, position: int) -> int:
        return bisect_right(self._starts, position)


_searchable = lru_cache(maxsize=16)(FileText)


def find_quote(lines: Iterable[str], quote: str) -> list[Place]:
    """The places of a quotation in these lines; they are prepared once for many quotations."""
    return _searchable(tuple(lines)).find(quote)


def find_whole_lines(lines: Sequence[str], quote: str) -> list[Place]:
    """The places whose lines hold nothing but a quotation of whole lines, apart from a comment.

    A fix often only adds to a line (``await``, ``and ...``): that changes the line, although its
    old text is still in it. A quotation with a redaction cannot be compared, so it may be a part.
    """

    def is_whole(place: Place) -> bool:
        text = _normalize("\n".join(lines[place[0] - 1 : place[1]]))
        rest = text.removeprefix(whole)
        return not rest or (rest != text and bool(_PATTERNS["comment"].match(rest)))

    whole = _normalize(quote)
    places = find_quote(lines, quote)
    return places if REDACTED in quote else [place for place in places if is_whole(place)]


def nearest_place(
    places: Sequence[Place], cited: Place, quote: str, changed: Collection[int]
) -> Place | None:
    """The place that a quotation refers to; None if it is ambiguous.

    Args:
        cited: the lines that the agent named.
        changed: lines of the change, preferred among places that are equally near.
    """
    inside = [place for place in places if place[0] <= cited[1] and cited[0] <= place[1]]
    if not inside and len(_normalize(quote)) < MIN_QUOTE:
        return None
    if len(places) == 1:
        return places[0]

    def rank(place: Place) -> tuple[int, bool, int]:
        touches = any(place[0] <= line <= place[1] for line in changed)
        return lines_between(place, cited), not touches, abs(place[0] - cited[0])

    near = [place for place in inside or places if lines_between(place, cited) <= NEAR_LINES]
    return min(near, key=rank, default=None)


def lines_between(place: Place, other: Place) -> int:
    """How far one is from the other; 0 where they overlap."""
    return max(place[0] - other[1], other[0] - place[1], 0)


def _normalize(text: str) -> str:
    return remove_white_space([escape_markers(text)])


def _forms(quote: str) -> Iterator[str]:
    """The quotation, then the texts of which it may be an altered copy."""
    seen: set[str] = set()
    unfenced = _PATTERNS["fence"].sub("", quote)
    for text in (quote, unfenced, unfenced.strip().strip("`\"'“”")):
        plain = [text, _PATTERNS["line_number"].sub("", text)]
        for bare in (*plain, *(_PATTERNS["diff_prefix"].sub("", each) for each in plain)):
            for form in (bare, _unescape(bare), html.unescape(bare)):
                if form not in seen:
                    seen.add(form)
                    yield form


def _unescape(text: str) -> str:
    r"""A text as it was before a tool or JSON escaped it: ``\u202e``, ``\x1b``, ``\"``."""
    plain = _PATTERNS["unicode_escape"].sub(lambda match: chr(int(match[1] or match[2], 16)), text)
    return plain.replace('\\"', '"').replace("\\'", "'").replace("\\n", "\n").replace("\\t", "\t")
