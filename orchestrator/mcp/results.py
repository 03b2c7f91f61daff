"""What a server answers, as an observation: untrusted text under names that are ours.

The text is put into an envelope, so that nothing a server sends can stand where a report's own keys
would stand. It is cut inside the envelope, which therefore is whole JSON however long the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from orchestrator.engine.types import Observation

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

ENVELOPE = 200
"""Characters kept free for the envelope itself."""


def observation(tool: str, result: CallToolResult, most: int) -> Observation:
    """The answer for a model, at most ``most`` characters; ``ok`` unless it says it is an error."""
    text = "\n".join(_texts(result))
    return Observation(envelope(tool, text, most), ok=not result.is_error)


def envelope(tool: str, text: str, most: int) -> str:
    """JSON that says which tool answered what, and how many characters were left out."""
    # Lone surrogates would break the next request to a provider, which is UTF-8.
    clean = text.encode("utf-8", "replace").decode()
    kept = _fitting(clean, max(most - ENVELOPE, 0))
    body: dict[str, str | int] = {"answer_of": tool, "text": clean[:kept]}
    if kept < len(clean):
        body["characters_cut"] = len(clean) - kept
    return json.dumps(body, ensure_ascii=False)


def _fitting(text: str, most: int) -> int:
    """How many characters of a text fit, quoted as JSON."""
    kept = min(len(text), most)
    while kept and len(json.dumps(text[:kept], ensure_ascii=False)) > most:
        kept = kept * 3 // 4
    return kept


def _texts(result: CallToolResult) -> Iterator[str]:
    for block in result.content:
        yield _text(block)
    if not result.content and result.structured_content is not None:
        yield json.dumps(result.structured_content, ensure_ascii=False)


def _text(block: ContentBlock) -> str:
    """A block in words; what is no text is named, never passed on."""
    if block.type == "text":
        return block.text
    if block.type == "resource":
        inside = getattr(block.resource, "text", None)
        return inside if inside is not None else f"[left out: the bytes of {block.resource.uri}]"
    if block.type == "resource_link":
        return f"[a link, not followed: {block.uri}]"
    return f"[left out: {block.type}]"
