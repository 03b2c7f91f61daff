"""Secrets that are known by the file they stand in."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from orchestrator.checks.secrets.credential_formats import RULES
from orchestrator.checks.secrets.secret_values import Hit, is_entered, is_set

# A table of users in a dump may hold plain digests, which only the table's name tells apart.
_INSERT_USERS = re.compile(
    r"^\s{0,8}(?:INSERT|REPLACE)\s+INTO\s+[`\"'\[.\w]{0,60}"
    r"(?:user|member|account|customer|admin|login|auth)[^;]{0,20000}",
    re.MULTILINE | re.IGNORECASE,
)
_DIGEST = re.compile(r"'((?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}))'", re.IGNORECASE)

_KUBERNETES_SECRET = re.compile(r"^kind:\s*[\"']?Secret\b", re.MULTILINE)
_MANIFEST_BLOCK = re.compile(r"^(data|stringData):[ \t]*\n((?:[ \t]+[^\n]*\n?)+)", re.MULTILINE)
_MANIFEST_VALUE = re.compile(
    r"^[ \t]+([\w.-]{1,80}):[ \t]+[\"']?([^\s\"'#|>]{4,2000})", re.MULTILINE
)
_NOT_SECRET_KEY = re.compile(
    r"user(?:[-_]?name)?$|host|port$|^ca\.|\.crt$|^tls\.crt|namespace|endpoint|region|bucket|^name$"
    r"|email|public",
    re.IGNORECASE,
)


def secrets_by_file(path: str, text: str) -> Iterator[Hit]:
    """Secrets that the file's own format shows.

    Args:
        path: of the file; its name decides.
        text: with ``\\n`` for line ends.
    """
    lower = path.lower()
    for rule in RULES.rows:
        if not rule.file.fullmatch(lower):
            continue
        for match in rule.line.finditer(text):
            if is_entered(match[1]):
                yield Hit(rule.code, rule.what, *match.span(1))
    if lower.endswith((".sql", ".dump")):
        for insert in _INSERT_USERS.finditer(text):
            for digest in _DIGEST.finditer(text, *insert.span()):
                yield Hit("sql-password-hash", "Password hash in a database dump", *digest.span(1))
    if lower.endswith((".yml", ".yaml")) and "Secret" in text:
        yield from _kubernetes_secrets(text)


def _kubernetes_secrets(text: str) -> Iterator[Hit]:
    """Values in manifests of kind Secret (a sealed secret is another kind)."""
    start = 0
    for document in text.split("\n---"):
        if _KUBERNETES_SECRET.search(document):
            for block in _MANIFEST_BLOCK.finditer(document):
                for value in _MANIFEST_VALUE.finditer(document, *block.span(2)):
                    plain = value[2] if block[1] == "stringData" else _decoded(value[2])
                    if not _NOT_SECRET_KEY.search(value[1]) and (plain is None or is_set(plain)):
                        span = (start + value.start(2), start + value.end(2))
                        yield Hit("kubernetes-secret", "Value of a Kubernetes Secret", *span)
        start += len(document) + len("\n---")


def _decoded(value: str) -> str | None:
    """The text that base64 stands for: empty when it is no base64, None when it is no text."""
    try:
        return base64.b64decode(value, validate=True).decode("ascii")
    except binascii.Error:
        return ""
    except UnicodeDecodeError:
        return None
