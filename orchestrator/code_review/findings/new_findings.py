"""Which findings a change introduces: those of head that base does not have.

A fingerprint is computed from the rule, the cited text and the enclosing scope, without line
numbers or indentation, so that moved code causes no new finding. A finding is new if its
fingerprint occurs more often in head than in base. The rest is compared again without the scope,
for code that was moved or whose function was renamed. Finally, uncertain findings (of tools that
recognize calls by name only) are compared by message: the same call in the same function, written
differently, is not new. Taint analysis reports new data that flows into it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from diffchecks.check_io import RawFinding
from orchestrator.engine.canonical_json import digest

_BLANK = re.compile(r"\s+")
_WORD = re.compile(r"\w+")


class ComparableFinding(Struct, frozen=True):
    """A raw finding with the fields by which base and head are compared.

    Attributes:
        rule: the rule's id.
        text: the cited text without white space, or the reporter's own key.
        scope: dotted name of the enclosing function or class, empty at the top of a file.
    """

    raw: RawFinding
    rule: str
    text: str
    scope: str

    @property
    def identity(self) -> tuple[str, str, str]:
        """Equal for the same finding in base and head."""
        return self.rule, self.text, self.scope

    def fingerprint(self, occurrence: int) -> str:
        """16 hex digits, stable across runs; ``occurrence`` numbers equal findings in a file."""
        return digest([*self.identity, self.raw.path, occurrence])[:16]


def remove_white_space(lines: Iterable[str]) -> str:
    """Text without any white space: code that was indented or wrapped differently is equal."""
    return _BLANK.sub("", "".join(lines))


class CitedTexts:
    """The lines that findings cite, to find the files that hold them as well.

    Args:
        cited: of each finding its lines.
    """

    def __init__(self, cited: Iterable[Sequence[str]]) -> None:
        self._texts: dict[str, str] = {}
        for lines in cited:
            words = _WORD.findall("\n".join(lines))
            self._texts[remove_white_space(lines)] = max(words, key=len, default="")

    def occur_in(self, lines: Sequence[str]) -> bool:
        """Whether a file holds the text of one of them, white space aside."""
        whole = "\n".join(lines)
        likely = [text for text, word in self._texts.items() if word in whole]
        if not likely:
            return False
        bare = remove_white_space(lines)
        return any(text in bare for text in likely)


def find_new(
    base: Sequence[ComparableFinding],
    head: Sequence[ComparableFinding],
    added_lines: Callable[[str], frozenset[int]],
) -> list[ComparableFinding]:
    """The findings of head that have no counterpart in base.

    Args:
        added_lines: path in head → 1-based numbers of the lines that the change adds. Of several
            equal findings, those on added lines are the new ones.
    """
    new, rest = _unmatched(base, head, added_lines, lambda finding: finding.identity)
    new, rest = _unmatched(rest, new, added_lines, lambda finding: (finding.rule, finding.text))
    return _unmatched(rest, new, added_lines, _message_identity)[0]


def _message_identity(finding: ComparableFinding) -> tuple[str, ...]:
    """The key of an uncertain finding that does not depend on how its statement is written."""
    raw = finding.raw
    if raw.confidence == 1 or not finding.scope:
        return finding.identity
    return "message", finding.rule, raw.path, finding.scope, raw.message


def _unmatched(
    base: Iterable[ComparableFinding],
    head: Iterable[ComparableFinding],
    added_lines: Callable[[str], frozenset[int]],
    key: Callable[[ComparableFinding], tuple[str, ...]],
) -> tuple[list[ComparableFinding], list[ComparableFinding]]:
    """Match findings with equal keys one to one; the rest of head, and the rest of base."""
    known: dict[tuple[str, ...], list[ComparableFinding]] = {}
    for finding in base:
        known.setdefault(key(finding), []).append(finding)

    def unchanged_lines_first(finding: ComparableFinding) -> tuple[bool, str, int]:
        raw = finding.raw
        return raw.line in added_lines(raw.path), raw.path, raw.line

    unmatched: list[ComparableFinding] = []
    for finding in sorted(head, key=unchanged_lines_first):
        counterparts = known.get(key(finding))
        if counterparts:
            counterparts.pop()
        else:
            unmatched.append(finding)
    return unmatched, [finding for rest in known.values() for finding in rest]


def assign_fingerprints(
    findings: Iterable[ComparableFinding], base: Iterable[ComparableFinding] = ()
) -> Mapping[str, ComparableFinding]:
    """Findings by fingerprint, in reading order.

    Args:
        base: findings that are numbered first, so that a further equal finding gets a new
            fingerprint: that of an old one may be waived.
    """
    counts = Counter((*finding.identity, finding.raw.path) for finding in base)
    numbered: dict[str, ComparableFinding] = {}
    for finding in sorted(findings, key=lambda f: (f.raw.path, f.raw.line, f.rule, f.text)):
        place = (*finding.identity, finding.raw.path)
        numbered[finding.fingerprint(counts[place])] = finding
        counts[place] += 1
    return numbered
