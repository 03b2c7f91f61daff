"""What a change brings in: findings of head that did not stand in base.

A finding's fingerprint is its rule, the text it stands on and the scope around it, without line
numbers or indentation, so that code that moved stays quiet. A finding is new when its fingerprint
stands more often in head than in base. What is left over is paired once more without the scope: a
defect in a function that was renamed or moved was there before. At last findings of tools that know
calls by their names alone are paired by what is said of them: a call that was only written anew, in
the same function, was there before. What flows into it is for the tracer to say.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from orchestrator.engine.canonical_json import digest
from orchestrator.review.analysis import Raw

_BLANK = re.compile(r"\s+")


class Placed(Struct, frozen=True):
    """A finding with what identifies it.

    Attributes:
        rule: the rule's id.
        text: the normalized text it stands on, or the tool's own key.
        scope: dotted name of what encloses it, empty at the top of a file.
    """

    raw: Raw
    rule: str
    text: str
    scope: str

    @property
    def identity(self) -> tuple[str, str, str]:
        """What base and head are compared by."""
        return self.rule, self.text, self.scope

    def fingerprint(self, nth: int) -> str:
        """A stable name: the identity, and which of several equal ones in this file it is."""
        return digest([*self.identity, self.raw.path, nth])[:16]


def normalize(lines: Iterable[str]) -> str:
    """Text without any white space: re-indented and re-wrapped code is the same code."""
    return _BLANK.sub("", "".join(lines))


def new_findings(
    base: Sequence[Placed],
    head: Sequence[Placed],
    added: Callable[[str], frozenset[int]],
) -> list[Placed]:
    """The findings of head that base does not account for.

    Args:
        added: path in head → 1-based lines that the change adds. Of several equal findings, those
            on added lines are the new ones.
    """
    unmatched, spare = _pair(base, head, added, lambda placed: placed.identity)
    unmatched, spare = _pair(spare, unmatched, added, lambda placed: (placed.rule, placed.text))
    return _pair(spare, unmatched, added, _without_text)[0]


def _without_text(placed: Placed) -> tuple[str, ...]:
    """What a finding that is not sure is recognized by when its statement was written anew."""
    raw = placed.raw
    if raw.confidence == 1 or not placed.scope:
        return placed.identity
    return "anew", placed.rule, raw.path, placed.scope, raw.message


def _pair(
    base: Iterable[Placed],
    head: Iterable[Placed],
    added: Callable[[str], frozenset[int]],
    key: Callable[[Placed], tuple[str, ...]],
) -> tuple[list[Placed], list[Placed]]:
    """Pair equal ones off; what is left of head, and of base."""
    known: dict[tuple[str, ...], list[Placed]] = {}
    for placed in base:
        known.setdefault(key(placed), []).append(placed)

    def untouched_first(placed: Placed) -> tuple[bool, str, int]:
        raw = placed.raw
        return raw.line in added(raw.path), raw.path, raw.line

    fresh: list[Placed] = []
    for placed in sorted(head, key=untouched_first):
        pool = known.get(key(placed))
        if pool:
            pool.pop()
        else:
            fresh.append(placed)
    return fresh, [placed for pool in known.values() for placed in pool]


def numbered(found: Iterable[Placed], base: Iterable[Placed] = ()) -> Mapping[str, Placed]:
    """Findings by fingerprint, in reading order.

    Args:
        base: what stood there before and is counted first, so that one more of the same has another
            fingerprint: that of an old one may be waived.
    """
    seen = Counter((*placed.identity, placed.raw.path) for placed in base)
    named: dict[str, Placed] = {}
    for placed in sorted(found, key=lambda p: (p.raw.path, p.raw.line, p.rule, p.text)):
        where = (*placed.identity, placed.raw.path)
        named[placed.fingerprint(seen[where])] = placed
        seen[where] += 1
    return named
