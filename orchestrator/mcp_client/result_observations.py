"""Convert a server's result to an observation: untrusted text in an envelope of our own keys.

The envelope keeps a server from imitating the keys of a report. The text is cut inside it, so that
the envelope is valid JSON however long the result is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from orchestrator.engine.types import Observation

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

ENVELOPE_CHARACTERS = 200
"""Reserved for the envelope itself."""


def observation(tool: str, result: CallToolResult, max_characters: int) -> Observation:
    """The result for a model, at most ``max_characters`` long; ``ok`` unless marked as an error."""
    text = "\n".join(_texts(result))
    return Observation(envelope(tool, text, max_characters), ok=not result.is_error)


def envelope(tool: str, text: str, max_characters: int) -> str:
    """JSON with the tool's name, its text, and how many characters were cut."""
    # Lone surrogates would break the next request to a provider, which is UTF-8.
    clean = text.encode("utf-8", "replace").decode()
    kept = _count_fitting(clean, max(max_characters - ENVELOPE_CHARACTERS, 0))
    body: dict[str, str | int] = {"result_of": tool, "text": clean[:kept]}
    if kept < len(clean):
        body["characters_cut"] = len(clean) - kept
    return json.dumps(body, ensure_ascii=False)


def _count_fitting(text: str, most: int) -> int:
    """How many characters of a text fit into a limit as a JSON string."""
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
    """The text of a content block; other kinds are named, never passed on."""
    if block.type == "text":
        return block.text
    if block.type == "resource":
        inside = getattr(block.resource, "text", None)
        return inside if inside is not None else f"[left out: the bytes of {block.resource.uri}]"
    if block.type == "resource_link":
        return f"[a link, not followed: {block.uri}]"
    return f"[left out: {block.type}]"
