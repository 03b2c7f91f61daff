"""One defect is one finding, whoever reported it and however often. All of it is plain code.

Analyzers that see the same weakness at the same line mean the same defect. An agent means one
whose lines overlap with its own, and that it names by its fingerprint, or whose rule, weakness or
title is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from orchestrator.catalog.fields import SEVERITIES
from orchestrator.catalog.verdict_policy import VerdictPolicy
from orchestrator.review.findings.waivers import speaking_of
from orchestrator.review.verdict.decision import weight
from orchestrator.review.verdict.model import Cause, Evidence, Finding, Objection, Reported

ALIKE = 0.75
"""Share of the shorter title's words that two titles of the same defect have in common."""

_WORD = re.compile(r"\w+")
_SMALL = frozenset(
    {"a", "an", "and", "at", "be", "by", "for", "from", "in", "is", "of", "on", "or", "the", "to"}
)


class Word(Struct, frozen=True):
    """One reporter's word on a defect.

    Attributes:
        by: an analyzer's name, or an agent's.
        item: the finding as JSON.
        proved: an analyzer said so.
        refs: the calls that showed it.
        shown_to: the agents that made these calls.
        names: fingerprint of the finding that it takes up, empty where it speaks of its own.
    """

    by: str
    item: Mapping[str, Any]
    proved: bool
    refs: tuple[str, ...] = ()
    shown_to: frozenset[str] = frozenset()
    names: str = ""


class _File(Struct):
    """What is said of one file: by analyzers, and by agents."""

    proved: list[Word] = field(default_factory=list)
    claimed: list[Word] = field(default_factory=list)


class Defect(Struct):
    """What is one finding in the end.

    Attributes:
        words: the first says what it is: an analyzer's where there is one.
        file: all that is said of its file.
        echoes: agents that took it up just as an analyzer had it.
    """

    words: list[Word]
    file: _File = field(default_factory=_File)
    echoes: dict[str, None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its fingerprint."""
        return str(self.item["fingerprint"])

    @property
    def item(self) -> Mapping[str, Any]:
        """The finding as its first reporter has it."""
        return self.words[0].item

    @property
    def vouchers(self) -> frozenset[str]:
        """The agents that say that it is a defect."""
        return frozenset(word.by for word in self.words if not word.proved) | self.echoes.keys()

    def confidence(self, word: Word) -> float:
        """How sure one of its words is with all that agree: each voice halves the doubt.

        Agreement is between two words, wherever each of them is told in the end: a report that
        changes what is told together takes none away.
        """
        if word.proved:
            agree, others = [one for one in self.words if one.proved], self.file.claimed
        else:
            agree, others = [word], [*self.file.proved, *self.file.claimed]
        agree += [one for one in others if _mean_the_same(one, word)]
        doubt: float = (1 - word.item["confidence"]) / 2 ** max(len(_voices(agree, word)) - 1, 0)
        return round(1 - doubt, 4)


def _voices(agree: Iterable[Word], word: Word) -> set[str]:
    """Who says so independently, and finds it at least as grave.

    Independent are two analyzers, and an agent that speaks for itself and made none of the calls
    that showed it.
    """
    shown = frozenset[str]().union(*(one.shown_to for one in agree))
    grave = [one for one in agree if _order(one) <= _order(word)]
    return {one.by for one in grave if one.proved or not (one.names or one.by in shown)}


class _Known(Struct):
    """The defects that an agent can mean: by the fingerprints of their words, and by file."""

    named: dict[str, Defect] = field(default_factory=dict)
    beside: dict[str, list[Defect]] = field(default_factory=dict)

    def add(self, word: Word, defect: Defect) -> None:
        """A defect has one more word."""
        self.named.setdefault(word.item["fingerprint"], defect)
        if len(defect.words) == 1:
            self.beside.setdefault(word.item["path"], []).append(defect)

    def meant(self, word: Word) -> Defect | None:
        """The defect that an agent speaks of, where it is known."""
        taken_up = self.named.get(word.names)
        if taken_up is not None and overlap(taken_up.item, word.item):
            return taken_up
        beside = self.beside.get(word.item["path"], ())
        again = self.named.get(word.item["fingerprint"])
        return again or next((one for one in beside if _same(one.item, word.item)), None)


def merge(words: Iterable[Word], policy: VerdictPolicy) -> list[Defect]:
    """Bring together what means the same defect.

    What an analyzer says comes first, and names it. Reports of agents that a person has waived keep
    to themselves: under the name of one, the report of another would be waived with it.
    """

    def rank(word: Word) -> tuple[Any, ...]:
        item = word.item
        weighs = weight(item["severity"], item["confidence"], policy)
        return not word.proved, -weighs, *gravity(item), word.by, item["fingerprint"]

    defects: list[Defect] = []
    counted, waived = _Known(), _Known()
    proved: dict[tuple[Any, ...], Defect] = {}
    files: dict[str, _File] = {}
    for word in sorted(words, key=rank):
        item = word.item
        file = files.setdefault(item["path"], _File())
        if word.proved:
            file.proved.append(word)
            known = [counted, waived]
            defect = proved.setdefault(_weakness(item), Defect([], file))
        else:
            file.claimed.append(word)
            accepted = speaking_of(policy, item["rule"], item["fingerprint"], item["path"])
            known = [waived if accepted else counted]
            defect = known[0].meant(word) or Defect([], file)
        if not defect.words:
            defects.append(defect)
        defect.words.append(word)
        for one in known:
            one.add(word, defect)
    return defects


def _mean_the_same(one: Word, other: Word) -> bool:
    """Whether two words, one of them or both an agent's, mean the same."""
    first, second = one.item, other.item
    if first["fingerprint"] == second["fingerprint"]:
        return True
    names = first["fingerprint"] == other.names or second["fingerprint"] == one.names
    return overlap(first, second) and (names or _same(first, second))


GRAVITY = ("severity", "path", "start_line", "confidence", "rule")


def gravity(item: Mapping[str, Any]) -> tuple[Any, ...]:
    """The order of a report, gravest first, by what stands under ``GRAVITY``."""
    order = SEVERITIES.index(item["severity"])
    return order, item["path"], item["start_line"], -item["confidence"], item["rule"]


def _order(word: Word) -> int:
    return SEVERITIES.index(word.item["severity"])


def _weakness(item: Mapping[str, Any]) -> tuple[Any, ...]:
    """Equal for what two analyzers say of the same defect."""
    kind = tuple(item["cwe"][:1]) or item["rule"]
    return item["path"], item["start_line"], item["category"], kind


def _same(one: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Whether what an agent reports means a defect that is known."""
    return overlap(one, claim) and (
        one["rule"] == claim["rule"] != unnamed(claim["category"])
        or bool(set(one["cwe"]) & set(claim["cwe"]))
        or _alike(one["title"], claim["title"])
    )


def overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two reports share a line."""
    return bool(
        one["path"] == other["path"]
        and one["start_line"] <= other["end_line"]
        and other["start_line"] <= one["end_line"]
    )


def unnamed(category: str) -> str:
    """The rule of a finding that an agent gives no rule."""
    return f"{category}.reported"


def _alike(one: str, other: str) -> bool:
    first, second = ({*_WORD.findall(text.casefold())} - _SMALL for text in (one, other))
    shared = len(first & second)
    equal = bool(shared) and first == second
    return equal or (shared > 1 and shared >= ALIKE * min(len(first), len(second)))


# --- the finding --------------------------------------------------------------------------------


def finding(defect: Defect, policy: VerdictPolicy, objections: Iterable[Objection] = ()) -> Finding:
    """The finding of a defect, still without an id.

    It is as grave and as sure as the report that, with all who agree, weighs most under the policy:
    no report of an agent makes the gravest finding count for less.
    """
    item = defect.item
    said = [(word.item["severity"], defect.confidence(word)) for word in defect.words]
    severity, confidence = max(
        said, key=lambda one: (weight(one[0], one[1], policy), -SEVERITIES.index(one[0]), one[1])
    )
    refs = {ref for word in defect.words for ref in word.refs}
    reporters = {name for word in defect.words for name in (word.by, *word.shown_to)}
    return Finding(
        id="",
        fingerprint=item["fingerprint"],
        severity=severity,
        confidence=confidence,
        title=item["title"],
        detail=item["detail"],
        category=item["category"],
        rule=item["rule"],
        cwe=tuple(item["cwe"]),
        path=item["path"],
        start_line=item["start_line"],
        end_line=item["end_line"],
        evidence=Evidence(quote=item["quote"], tool_calls=tuple(sorted(refs))),
        fix_suggestion=item["fix_suggestion"],
        reported_by=tuple(sorted(reporters | defect.echoes.keys())),
        because_of=Cause(**cause) if (cause := item.get("because_of")) else None,
        reports=_reports(defect.words),
        objections=tuple(objections),
    )


def _reports(words: list[Word]) -> tuple[Reported, ...]:
    if len(words) == 1:
        return ()
    return tuple(
        Reported(
            by=word.by,
            proved=word.proved,
            **{name: word.item[name] for name in ("severity", "confidence", "title", "detail")},
        )
        for word in words
    )
