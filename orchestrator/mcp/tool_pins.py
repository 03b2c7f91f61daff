"""Pins: a digest over everything by which a server says what a tool is and takes.

A person accepts it once. Whatever changes afterwards, a word of a description included, is another
tool until it is accepted again: descriptions are read by models, so a silent change is an attack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.engine.canonical_json import digest
from orchestrator.engine.types import Json
from orchestrator.mcp.server_config import Grant

if TYPE_CHECKING:
    from mcp_types import Tool

_SAID = {"name", "title", "description", "input_schema", "output_schema", "annotations"}


def said(tool: Tool) -> Json:
    """What the server says of a tool, as it said it."""
    return tool.model_dump(mode="json", by_alias=True, exclude_unset=True, include=_SAID)


def pin_of(tool: Tool) -> str:
    """The pin of a tool."""
    return f"sha256:{digest(said(tool))}"


def mismatch(server: str, grant: Grant, tool: Tool | None) -> str:
    """Why a tool is not the one that was accepted, empty when it is."""
    if tool is None:
        return f"{server} does not offer {grant.remote}"
    accept = f"look at it with `diffcourt mcp accept {server}`, and commit its pin"
    if not grant.pin:
        return f"{grant.name} has not been accepted yet; {accept}"
    if pin_of(tool) != grant.pin:
        return f"{grant.name} is not what was accepted: its description or schema changed; {accept}"
    return ""
