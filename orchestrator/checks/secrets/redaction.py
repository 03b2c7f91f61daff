"""Texts without the secrets that are known to be in them."""

from collections.abc import Iterable

REDACTED = "[redacted]"


def redact_secrets(text: str, secrets: Iterable[str]) -> str:
    """Text without the given secrets; the longest goes first, so that no tail of one is left."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return text
