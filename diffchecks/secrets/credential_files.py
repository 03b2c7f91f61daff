"""Secrets by the formats of credential files: netrc, htpasswd, dumps, Kubernetes Secrets."""

import base64
import binascii
import re
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import yaml

from diffchecks.check_io import Gap
from diffchecks.data_files import read_patterns, read_rows
from diffchecks.infrastructure.helm import parse_template
from diffchecks.secrets.secret_plausibility import Hit, is_entered
from diffchecks.yaml_tree import TreeNode, parse_documents, walk

# A users table in a dump may contain plain digests, recognizable only by the table's name.
_INSERT_USERS = read_patterns("credential_files")["insert_users"]
_DIGEST = re.compile(r"'((?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}))'", re.IGNORECASE)


def find_in_credential_file(path: str, text: str) -> Iterator[Hit]:
    """Secrets that the format shows which the file's name tells; lines end in ``\\n``."""
    lower = path.lower()
    for rule in credential_rules():
        if not rule.file.fullmatch(lower):
            continue
        for match in re.finditer(rule.line, text, re.MULTILINE):
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
    line: str  # few reviews need one: each is compiled where a file has its name


@cache
def credential_rules() -> tuple[CredentialRule, ...]:
    """All rules in the order of the table; their names are compiled on first use."""
    return tuple(
        CredentialRule(code, what, re.compile(rf"(?:.*/)?(?:{file})", re.DOTALL), line)
        for code, what, file, line in read_rows("secrets/credential_files.txt")
    )


_NOT_SECRET_KEY = read_patterns("credential_files")["not_secret_key"]


def find_secret_values(text: str) -> Iterator[tuple[str | None, int, int]]:
    """The values of names that may be secret, each with its place; None: a value that is no text.

    A file that cannot be parsed has none.
    """
    try:
        documents = parse_template(text)[0] if "{{" in text else parse_documents(text)
    except (yaml.YAMLError, Gap):
        return
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    for document in documents:
        for secret in (document, *(place.value for place in walk(document))):
            if secret.get_text("kind") == "Secret":
                for block in ("data", "stringData"):
                    for value in _values(secret.find(block), whole=block == "data"):
                        plain = value.text if block == "stringData" else _decode(value.text)
                        yield plain and plain.strip(), *_place(text, starts, value)


def _values(block: TreeNode | None, *, whole: bool) -> Iterator[TreeNode]:
    """The values of a block; only base64 can hide a whole file."""
    for name, value in block.entries() if block else ():
        lines = value.text.strip().count("\n")
        if value.text and (whole or not lines) and not _NOT_SECRET_KEY.search(name.text):
            yield value


def _place(text: str, starts: list[int], value: TreeNode) -> tuple[int, int]:
    """The span of a value as it is written, without quotes; of a block, its lines."""
    start = starts[value.line] if value.block else starts[value.line - 1] + value.column - 1
    end = min(starts[value.end_line], len(text))
    at = text.find(value.text, start, end)
    return (at, at + len(value.text)) if at >= 0 else (start, end)


def _decode(value: str) -> str | None:
    """Decode base64: empty if it is not base64, None if the result is not text."""
    try:
        return base64.b64decode("".join(value.split()), validate=True).decode()
    except (binascii.Error, ValueError) as error:
        return None if isinstance(error, UnicodeDecodeError) else ""
