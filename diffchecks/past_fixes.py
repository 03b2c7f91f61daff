"""Earlier fixes: commits whose message says that they fix a security defect or add a restriction.

A message is an unverified claim: it only selects which commits are examined.
"""

import re
from typing import Literal

from msgspec import Struct

from diffchecks.data_files import read_patterns, read_yaml, vocabulary

Statement = Literal["security", "stricter"]
"""``security``: names an advisory, or a security defect in its subject; ``stricter``: adds a
restriction, or tells of such a defect further down, as of one reason among several."""


class PastFix(Struct, frozen=True):
    """The changes to a file of base by a commit that claims to fix a security defect.

    Attributes:
        path: in base.
        date, subject: of the commit; the subject is untrusted text.
        statement: the commit's claim.
        identifiers: the advisories that it names.
        added, removed: lines as text.
    """

    path: str
    commit: str
    date: str
    subject: str
    statement: Statement
    identifiers: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]


CANDIDATES = "|".join(read_yaml("vocabulary.yaml")["posix"]["may_be_fix"])
"""Words for git to search for in messages: every statement below contains one of these."""

_IDENTIFIERS = read_patterns("past_fixes")["identifiers"]
_LABELED = read_patterns("past_fixes")["labeled"]
# A subject that is the defect itself: "XSS injection via a file's name".
_NAMES_DEFECT = read_patterns("past_fixes")["names_defect"]
_REVERT = re.compile(r"(?i)^\W*(revert|reapply|reland)\b\W*")

MAX_BODY = 1500  # characters
MAX_MESSAGE = 4000


def find_identifiers(message: str) -> list[str]:
    """The advisories that a message names, each once."""
    return list(dict.fromkeys(_IDENTIFIERS.findall(message)))


def classify_message(message: str) -> Statement | None:
    """Classify a commit by its message; None: not a fix."""
    subject, _, body = message.strip()[:MAX_MESSAGE].partition("\n")
    subject, undoes = _without_reverts(subject)
    if undoes or vocabulary("no_fix").search(subject):
        return None
    if _LABELED.search(subject) or find_identifiers(message[:MAX_MESSAGE]):
        return "security"
    if vocabulary("defect").search(subject) and (
        vocabulary("mends").search(subject)
        or subject.startswith("Merge")
        or _NAMES_DEFECT.search(subject)
    ):
        return "security"
    # A longer body lists the work of many commits, one of which may be such a fix.
    told = len(body) <= MAX_BODY and vocabulary("defect").search(body)
    if vocabulary("stricter").search(subject) or (told and vocabulary("mends").search(subject)):
        return "stricter"
    return None


def _without_reverts(subject: str) -> tuple[str, bool]:
    """The original subject of nested reverts, and whether the commit reverts it."""
    undoes = False
    while match := _REVERT.match(subject):
        undoes ^= match[1].lower() == "revert"
        subject = subject[match.end() :]
    return subject, undoes
