"""Text search that tries expensive patterns only on lines that contain one of their keywords."""

import re
import string
from collections.abc import Iterator
from functools import cache, cached_property

from diffchecks.data_files import read_rows

_ASCII_LOWER = {ord(c): ord(c.lower()) for c in string.ascii_uppercase}


@cache
def context(name: str) -> re.Pattern[str]:
    """An expression in ``tables/secrets/contexts.txt``."""
    rows = read_rows("secrets/contexts.txt")
    return re.compile(next(text for known, text in rows if known == name))


class SearchableText:
    """A text with ``\\n`` for line ends, made ready for many searches."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def lower(self) -> str:
        """The text in lower case, with unchanged offsets."""
        lower = self.text.lower()
        return lower if len(lower) == len(self.text) else self.text.translate(_ASCII_LOWER)

    def lines_with(self, words: tuple[str, ...]) -> Iterator[tuple[int, int]]:
        """Spans of the lines that contain one of the lower-case words."""
        starts: set[int] = set()
        for word in words:
            at = self.lower.find(word)
            while at >= 0:
                starts.add(self.text.rfind("\n", 0, at) + 1)
                end = self.text.find("\n", at)
                at = self.lower.find(word, end) if end >= 0 else -1
        for start in sorted(starts):
            end = self.text.find("\n", start)
            yield start, end if end >= 0 else len(self.text)

    def matches(
        self, words: tuple[str, ...], *names: str, following: int = 0
    ) -> Iterator[re.Match[str]]:
        """All matches of some contexts in lines that contain one of the words.

        Args:
            words: in lower case.
            names: of the contexts, see ``context``.
            following: number of lines after such a line to search as well.
        """
        for start, end in self.lines_with(words):
            last = end
            for _ in range(following):
                after = self.text.find("\n", last + 1)
                last = after if after >= 0 else len(self.text)
            for name in names:
                yield from context(name).finditer(self.text, start, last)


def value_of(match: re.Match[str]) -> tuple[str, int, int]:
    """The text and span of the one group among ``a`` to ``d`` that matched."""
    group = next(name for name in "abcd" if match.groupdict().get(name) is not None)
    return match[group], *match.span(group)
