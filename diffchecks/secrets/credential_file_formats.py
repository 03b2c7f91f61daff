"""Finds secrets by the formats of credential files: netrc, htpasswd, dumps, Kubernetes Secrets."""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from diffchecks.data_files import read_rows
from diffchecks.secrets.secret_plausibility import Hit, is_entered

# A users table in a dump may contain plain digests, recognizable only by the table's name.
_INSERT_USERS = re.compile(
    r"^\s{0,8}(?:INSERT|REPLACE)\s+INTO\s+[`\"'\[.\w]{0,60}"
    r"(?:user|member|account|customer|admin|login|auth)[^;]{0,20000}",
    re.MULTILINE | re.IGNORECASE,
)
_DIGEST = re.compile(r"'((?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}))'", re.IGNORECASE)


def find_in_credential_file(path: str, text: str) -> Iterator[Hit]:
    """Secrets that the format shows which the file's name tells; lines end in ``\\n``."""
    lower = path.lower()
    for rule in credential_rules():
        if not rule.file.fullmatch(lower):
            continue
        for match in rule.line.finditer(text):
            if is_entered(match[1]):
                yield Hit(rule.code, rule.what, *match.span(1))
    if lower.endswith((".sql", ".dump")):
        for insert in _INSERT_USERS.finditer(text):
            for digest in _DIGEST.finditer(text, *insert.span()):
                yield Hit("sql-password-hash", "Password hash in a database dump", *digest.span(1))


class CredentialRule(NamedTuple):
    """The pattern of a credential in one kind of file."""

    code: str
    what: str
    file: re.Pattern[str]
    line: re.Pattern[str]


@cache
def credential_rules() -> tuple[CredentialRule, ...]:
    """All rules in the order of the table; compiled on first use."""
    rules = []
    for code, what, file, line in read_rows("secrets/credential_files.txt"):
        name = re.compile(rf"(?:.*/)?(?:{file})", re.DOTALL)
        rules.append(CredentialRule(code, what, name, re.compile(line, re.MULTILINE)))
    return tuple(rules)
