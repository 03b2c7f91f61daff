"""The kinds of weakness that a finding names, to distinguish defects at the same lines."""

import re
from collections.abc import Iterable

from orchestrator.code_review.findings.located_findings import LocatedFinding

_NUMBERS: dict[str, Iterable[int]] = {
    "access": (
        *(250, 269, 276, 280, 281, 284, 285, 287, 288, 290, 294, 302, 306, 307, 346, 352, 384, 425),
        *(552, 566, 613, 639, 732, 862, 863, 1390),
    ),
    "calculation": (128, 131, 190, 191, 193, 369, 681, 1339),
    "concurrency": (362, 364, 366, 367, 413, 662, 667, 820, 821, 833),
    "cryptography": (261, 295, 297, 310, 311, 319, 321, 326, 327, 328, 330, 331, 335, 338, 347),
    "exceptions": (248, 252, 390, 391, 392, 394, 396, 397, 754, 755),
    "injection": (
        *(74, 75, 77, 78, 79, 80, 83, 87, 88, 89, 90, 91, 93, 94, 95, 96, 97, 113, 116, 117),
        *(138, 564, 643, 652, 917, 943, 1236, 1336),
    ),
    "path": (22, 23, 35, 36, 59, 61, 73, 98, 434),
    "resources": (
        *(399, 400, 401, 404, 405, 407, 409, 459, 674, 730, 770, 772, 775, 779, 789, 834, 835),
        *(920, 1050, 1333),
    ),
    "secrets": (200, 201, 209, 212, 256, 257, 259, 312, 497, 522, 532, 538, 540, 548, 798),
}
_KIND = {number: kind for kind, numbers in _NUMBERS.items() for number in numbers}

_GENERAL = frozenset({20, 664, 682, 691, 693, 697, 703, 707, 710})
"""Weaknesses of so many kinds that they tell none."""

_WORDS = {
    "access": re.compile(
        r"\b(permission|authori[sz]ation|authentication|access control|csrf)", re.IGNORECASE
    ),
    "concurrency": re.compile(r"\b(race condition|deadlock|toctou)", re.IGNORECASE),
    "injection": re.compile(r"\b(injection|xss|cross-site scripting)", re.IGNORECASE),
    "path": re.compile(r"\bpath traversal\b", re.IGNORECASE),
}
"""Words that name a kind: few, as a wrong one leaves one defect as two findings."""


def names_other_weakness(one: LocatedFinding, other: LocatedFinding) -> bool:
    """Whether both findings name weaknesses, but none of the same kind."""
    kinds, others = _kinds(one), _kinds(other)
    return bool(kinds and others and not kinds & others)


def names_same_weakness(one: LocatedFinding, other: LocatedFinding) -> bool:
    """Whether two findings name weaknesses of the same kind."""
    return bool(_kinds(one) & _kinds(other))


def _kinds(finding: LocatedFinding) -> set[str | int]:
    """The kinds of its CWE numbers; without any, those that its rule or title names."""
    if finding.cwe:
        return {_KIND.get(number, number) for number in finding.cwe if number not in _GENERAL}
    text = f"{finding.rule.replace('-', ' ')} {finding.title}"
    return {kind for kind, words in _WORDS.items() if words.search(text)}
