"""Pins: digests over everything that a server declares about a tool.

A person accepts a pin once. A tool that changes afterwards, even by a word of its description, is
refused until it is accepted again: models read descriptions, so a silent change is an attack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.engine.canonical_json import digest
from orchestrator.engine.types import Json
from orchestrator.mcp_client.server_config import Grant

if TYPE_CHECKING:
    from mcp_types import Tool

_PINNED_FIELDS = {"name", "title", "description", "input_schema", "output_schema", "annotations"}


def pinned_fields(tool: Tool) -> Json:
    """The server's description of a tool, in the fields that a pin covers."""
    return tool.model_dump(mode="json", by_alias=True, exclude_unset=True, include=_PINNED_FIELDS)


def tool_pin(tool: Tool) -> str:
    """A digest of everything that a model may be shown of a tool."""
    return f"sha256:{digest(pinned_fields(tool))}"


def mismatch(server: str, grant: Grant, tool: Tool | None) -> str:
    """Why a tool is not the one that was accepted; empty when it is."""
    if tool is None:
        return f"{server} does not offer {grant.remote}"
    accept = f"inspect it with `diffcourt mcp accept {server}` and commit its pin"
    if not grant.pin:
        return f"{grant.name} has not been accepted yet; {accept}"
    if tool_pin(tool) != grant.pin:
        return f"{grant.name} is not what was accepted: its description or schema changed; {accept}"
    return ""
