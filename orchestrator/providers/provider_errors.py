"""What goes wrong in a call, as one line that names the setting to change. Keys stay out of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from orchestrator.engine.model_config import MODELS_FILE, Provider
from orchestrator.errors import ModelError, ProviderRefused
from orchestrator.providers.reply_parsing import members

RETRIED = frozenset({408, 409, 429, *range(500, 600)})
"""Statuses that a later try may not meet (529 is "overloaded")."""

RATE_LIMITED = frozenset({409, 429})
"""Statuses of a server that is well: they say nothing about its being down."""

NO_USE = frozenset({401, 402, *range(300, 400)})
"""Statuses that every call meets until a setting is changed."""

_CUT = 200
_CODE = re.compile(r"[A-Za-z0-9+/=_%-]{28,}")


class Transient(Exception):
    """One try failed, and another may not.

    Attributes:
        wait: seconds that the server asked to wait, None when it did not say.
        down: whether it suggests that the server is down.
        lost: whether the request may have been answered, and billed, without our seeing it.
    """

    def __init__(
        self, why: str, *, wait: float | None = None, down: bool = True, lost: bool = False
    ) -> None:
        super().__init__(why)
        self.wait, self.down, self.lost = wait, down, lost


def rejected(
    provider: Provider,
    model: str,
    status: int,
    headers: Mapping[str, str],
    body: Any,
    secret: str,
) -> Transient | ModelError | ProviderRefused:
    """What an error status means."""
    said = _said(body, secret)
    if status in RETRIED:
        why = f"status {status}{f' ({said})' if said else ''}"
        return Transient(why, wait=retry_after(headers), down=status not in RATE_LIMITED)
    line = _line(provider, model, status, said)
    # Neither another try nor another model would fare better.
    return ProviderRefused(line) if status in NO_USE else ModelError(line, billed=False)


def _line(provider: Provider, model: str, status: int, said: str) -> str:
    name, models = provider.name, f"providers.{provider.name}.models in {MODELS_FILE}"
    quoted = f": {said}" if said else ""
    lines = {
        400: f"{name} refused the request for {model} (400){quoted}; "
        f"choose another model under {models}, or lower providers.{name}.can there",
        401: f"{name} did not accept the key (401); put a valid one into {provider.key_env}",
        402: f"{name} wants payment (402){quoted}; see to the account behind {provider.key_env}",
        403: f"the key in {provider.key_env} may not use {model} (403); "
        f"use one that may, or choose another model under {models}",
        404: f"{name} has no model {model} (404); choose another under {models}, "
        f"or correct {provider.base_url_env}",
        413: f"{name} finds the request too large (413); "
        "lower max_output of tools in config/tools.yaml",
    }
    if 300 <= status < 400:
        return f"{name} answered with a redirection ({status}); correct {provider.base_url_env}"
    return lines.get(status, f"{name} refused the request for {model} ({status}){quoted}")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait: milliseconds, seconds or a date; None if it does not."""
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


def _said(body: Any, secret: str) -> str:
    """The server's own words: one short printable line, without our key in it."""
    inner = members(body).get("error", body)
    words = members(inner).get("message", inner)
    if not isinstance(words, str):
        return ""
    line = " ".join("".join(c if c.isprintable() else " " for c in words[: 4 * _CUT]).split())
    # A long run without a break is no word: it may be a key in some coding.
    return _CODE.sub("[...]", hide(line, secret))[:_CUT]


def hide(text: str, secret: str) -> str:
    """The text without the key, or any longer piece of it."""
    if not secret:
        return text
    text = text.replace(secret, "[key]")
    for size in range(len(secret) - 1, 7, -1):
        for start in range(len(secret) - size + 1):
            piece = secret[start : start + size]
            if piece in text:
                return hide(text.replace(piece, "[key]"), secret)
    return text
