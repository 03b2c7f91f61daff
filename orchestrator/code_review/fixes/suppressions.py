"""Suppression comments of analyzers, linters and type checkers, which no patch may add."""

import re
from collections import Counter

from orchestrator.code_review.fixes.patches import FileHunks, PatchRefused

_SUPPRESSION = re.compile(
    rb"""
    \#[ \t]{0,4}(?:(?:ruff|flake8):[ \t]{0,4})?noqa\b(?::[ \t]{0,4}[A-Z0-9, \t]+)?
    | \#[ \t]{0,4}nosec\b(?::?[ \t]{0,4}B\d[B0-9, \t]*)?
    | \#[ \t]{0,4}(?:type|pyright|ty|pyrefly|zizmor|hadolint)[: ][ \t]{0,4}ignore\b(?:\[[^]\n]*\])?
    | \#[ \t]{0,4}mypy:[ \t]{0,4}(?:ignore|disable)[^\n]*
    | (?:pylint|rubocop|yamllint):?[ \t]{0,4}disable\b[^\n]*
    | shellcheck[ \t]{1,4}disable=[^\s]*
    | eslint-disable[^\n]*
    | @ts-(?:ignore|nocheck|expect-error)\b
    | biome-ignore\b[^\n]*
    | //[ \t]{0,4}nolint\b[^\n]*
    | \#nosec\b
    | \bnosemgrep\b[^\n]*
    | \bNOSONAR\b
    | \b(?:checkov:skip|tfsec:ignore|trivy:ignore)\b[^\n]*
    | \bgitleaks:allow\b
    | pragma:[ \t]{0,4}(?:allowlist[ \t]secret|no[ \t]cover)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)


def require_no_suppression(file: FileHunks) -> None:
    """Check that a patch adds no suppression comment to a file that it does not also remove.

    Raises:
        PatchRefused: it adds such a comment, or one that suppresses something else.
    """
    found: Counter[bytes] = Counter()
    for hunk in file.hunks:
        for marker, text in hunk.lines:
            if marker in {b"+", b"-"}:
                step = 1 if marker == b"+" else -1
                for match in _SUPPRESSION.finditer(text):
                    found[match[0].strip()] += step
    if added := next((text for text, count in found.items() if count > 0), None):
        shown = added[:60].decode("utf-8", "replace")
        raise PatchRefused(f"it silences an analyzer in {file.path} with {shown!r}")
