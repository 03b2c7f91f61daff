"""Redacts known secrets in texts."""

from collections.abc import Iterable

REDACTED = "[redacted]"


def redact_secrets(text: str, secrets: Iterable[str]) -> str:
    """Remove the given secrets, the longest first, so that no part of one remains."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return text
