"""Marks around untrusted text, with the run's nonce, which its author cannot know."""

import json
import re
import secrets

from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.engine.types import Json

NONCE = "nonce"
"""The journal's key of the run's nonce."""

_LOOKS_LIKE_A_MARK = re.compile(r"<(?=\s*/?\s*untrusted\b)", re.IGNORECASE)


async def run_nonce(journal: Journal) -> str:
    """The run's nonce: 128 bits of the operating system, the same when the run is resumed."""

    async def draw() -> EffectResult:
        return EffectResult(secrets.token_hex(16))

    # Durable with the first answer of a model; before that nothing has used it.
    return str(await journal.effect(NONCE, {}, draw, durable=False))


def escape_markers(text: str) -> str:
    r"""Text in which nothing looks like one of our marks, with any nonce.

    The angle bracket becomes ``\u003c``, which in JSON is the same character.
    """
    return _LOOKS_LIKE_A_MARK.sub(r"\\u003c", text)


def frame(text: str, nonce: str) -> str:
    """Put text between marks that it cannot contain.

    A model has seen the nonce and could have a tool repeat it, so it is removed from the text.
    """
    if nonce and nonce.lower() in text.lower():  # this check first is ten times as fast
        text = re.sub(re.escape(nonce), "[mark]", text, flags=re.IGNORECASE)
    return f"<untrusted {nonce}>\n{escape_markers(text)}\n</untrusted {nonce}>"


def unframe(content: str, nonce: str) -> str:
    """The text between the marks; all of it if there are none."""
    opening, closing = f"<untrusted {nonce}>\n", f"\n</untrusted {nonce}>"
    start, end = content.find(opening), content.rfind(closing)
    return content[start + len(opening) : end] if 0 <= start < end else content


def parse_framed(content: str, nonce: str) -> Json:
    """The framed JSON, or None if it is not complete JSON (cut, or prose)."""
    try:
        return json.loads(unframe(content, nonce))
    except (ValueError, RecursionError):
        return None
