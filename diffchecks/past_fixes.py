"""Earlier fixes: commits whose message says that they fix a security defect or add a restriction.

A message is an unverified claim: it only selects which commits are examined.
"""

import re
from typing import Literal

from msgspec import Struct

from diffchecks.data_files import vocabulary

Statement = Literal["security", "stricter"]
"""``security``: names an advisory or a security defect; ``stricter``: adds a restriction."""


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


CANDIDATES = (
    r"commit from fork|CVE-[0-9]|GHSA-|PYSEC-|RUSTSEC-|GO-[0-9]|security|secure|vulnerab|XSS"
    r"|cross.site|CSRF|XSRF|XXE|SSRF|IDOR|RCE([^[:alpha:]]|$)|dos([^[:alpha:]]|$)|denial.of.service|travers"
    r"|open.redirect|inject|bypass|attack|malicious|unauthori|untrusted|exploit|smuggl|splitting"
    r"|fixation|timing|pollution|spoof|clickjack|zip.?slip|arbitrary|remote code|code execution"
    r"|disclos|leak|sensitive|privilege|escap|saniti|validat|verif|restrict|enforc|disallow|forbid"
    r"|prohibit|refus|reject|deny|prevent|protect|harden|redact|sandbox|symlink|authori"
    r"|access control|constant.time"
    r"|(check|require).{0,30}(auth|permission|access|origin|host|owner|sign|login|post)"
    r"|(limit|max).{0,40}(size|length|number|depth|count|access)"
)
"""Words for git to search for in messages: every statement below contains one of these."""

_IDENTIFIERS = re.compile(
    r"\b(?:CVE-\d{4}-\d{4,}|GHSA(?:-[23456789cfghjmpqrvwx]{4}){3}|(?:PYSEC|RUSTSEC|GO)-\d{4}-\d+)\b"
)
_MENDS = re.compile(
    r"(?i)\b(?:fix|prevent|protect|disallow|block|reject|refus|validat|saniti|escap|restrict|enforc"
    r"|avoid|address|resolv|mitigat|harden|limit|forbid|prohibit|guard|ensur|check|require|verif|deny"
    r"|strip|remov|stop|secure|patch|close|closing|correct|handl|don'?t|do not|no longer|against)"
)
# The last is GitHub's message for the merge of an advisory's private fork.
_LABELED = re.compile(r"(?i)^\W*(?:\w+\()?security\)?\W*[:\]!)]|^merge commit from fork\b")
_STRICTER = re.compile(
    r"(?i)\b(?:saniti[sz]|escap(?:e|ing)|validat|verif(?:y|ies)\b|restrict|enforc|disallow"
    r"|forbid|prohibit|refus|reject|deny|prevents?\b|protect|harden|redact|sandbox|symlink"
    r"|requires? (?:auth|permission|login|post)|access control|authori[sz]|constant[ -]time"
    r"|limit\w* (?:the )?(?:\w+ ){0,3}(?:size|length|number|depth|count|access)"
    r"|max(?:imum)? (?:\w+ )?(?:size|length|depth)"
    r"|(?:check\w* (?:for )?(?:the )?(?:\w+ )?(?:permission|access|origin|host|owner"
    r"|auth|signature)|permission check))"
)
_NO_FIX = re.compile(
    r"(?i)^\W*(?:bump|upgrade|update (?:dep|change|lock)|release|prepare|changelog|docs?\b|doc:"
    r"|tests?\b|ci\b|version|typo|fix (?:typo|lint|flake|test|build|doc)|deps\b"
    r"|(?:build|chore)\(deps)"
)
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
    if undoes or _NO_FIX.search(subject):
        return None
    if _LABELED.search(subject) or find_identifiers(message[:MAX_MESSAGE]):
        return "security"
    if vocabulary("defect").search(subject) and (
        _MENDS.search(subject) or subject.startswith("Merge")
    ):
        return "security"
    stricter = _STRICTER.search(subject) is not None
    # A longer body lists the work of many commits, one of which may be such a fix.
    short = len(body) <= MAX_BODY
    if short and (stricter or _MENDS.search(subject)) and vocabulary("defect").search(body):
        return "security"
    return "stricter" if stricter else None


def _without_reverts(subject: str) -> tuple[str, bool]:
    """The original subject of nested reverts, and whether the commit reverts it."""
    undoes = False
    while match := _REVERT.match(subject):
        undoes ^= match[1].lower() == "revert"
        subject = subject[match.end() :]
    return subject, undoes
