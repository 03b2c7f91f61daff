"""Marks around text that we do not trust: whoever wrote it cannot know the run's nonce."""

from __future__ import annotations

import json
from collections.abc import Callable

from orchestrator.engine.types import Json


def frame(text: str, nonce: str) -> str:
    """Put text between marks that it cannot contain.

    A model has seen the nonce and may have a tool repeat it, so it is taken out of the text.
    """
    if nonce:
        text = text.replace(nonce, "[mark]")
    return f"<untrusted {nonce}>\n{text}\n</untrusted {nonce}>"


def redacted(value: Json, redact: Callable[[str], str]) -> Json:
    """A value with ``redact`` applied to every text in it, names included."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [redacted(item, redact) for item in value]
    if isinstance(value, dict):
        return {redact(name): redacted(item, redact) for name, item in value.items()}
    return value


def unframe(content: str, nonce: str) -> str:
    """The text between the marks; all of it where there are none."""
    opening, closing = f"<untrusted {nonce}>\n", f"\n</untrusted {nonce}>"
    start, end = content.find(opening), content.rfind(closing)
    return content[start + len(opening) : end] if 0 <= start < end else content


def as_json(content: str, nonce: str) -> Json:
    """The framed JSON, or None where it is not whole JSON (cut, or prose)."""
    try:
        return json.loads(unframe(content, nonce))
    except (ValueError, RecursionError):
        return None
