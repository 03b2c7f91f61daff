"""Errors of model calls: one line that names the setting to change and never holds an API key."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from orchestrator.catalog.model_config import MODELS_FILE, Provider
from orchestrator.data_directories import read_table
from orchestrator.errors import ModelError, ProviderRefused
from orchestrator.providers.reply_normalization import object_or_empty

RETRYABLE_STATUSES = frozenset({408, 409, 429, *range(500, 600)})
"""Statuses after which a later attempt may succeed (529 is "overloaded")."""

RATE_LIMIT_STATUSES = frozenset({409, 429})
"""Statuses of a healthy server: they do not count toward the circuit breaker."""

FATAL_STATUSES = frozenset({401, 402, 403, 404, *range(300, 400)})
"""Statuses that every call gets until a setting or the account is changed."""

_TABLES = read_table(__file__, "provider_errors.yaml")
_ACCOUNT, _BAD_KEY, _NO_MODEL, _FLAGGED = (
    re.compile("|".join(_TABLES[name]), re.IGNORECASE | re.DOTALL)
    for name in ("account", "bad_key", "no_model", "flagged")
)
_STATUS_OF_KIND: Mapping[str, int] = _TABLES["status_of_kind"]
_MESSAGES, _KINDS = _TABLES["messages"], _TABLES["kinds"]

_MAX_DEPTH = 5
_MAX_QUOTED = 200
_LONG_TOKEN = re.compile(r"[A-Za-z0-9+/=_%-]{28,}")


class ReportedError(Exception):
    """A server reports an error in a reply of status 200, which ``classify_reported`` classifies.

    Attributes:
        body: the error, or an object with it as its ``error``.
        lost: whether a part of the reply came before it.
    """

    def __init__(self, body: Any, *, lost: bool) -> None:
        super().__init__("the server reported an error in its reply")
        self.body, self.lost = body, lost


def check_reported(document: Mapping[str, Any], *, lost: bool) -> None:
    """Check that a reply, or a chunk of one, is no error, also none of its first choice.

    One without any contents is an error if it has a message.
    """
    choices = document.get("choices")
    choice = object_or_empty(choices[0]) if isinstance(choices, list) and choices else {}
    for error in (document.get("error"), choice.get("error")):
        if error and isinstance(error, str | dict):
            raise ReportedError({"error": error}, lost=lost)
    if choice.get("finish_reason") == "error":
        raise ReportedError("its finish_reason is error", lost=lost)
    empty = not any(document.get(key) for key in ("choices", "output", "content"))
    if empty and server_message(document, ""):
        raise ReportedError(document, lost=lost)


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
    quote = server_message(body, secret)
    words, sent = f"{_kinds(body)} {quote}", status
    if status < 500 and _ACCOUNT.search(words):
        status = 402
    elif status == 400 and _BAD_KEY.search(words):
        status = 401
    elif status in {400, 403} and _NO_MODEL.search(words):
        status = 404
    elif status == 403 and _FLAGGED.search(words):
        return ModelError(f"{name} refused the contents of a request (403): {quote}", billed=False)
    if status in RETRYABLE_STATUSES:
        return TransientError(
            f"status {status}{f' ({quote})' if quote else ''}",
            retry_after=parse_retry_after(headers),
            server_down=status not in RATE_LIMIT_STATUSES,
        )
    line = _describe_status(name, provider, model, status, quote, sent)
    # Neither another attempt nor another model of this provider would succeed.
    refusal = ProviderRefused(line)
    refusal.account = status == 402
    return refusal if status in FATAL_STATUSES else ModelError(line, billed=False)


def classify_reported(
    name: str, provider: Provider, model: str, body: Any, *, secret: str, lost: bool
) -> TransientError | ModelError | ProviderRefused:
    """Turn an error that a server reports in a reply of status 200 into the exception to raise.

    Args:
        lost: whether a part of the reply, which may be billed, came before it.
    """
    codes = [code for code in _kinds(body) if code in _STATUS_OF_KIND or code.isdecimal()]
    statuses = [_STATUS_OF_KIND.get(code) or int(code[:4]) for code in codes]
    status = next((status for status in statuses if 400 <= status < 600), 0)
    if not status and _ACCOUNT.search(f"{_kinds(body)} {server_message(body, secret)}"):
        status = 402
    if status:
        error = classify_status(name, provider, model, status, {}, body, secret=secret)
        if isinstance(error, ModelError):
            error.billed = lost
        if not isinstance(error, TransientError):
            return error
    kind = "".join(c for c in ", ".join(_kinds(body)) if c.isprintable())[:60]
    detail = ": ".join(filter(None, (kind, server_message(body, secret))))
    return TransientError(
        f"the server reported an error in its reply ({detail or 'without a message'})",
        server_down=status not in RATE_LIMIT_STATUSES,
        lost=lost,
    )


def _describe_status(
    name: str, provider: Provider, model: str, status: int, quote: str, sent: int
) -> str:
    """Say what is wrong; ``sent`` is the status as it was sent, ``status`` what it means."""
    if 300 <= status < 400:
        return f"{name} answered with a redirect ({status}); correct {provider.base_url_env}"
    quoted, said = (f": {quote}", f"; it says: {quote}") if quote else ("", "")
    line = _TABLES["lines"].get(status)
    if line is None:
        return f"{name} refused the request for {model} ({status}){quoted}"
    text: str = line.format(
        name=name, model=model, sent=sent, quoted=quoted, said=said, key=provider.key_env,
        url=provider.base_url_env, models=f"providers.{name}.models in {MODELS_FILE}",
    )  # fmt: skip
    return text


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


def server_message(body: Any, secret: str) -> str:
    """Quote the server's error message: one short printable line without the API key."""
    message = _find_message(body)
    if re.match(r"\s*<(?:!doctype|html)\b", message, re.IGNORECASE):
        title = re.search(r"<title[^>]*>(.{0,200}?)</title>", message, re.IGNORECASE | re.DOTALL)
        message = f"an HTML page{f': {title[1]}' if title else ''}"
    line = " ".join(
        "".join(c if c.isprintable() else " " for c in message[: 4 * _MAX_QUOTED]).split()
    )
    # A long run of characters without a break may be an encoded key.
    return _LONG_TOKEN.sub("[...]", redact_key(line, secret))[:_MAX_QUOTED]


def _errors_in(body: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """The objects of an error from the inside out, with keys in lower case."""
    each = body if isinstance(body, list) else [body]
    for error in (one for one in each if isinstance(one, dict) and depth < _MAX_DEPTH):
        lower = {str(key).lower(): value for key, value in error.items()}
        for name in _MESSAGES:
            yield from _errors_in(lower.get(name), depth + 1)
        yield lower


def _find_message(body: Any) -> str:
    """The innermost text under a name of messages, with what it quotes.

    A gateway says "Provider returned error", and quotes the provider's in ``metadata.raw``.
    """
    if isinstance(body, str):
        return body
    for error in _errors_in(body):
        found = (error.get(name) for name in _MESSAGES)
        if message := next((each for each in found if each and isinstance(each, str)), ""):
            raw = object_or_empty(error.get("metadata")).get("raw")
            return f"{message}: {raw}" if raw and isinstance(raw, str) else message
    return ""


def _kinds(body: Any) -> list[str]:
    """What a server calls an error: the code and type of the innermost that has any, as text."""
    for error in _errors_in(body):
        found = (error.get(key) for key in _KINDS)
        if kinds := [str(kind) for kind in found if kind and isinstance(kind, str | int)]:
            return kinds
    return []


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
