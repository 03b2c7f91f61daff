"""Which commits say that they fix a security defect, or that they make the code stricter.

A message is somebody's word: it decides which commits are looked at, never what is done.
"""

import re
from typing import Literal

Statement = Literal["security", "stricter"]
"""``security``: it names an advisory or a security defect; ``stricter``: it keeps something out."""

CANDIDATES = (
    r"CVE-[0-9]|GHSA-|CWE-[0-9]|secur|vulnerab|XSS|cross-site|CSRF|XSRF|XXE|SSRF|dos([^[:alpha:]]|$)"
    r"|denial of service|travers|redirect|inject|bypass|attack|malicious|unauthori|untrusted|exploit"
    r"|escap|saniti|validat|verif|restrict|enforc|disallow|forbid|refus|reject|prevent|protect"
    r"|permission|privilege|access|limit|sandbox|redact|hostname|origin|smuggl|timing|overflow"
    r"|arbitrary|disclos|leak|secret|sensitive|symlink"
)
"""What git looks for in messages: every statement below has one of these, in any case."""

_IDENTIFIERS = re.compile(
    r"\b(?:CVE-\d{4}-\d{4,}|GHSA(?:-[23456789cfghjmpqrvwx]{4}){3}|(?:PYSEC|RUSTSEC|GO)-\d{4}-\d+)\b",
    re.IGNORECASE,
)
_DEFECT = re.compile(
    r"(?i)vulnerab|\b(?:xss|csrf|xsrf|xxe|ssrf|re-?dos|rce|idor)\b|cross[ -]site|(?-i:\bDo?S\b)"
    r"|denial[ -]of[ -]service|travers(?:al|e)\b|zip[ -]?slip|open[ -]redirect|clickjack|smuggl"
    r"|(?<!dependency )(?<!constructor )injection\b|(?:header|response)[ -]splitting"
    r"|arbitrary (?:code|file|command|path|html|sql|script)|remote code|code execution"
    r"|\bbypass|privilege|session fixation|timing[ -](?:attack|leak)|prototype pollution"
    r"|disclos|\bleak\w* (?:of )?(?:\w+ )?(?:token|secret|password|credential|key|header|cookie)"
    r"|unauthori[sz]ed|untrusted|malicious|attack|exploit|insecure|spoof"
    r"|\bsecurity\b|\bsensitive\b"
)
_MENDS = re.compile(
    r"(?i)\b(?:fix|prevent|protect|disallow|block|reject|refus|validat|saniti|escap|restrict|enforc"
    r"|avoid|address|resolv|mitigat|harden|limit|forbid|prohibit|guard|ensur|check|requir|verif|deny"
    r"|strip|remov|stop|secur|patch|clos|correct|handl|don'?t|do not|no longer|against)"
)
_LABELED = re.compile(r"(?i)^\W*(?:\w+\()?security\)?\W*[:\]!)]")
_STRICTER = re.compile(
    r"(?i)\b(?:saniti[sz]|escap(?:e|ing)|validat|verif(?:y|ies|ication)|restrict|enforc|disallow|forbid"
    r"|prohibit|refus|reject|deny|prevent|protect|harden|redact|sandbox|requir\w* (?:auth|permission|login|post)"
    r"|limit\w* (?:the )?(?:\w+ ){0,3}(?:size|length|number|depth|count|access)|max(?:imum)? (?:\w+ )?(?:size|length|depth)"
    r"|check\w* (?:for )?(?:the )?(?:\w+ )?(?:permission|access|origin|host|owner|auth|signature|symlink)"
    r"|access control|permission check|authori[sz]|constant[ -]time|symlink)"
)
_NO_FIX = re.compile(
    r"(?i)^\W*(?:bump|upgrade|update (?:dep|change|lock)|release|prepare|changelog|docs?\b|doc:|tests?\b"
    r"|ci\b|version|typo|fix (?:typo|lint|flake|test|build|doc)|deps\b|(?:build|chore)\(deps)"
)
_REVERT = re.compile(r"(?i)^\W*(revert|reapply|reland)\b\W*")
_LIST_OF_COMMITS = 20  # lines: a longer body is that of many commits in one


def find_identifiers(message: str) -> list[str]:
    """The advisories that a message names, each once, in upper case."""
    found = (match.group() for match in _IDENTIFIERS.finditer(message))
    return list(dict.fromkeys(name.upper() for name in found))


def classify_message(message: str) -> Statement | None:
    """What a commit says of itself; None: nothing of the kind."""
    subject, _, body = message.strip().partition("\n")
    subject, undoes = _without_reverts(subject)
    if undoes or _NO_FIX.search(subject):
        return None
    if _LABELED.search(subject) or find_identifiers(message):
        return "security"
    if _DEFECT.search(subject) and (_MENDS.search(subject) or subject.startswith("Merge")):
        return "security"
    stricter = _STRICTER.search(subject) is not None
    lines = [line for line in body.split("\n") if line.strip()]
    if len(lines) <= _LIST_OF_COMMITS and _DEFECT.search(body):
        return "security" if stricter or _MENDS.search(subject) else None
    return "stricter" if stricter else None


def _without_reverts(subject: str) -> tuple[str, bool]:
    """The subject that a revert of a revert is about, and whether the commit takes it out."""
    undoes = False
    while match := _REVERT.match(subject):
        undoes ^= match[1].lower() == "revert"
        subject = subject[match.end() :]
    return subject, undoes
