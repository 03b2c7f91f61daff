"""Errors of model calls: one line that names the setting to change and never holds an API key."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from orchestrator.catalog.model_config import MODELS_FILE, Provider
from orchestrator.errors import ModelError, ProviderRefused
from orchestrator.providers.reply_normalization import object_or_empty

RETRYABLE_STATUSES = frozenset({408, 409, 429, *range(500, 600)})
"""Statuses after which a later attempt may succeed (529 is "overloaded")."""

RATE_LIMIT_STATUSES = frozenset({409, 429})
"""Statuses of a healthy server: they do not count toward the circuit breaker."""

FATAL_STATUSES = frozenset({401, 402, *range(300, 400)})
"""Statuses that every call gets until a setting is changed."""

_MAX_QUOTED = 200
_LONG_TOKEN = re.compile(r"[A-Za-z0-9+/=_%-]{28,}")


class TransientError(Exception):
    """One attempt failed; another one may succeed.

    Attributes:
        retry_after: seconds that the server asked to wait, None when it did not say.
        server_down: whether the failure counts toward the circuit breaker.
        lost: whether the request may have been answered, and billed, without a reply that was read.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        server_down: bool = True,
        lost: bool = False,
    ) -> None:
        super().__init__(message)
        self.retry_after, self.server_down, self.lost = retry_after, server_down, lost


def classify_status(
    name: str,
    provider: Provider,
    model: str,
    status: int,
    headers: Mapping[str, str],
    body: Any,
    *,
    secret: str,
) -> TransientError | ModelError | ProviderRefused:
    """Turn an error status into the exception to raise."""
    quote = _server_message(body, secret)
    if status in RETRYABLE_STATUSES:
        return TransientError(
            f"status {status}{f' ({quote})' if quote else ''}",
            retry_after=parse_retry_after(headers),
            server_down=status not in RATE_LIMIT_STATUSES,
        )
    line = _describe_status(name, provider, model, status, quote)
    # Neither another attempt nor another model of this provider would succeed.
    return ProviderRefused(line) if status in FATAL_STATUSES else ModelError(line, billed=False)


def _describe_status(name: str, provider: Provider, model: str, status: int, quote: str) -> str:
    models = f"providers.{name}.models in {MODELS_FILE}"
    quoted = f": {quote}" if quote else ""
    lines = {
        400: f"{name} refused the request for {model} (400){quoted}; "
        f"choose another model under {models}, or lower providers.{name}.can there",
        401: f"{name} rejected the API key (401); set a valid key in {provider.key_env}",
        402: f"{name} requires payment (402){quoted}; check the account behind {provider.key_env}",
        403: f"the key in {provider.key_env} is not allowed to use {model} (403); "
        f"use a key that is, or choose another model under {models}",
        404: f"{name} has no model {model} (404); choose another under {models}, "
        f"or correct {provider.base_url_env}",
        413: f"{name} rejected the request as too large (413); "
        "lower max_output of tools in config/tools.yaml",
    }
    if 300 <= status < 400:
        return f"{name} answered with a redirect ({status}); correct {provider.base_url_env}"
    return lines.get(status, f"{name} refused the request for {model} ({status}){quoted}")


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait, sent as ms, seconds or a date; None if it does not."""
    exact, plain = headers.get("retry-after-ms"), headers.get("retry-after")
    for text, unit in ((exact, 0.001), (plain, 1.0)):
        try:
            seconds = float(text or "") * unit
        except ValueError:
            continue
        return seconds if 0 <= seconds < float("inf") else None
    try:
        date = parsedate_to_datetime(plain or "")
    except ValueError:
        return None
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max((aware - datetime.now(UTC)).total_seconds(), 0.0)


def _server_message(body: Any, secret: str) -> str:
    """Quote the server's error message: one short printable line without the API key."""
    inner = object_or_empty(body).get("error", body)
    message = object_or_empty(inner).get("message", inner)
    if not isinstance(message, str):
        return ""
    line = " ".join(
        "".join(c if c.isprintable() else " " for c in message[: 4 * _MAX_QUOTED]).split()
    )
    # A long run of characters without a break may be an encoded key.
    return _LONG_TOKEN.sub("[...]", redact_key(line, secret))[:_MAX_QUOTED]


def error_kind(body: Any) -> Any:
    """The code or type of an error that a server reports in a JSON body, None without one."""
    error = object_or_empty(object_or_empty(body).get("error") or body)
    return error.get("code") or error.get("type")


def redact_key(text: str, secret: str) -> str:
    """Replace the API key, and any piece of it of 8 characters or more, with ``[key]``."""
    if not secret:
        return text
    text = text.replace(secret, "[key]")
    for size in range(len(secret) - 1, 7, -1):
        for start in range(len(secret) - size + 1):
            piece = secret[start : start + size]
            if piece in text:
                return redact_key(text.replace(piece, "[key]"), secret)
    return text
