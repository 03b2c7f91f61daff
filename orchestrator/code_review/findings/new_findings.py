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

from diffchecks.check_io import RawFinding
from orchestrator.code_review.rule_table import Rule
from orchestrator.engine.canonical_json import digest

_BLANK = re.compile(r"\s+")
_WORD = re.compile(r"\w+")


RuledFinding = tuple[Rule, RawFinding]
"""A finding under its rule, comparable between base and head: ``key`` is the cited text without
white space, unless the reporter has its own, and ``scope`` is known."""


def _identity(finding: RuledFinding) -> tuple[str, ...]:
    """Equal for the same finding in base and head."""
    rule, raw = finding
    return rule.id, raw.key or "", raw.scope or ""


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
    base: Sequence[RuledFinding],
    head: Sequence[RuledFinding],
    added_lines: Callable[[str], frozenset[int]],
) -> list[RuledFinding]:
    """The findings of head that have no counterpart in base.

    Args:
        added_lines: path in head → 1-based numbers of the lines that the change adds. Of several
            equal findings, those on added lines are the new ones.
    """
    new, rest = _unmatched(base, head, added_lines, _identity)
    new, rest = _unmatched(rest, new, added_lines, lambda finding: _identity(finding)[:2])
    return _unmatched(rest, new, added_lines, _message_identity)[0]


def _message_identity(finding: RuledFinding) -> tuple[str, ...]:
    """The key of an uncertain finding that does not depend on how its statement is written."""
    rule, raw = finding
    if raw.confidence == 1 or not raw.scope:
        return _identity(finding)
    return "message", rule.id, raw.path, raw.scope, raw.message


def _unmatched(
    base: Iterable[RuledFinding],
    head: Iterable[RuledFinding],
    added_lines: Callable[[str], frozenset[int]],
    key: Callable[[RuledFinding], tuple[str, ...]],
) -> tuple[list[RuledFinding], list[RuledFinding]]:
    """Match findings with equal keys one to one; the rest of head, and the rest of base."""
    known: dict[tuple[str, ...], list[RuledFinding]] = {}
    for finding in base:
        known.setdefault(key(finding), []).append(finding)

    def unchanged_lines_first(finding: RuledFinding) -> tuple[bool, str, int]:
        raw = finding[1]
        return raw.line in added_lines(raw.path), raw.path, raw.line

    unmatched: list[RuledFinding] = []
    for finding in sorted(head, key=unchanged_lines_first):
        counterparts = known.get(key(finding))
        if counterparts:
            counterparts.pop()
        else:
            unmatched.append(finding)
    return unmatched, [finding for rest in known.values() for finding in rest]


def assign_fingerprints(
    findings: Iterable[RuledFinding], base: Iterable[RuledFinding] = ()
) -> Mapping[str, RuledFinding]:
    """Findings by fingerprint, in reading order; 16 hex digits, stable across runs.

    Args:
        base: findings that are numbered first, so that a further equal finding gets a new
            fingerprint: that of an old one may be waived.
    """
    counts = Counter((*_identity(finding), finding[1].path) for finding in base)
    numbered: dict[str, RuledFinding] = {}
    for finding in sorted(
        findings, key=lambda found: (found[1].path, found[1].line, *_identity(found)[:2])
    ):
        place = (*_identity(finding), finding[1].path)
        numbered[digest([*place, counts[place]])[:16]] = finding
        counts[place] += 1
    return numbered
