"""The configuration of a server, as data; nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from msgspec import Struct

from orchestrator.engine.canonical_json import digest
from orchestrator.engine.types import Level
from orchestrator.errors import DiffcourtError

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp_types import Tool

MAX_TOTAL_BYTES = 256 << 20
"""What one server may send in one run."""

ReportEnd = Callable[[str], None]
"""Called with the reason why a connection ended, for a person to read."""

Connect = Callable[[ReportEnd], "AbstractAsyncContextManager[TransportStreams]"]
"""Opens a transport to a server: streams of messages, closed at the end."""


class ServerError(DiffcourtError):
    """A server, or one of its tools, cannot be used; the message is one line."""


class Grant(Struct, frozen=True):
    """One tool that the configuration allows; tools without a grant are ignored.

    Attributes:
        name: the tool's name for agents.
        remote: its name on the server.
        max_output: characters that reach a model.
        pin: digest of the description and schemas that a person accepted, empty for none.
    """

    name: str
    remote: str
    level: Level = Level.READ
    timeout: float = 60.0
    max_output: int = 20_000
    tags: frozenset[str] = frozenset()
    pin: str = ""


class McpServer(Struct, frozen=True):
    """One server.

    Attributes:
        start: seconds until it must have responded.
        refused: why it may not be started here; empty when it may.
    """

    name: str
    connect: Connect
    grants: tuple[Grant, ...]
    start: float = 20.0
    refused: str = ""


_PINNED_FIELDS = {"name", "title", "description", "input_schema", "output_schema", "annotations"}


def tool_pin(tool: Tool) -> str:
    """A digest of everything that a model may be shown of a tool.

    A person accepts a pin once. A tool that changes afterwards, even by a word of its description,
    is refused until it is accepted again: a silent change of what models read is an attack.
    """
    shown = tool.model_dump(mode="json", by_alias=True, exclude_unset=True, include=_PINNED_FIELDS)
    return f"sha256:{digest(shown)}"


def mismatch(server: str, grant: Grant, tool: Tool | None) -> str:
    """Why a tool is not the one that was accepted; empty when it is."""
    if tool is None:
        return f"{server} does not offer {grant.remote}"
    accept = f"inspect it with `diffcourt mcp accept {server}` and commit its pin"
    if not grant.pin:
        return f"{grant.name} has not been accepted yet; {accept}"
    if tool_pin(tool) != grant.pin:
        return (
            f"{grant.name} differs from what was accepted: its description or schema changed; "
            f"{accept}"
        )
    return ""
